//! The supervisor: one small process per session, between the host program and the session's shell.
//!
//! The host (Node or Bun) cannot do this work itself. A child subreaper inside the host would collect zombies that
//! nothing reaps, a SIGCHLD handler would conflict with the runtime's own, and nothing inside a process survives its
//! SIGKILL. So this process is the session's subreaper and init. Every orphan of the session becomes its child. It
//! reaps all of them, kills trees on request, and ends everything when the host dies for whatever reason.
//!
//! It has one thread, allocates little, and is never on the path of an ordinary command: the host and the shell
//! communicate over their own socket.
//!
//! **It owns** the processes of one session: their roles, groups, limits and confinement, and their orderly end.
//!
//! **It must never know** what a command means, what it prints, or what the caller is waiting for: the host decides, and
//! the supervisor obeys orders and reports.
//!
//! It has no arguments: its first message has what it needs ([`nacre_protocol::supervisor::Setup`]).
//! With `--offer` it prints the isolation that this machine offers, as JSON. With `--job` it is the supervisor of a
//! durable job instead, which outlives the host: see [`job`]. With `--workspace HOST` it keeps a copy-on-write
//! workspace: see [`workspace`]. With `--workspace-offer DIRECTORY` it prints whether workspaces work with their layers
//! there, as JSON. With `--siblings` it exits with 0 if programs can fork siblings. With `--sweep-caches DIRECTORY` it removes the caches of projects that do not need them: see [`caches`]. With `--init MILLISECONDS` it is PID 1 of a container: see [`init`]. With `--enter` it
//! becomes the server in such a container, see [`enter`], and with `--set-up` it prepares the container: see [`set_up`]. With
//! `--vm` it runs a virtual machine, of which it is the first process with `--vm-init`, and carries its connections with `--vm-outlet`: see [`nacre_vm`]. Under another name it is a command of the host: see [`client`].

#![allow(rustdoc::private_intra_doc_links, reason = "nothing but its own program uses this crate")]

mod account;
mod adopter;
mod caches;
mod enclosure;
mod ending;
mod enter;
mod event_loop;
mod files;
mod groups;
mod helpers;
mod init;
mod job;
mod last_state;
mod ordered_kill;
mod own_limits;
mod process_setup;
mod process_table;
mod processes;
mod reap;
mod set_up;
mod spawn;
mod standing;
mod workspace;

use last_state::Keeping;
use nacre_containment::session_mark;
use nacre_host_commands::calls::Calls;
use nacre_host_commands::client;
use nacre_host_commands::directory::Directory;
use nacre_protocol::message;
use nacre_protocol::supervisor::{HostCommands, Setup};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Runs the supervisor, in the role that the arguments name.
pub fn main() {
    client::run_if_called();
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    if words == ["--job"] {
        job::run();
    }
    if words == ["--offer"] {
        println!("{}", serde_json::to_string(&nacre_isolation::offer::probe()).unwrap_or_default());
        return;
    }
    if words == ["--siblings"] {
        std::process::exit(i32::from(!nacre_containment::fork::makes_siblings()));
    }
    if words == ["--vm"] {
        nacre_vm::host::run();
    }
    if words == ["--vm-init"] {
        nacre_vm::guest::run();
    }
    match &words[..] {
        [mode, words @ ..] if mode == "--enter" => enter::run(words),
        [mode, session] if mode == "--vm-outlet" => nacre_vm::outlet::run(session),
        [mode, state, directory] if mode == "--set-up" => set_up::run(state, directory),
        _ => {}
    }
    if let [mode, value] = &words[..] {
        if mode == "--init" {
            init::run(value);
        }
        if mode == "--sweep-caches" {
            caches::sweep(value.as_ref());
            return;
        }
        if mode == "--workspace-offer" {
            let offer = nacre_workspace::probe::probe(value.as_ref());
            println!("{}", serde_json::to_string(&offer).unwrap_or_default());
            return;
        }
        if mode == "--workspace"
            && let Some(host) = value.to_str().and_then(|text| text.parse().ok())
        {
            workspace::run(host);
        }
    }
    // If something has stopped this process, the end of the host continues it: it cannot see that end by itself.
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGCONT);
    let received = message::receive::<Setup>(std::io::stdin().as_fd());
    let Some((setup, descriptors)) = received.ok().flatten().filter(|_| words.is_empty()) else {
        eprintln!("nacre-supervisor: this program is started by nacre, not by hand.");
        std::process::exit(2);
    };
    // Where this is refused, nothing is marked.
    let marked = setup.mark.map(session_mark::take);
    let mut descriptors = descriptors.into_iter();
    let keeping = setup.kept_as.clone().and_then(|id| Some(Keeping::new(id, descriptors.next()?, descriptors.next()?)));
    let (keeping, numbers) = keeping.unzip();
    let calls = setup.commands.as_ref().map(|commands| {
        let mark = setup.mark.filter(|_| matches!(marked, Some(Ok(()))));
        receive_calls(commands, mark.zip(descriptors.next()))
    });
    let ready = calls.transpose().and_then(|calls| {
        let kept = calls.iter().flat_map(Calls::descriptors).chain(numbers.into_iter().flatten()).collect::<Vec<_>>();
        Ok((process_setup::prepare(setup.host, &kept)?, calls))
    });
    match ready {
        Ok((setting, calls)) => event_loop::run(setting, &setup, calls, keeping),
        Err(error) => {
            eprintln!("nacre-supervisor: cannot set itself up: {error}");
            std::process::exit(1);
        }
    }
}

/// Also when the file has been replaced by another version.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Receives calls of the host's commands, at the listener of the mark.
fn receive_calls(
    HostCommands { directory, names }: &HostCommands,
    listener: Option<(u64, OwnedFd)>,
) -> io::Result<Calls> {
    let open = || {
        let (mark, listener) =
            listener.ok_or_else(|| io::Error::other("the limit of file locks (RLIMIT_LOCKS) cannot be raised"))?;
        Ok(Calls::new(Directory::open(Path::new(directory), names, Path::new(OWN_PROGRAM))?, mark, listener))
    };
    let problem =
        |error: io::Error| format!("the commands of the sandbox, in {}: {error}", Path::new(directory).display());
    open().map_err(|error: io::Error| io::Error::new(error.kind(), problem(error)))
}

#[cfg(test)]
mod testing;
