//! The guard: the supervisor's parent process, which does nothing unless the supervisor is killed.
//!
//! A killed supervisor cannot end its processes, which would survive it. The parent-death signal only kills the
//! command itself, and only a control group tracks the others. So the guard is also a subreaper. When the supervisor
//! dies, its children become the guard's, which kills and reaps them until none is left. Without subreapers, the processes
//! end with the supervisor: see [`crate::adopter`]. The guard waits in one system call, shares its memory with the supervisor, and is in a process group that is not published.
//!
//! The guard makes the job's directory, with its lock, before it forks the supervisor. So the lock is held until nothing of
//! the job is left, also after the death of the supervisor.

use super::directory::{self, Claimed};
use super::{Channels, life, ready};
use crate::adopter::Adopter;
use crate::own_limits::Limits;
use crate::process_setup;
use nacre_containment::cgroup::Group;
use nacre_containment::ladder::UNKILLABLE;
use nacre_containment::{fork, signal};
use nacre_protocol::job::{Answer, JobRequest};
use std::time::{Duration, Instant};

/// Becomes the guard, after starting the supervisor. Never returns.
pub fn run(request: JobRequest, channels: Channels) -> ! {
    if let Err(error) = process_setup::lead(&[]) {
        ready::refuse(&channels, &error);
        std::process::exit(1);
    }
    // Otherwise, the processes end with the supervisor.
    let _ = Adopter::of_this_process();
    let claimed = match directory::claim(&request) {
        Ok(claimed) => claimed,
        Err((kind, message)) => {
            ready::answer(channels.answer, &Answer::Refused { kind, message });
            std::process::exit(0);
        }
    };
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        0 => life::run(request, channels, claimed),
        child if child < 0 => {
            ready::refuse(&channels, &std::io::Error::last_os_error());
            claimed.discard();
            std::process::exit(1);
        }
        // The guard keeps the pipe to the starter open. So once the starter reads end of file, which means a failed
        // start, everything that the supervisor created has been removed.
        child => watch(child, &request, channels, &claimed),
    }
}

fn watch(supervisor: i32, request: &JobRequest, channels: Channels, claimed: &Claimed) -> ! {
    let Channels { answer: _answer, stdin, null: _ } = channels;
    drop(stdin);
    let limits = Limits::current();
    if fork::wait(supervisor) == Some(0) {
        // It has ended everything itself.
        std::process::exit(0);
    }
    let group =
        request.group_parent.as_ref().map(|parent| Group::at(parent.join(life::group_name(supervisor, request))));
    let give_up = Instant::now() + UNKILLABLE;
    loop {
        limits.restore();
        if let Some(group) = &group {
            let _ = group.kill();
        }
        signal::kill_descendants();
        if (fork::reap_all() && group.as_ref().is_none_or(|group| group.remove().is_ok())) || Instant::now() > give_up {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    life::clear_remains(request);
    // An interrupted start.
    claimed.discard();
    std::process::exit(0);
}
