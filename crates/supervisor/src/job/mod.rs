//! The supervisor of a durable job: `nacre-supervisor --job`, with the request on descriptor 0.
//!
//! The host starts this program with posix_spawn and reaps it immediately, since it exits once it has forked into the
//! background. Two processes remain, which no longer belong to the host. They are the guard and, below it, the
//! supervisor: the job's session leader, its subreaper, and the process that `meta.json` names.

mod command;
mod directory;
mod guard;
mod hold;
mod life;
mod meta;
mod ready;

use crate::process_setup;
use nacre_protocol::job::JobRequest;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

/// The descriptors that the starter passes with the request.
pub struct Channels {
    /// Receives the reply; end of file without a reply means that the start failed.
    pub answer: OwnedFd,
    /// The command's standard input, or `/dev/null`.
    pub stdin: OwnedFd,
    /// `/dev/null`.
    pub null: File,
}

/// Runs a job's supervisor. Never returns.
pub fn run() -> ! {
    match prepare() {
        Ok((request, channels)) => {
            // SAFETY: this process has one thread, so the child may do anything.
            match unsafe { libc::fork() } {
                0 => guard::run(request, channels),
                child => std::process::exit(i32::from(child < 0)),
            }
        }
        Err(error) => {
            eprintln!("nacre-supervisor: cannot read the request: {error}. This program is started by nacre.");
            std::process::exit(2);
        }
    }
}

fn prepare() -> io::Result<(JobRequest, Channels)> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let mut text = Vec::new();
    File::open("/proc/self/fd/0")?.read_to_end(&mut text)?;
    let request = serde_json::from_slice(&text)?;
    process_setup::take(0, &null)?;
    let (answer, stdin) = (process_setup::take(1, &null)?, process_setup::take(2, &null)?);
    process_setup::close_inherited(&[null.as_raw_fd(), answer.as_raw_fd(), stdin.as_raw_fd()]);
    std::env::set_current_dir("/")?;
    Ok((request, Channels { answer, stdin, null }))
}
