//! The set-up of a container of `openSandbox`: a command that root runs once, before any client may run commands.
//!
//! Each client starts this, and its input is its lifeline. One of them runs the command, and the others wait for the end. If its
//! input ends before, so does everything that the command has started, and the set-up counts as interrupted.

use crate::adopter::Adopter;
use crate::enter::programs;
use nacre_containment::ladder::UNKILLABLE;
use nacre_containment::signal::kill_descendants;
use nacre_isolation::privileges;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The exit codes: lib/engine/setup.ts has them too.
const FAILED: i32 = 74;
const INTERRUPTED: i32 = 75;

/// Arguments of bash. All users can see them, so the text of the command, which may have a password, is in a variable. Daemons
/// that it starts do not get the variable.
const ARGUMENTS: [&str; 2] = ["-c", r#"setup=$NACRE_SETUP; unset NACRE_SETUP; eval "$setup""#];

/// Bytes of the output that a message shows.
const MOST_SHOWN: i64 = 2000;
/// Between two looks at what was killed.
const PAUSE: Duration = Duration::from_millis(10);

/// `--set-up STATE DIRECTORY`: runs the command of NACRE_SETUP in the directory, or waits for its end.
pub fn run(state: &OsStr, directory: &OsStr) -> ! {
    let code = run_once(Path::new(state), Path::new(directory)).unwrap_or_else(|error| {
        eprintln!("nacre-supervisor: {error}");
        1
    });
    std::process::exit(code);
}

fn run_once(state: &Path, directory: &Path) -> io::Result<i32> {
    // What it prints is for root.
    DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    let lock = File::create(state.join("lock"))?;
    // It is free when the process that has it ends, in whatever way.
    flock(&lock, FlockOperation::LockExclusive)?;
    let (code, log) = (state.join("code"), state.join("log"));
    if !code.exists() {
        let output = File::create(&log)?;
        // Daemons become its children, or those of the init of a namespace, and can be killed. That may need the rights.
        let mut adopter = Adopter::of_this_process();
        adopter.ensure()?;
        privileges::drop_rights_of_server()?;
        match OpenOptions::new().write(true).create_new(true).open(state.join("begun")) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(INTERRUPTED),
            begun => begun?,
        };
        let Some(number) = perform(directory, output, adopter)? else { return Ok(INTERRUPTED) };
        fs::write(&code, number.to_string())?;
    }
    match fs::read_to_string(&code)?.parse::<i32>() {
        Ok(0) => Ok(0),
        Ok(number) => {
            eprintln!("exit code {number}");
            io::stderr().write_all(&last(&log)?)?;
            Ok(FAILED)
        }
        // The machine has failed.
        Err(_) => Ok(INTERRUPTED),
    }
}

/// The exit code of the command. `None` if the lifeline has ended before.
fn perform(directory: &Path, mut log: File, mut adopter: Adopter) -> io::Result<Option<i32>> {
    // The working directory of the command is the project's, and the image may name it in its PATH.
    let search = std::env::var_os("PATH").unwrap_or_default();
    let Some(bash) = programs(&search, "bash").next() else {
        return writeln!(log, "there is no bash").map(|()| Some(127));
    };
    let mut command = Command::new(bash);
    command.args(ARGUMENTS).env("HOME", "/root").current_dir(directory);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    let ends = SigSet::from_iter([Signal::SIGCHLD]);
    ends.thread_block()?;
    let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    // SAFETY: one system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(move || Ok(ends.thread_unblock()?)) };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return writeln!(log, "bash cannot be started: {error}").map(|()| Some(127)),
    };
    let end = await_end(child, &signals)?;
    if end.is_some() {
        adopter.release();
    }
    let give_up = Instant::now() + UNKILLABLE;
    while end.is_none() && kill_descendants() && Instant::now() < give_up {
        thread::sleep(PAUSE);
    }
    Ok(end.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))))
}

/// How the command ends. `None` if the lifeline ends before.
fn await_end(mut child: Child, signals: &SignalFd) -> io::Result<Option<ExitStatus>> {
    let mut lifeline = io::stdin();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let mut fds = [lifeline.as_fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let _ = poll(&mut fds, PollTimeout::NONE);
        if fds[0].any().unwrap_or(false) && lifeline.read(&mut [0; 64])? == 0 {
            return Ok(None);
        }
        while let Ok(Some(_)) = signals.read_signal() {}
    }
}

fn last(file: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    let _ = file.seek(SeekFrom::End(-MOST_SHOWN));
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(text)
}
