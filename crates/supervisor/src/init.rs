//! PID 1 of a container that nacre has started: reaps orphans, and exits when nothing else has run for a while.
//!
//! The first client starts the container, and later ones share it. Each of them is a process in it, `engine exec -i`, which
//! ends with its input. So the other processes decide whether the container is needed: clients, their commands, and
//! durable jobs. By SIGTERM, it sends the signal to all of them, and waits for their end. When PID 1 exits, the kernel kills
//! what is left.
//!
//! A client may come and go between two ticks. So each announces itself with SIGUSR1.

use crate::reap;
use nacre_containment::proc_table;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Milliseconds between two looks at the other processes.
const TICK_MS: u16 = 500;
/// What the processes have to end after SIGTERM. Engines wait for 5 s or longer.
const END: Duration = Duration::from_secs(4);
/// Milliseconds between two looks at the other processes after SIGTERM.
const END_TICK_MS: u16 = 20;
/// Milliseconds that the first client has to arrive.
const FIRST_CLIENT_MS: u64 = 60_000;

/// `--init MILLISECONDS`: runs until no other process has been there for this time. Exits with 2 for bad use.
pub fn run(grace: &OsStr) -> ! {
    let code = match grace.to_str().and_then(|text| text.parse().ok()) {
        None => complain(2, "--init needs a number of milliseconds"),
        Some(_) if std::process::id() != 1 => complain(2, "--init is for PID 1 of a container"),
        Some(grace) => match serve(Idleness::new(grace)) {
            Ok(()) => 0,
            Err(error) => complain(1, &error.to_string()),
        },
    };
    std::process::exit(code);
}

fn complain(code: i32, problem: &str) -> i32 {
    eprintln!("nacre-supervisor: {problem}");
    code
}

fn serve(mut idleness: Idleness) -> io::Result<()> {
    // Blocked signals reach PID 1, which ignores all others that it does not handle.
    let set = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGUSR1, Signal::SIGTERM, Signal::SIGINT]);
    set.thread_block()?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let mut deadline = None;
    loop {
        // Clients are no children of this process: nothing tells it of their end.
        let pause = if deadline.is_some() { END_TICK_MS } else { TICK_MS };
        let is_tick = match poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], pause) {
            Ok(ready) => ready == 0,
            Err(Errno::EINTR) => false,
            Err(error) => return Err(error.into()),
        };
        while let Some(signal) = signals.read_signal()? {
            match Signal::try_from(signal.ssi_signo.cast_signed()) {
                Ok(Signal::SIGTERM | Signal::SIGINT) if deadline.is_none() => {
                    deadline = Some(Instant::now() + END);
                    // To all processes but this one.
                    let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
                }
                Ok(Signal::SIGUSR1) => idleness.used(),
                _ => {}
            }
        }
        while let Ok(Some(_)) = reap::collect_any() {}
        if deadline.is_some_and(|deadline| Instant::now() >= deadline || !is_used()) {
            return Ok(());
        }
        if is_tick && idleness.tick(is_used()) {
            return Ok(());
        }
    }
}

/// Whether another process runs: a `Pid` is never 1. If /proc cannot be read, one may.
fn is_used() -> bool {
    proc_table::scan().map_or(true, |others| others.iter().any(proc_table::Stat::is_running))
}

/// How long no other process has run, in ticks. Time would be wrong: a machine that slept must not lose its container.
struct Idleness {
    ticks: u64,
    /// The number of ticks at which the container ends.
    most: u64,
    /// The same, once a client has been there.
    grace: u64,
}

impl Idleness {
    fn new(grace_ms: u64) -> Self {
        let ticks = |ms: u64| ms.div_ceil(TICK_MS.into()).max(1);
        Self { ticks: 0, most: ticks(FIRST_CLIENT_MS.max(grace_ms)), grace: ticks(grace_ms) }
    }

    fn used(&mut self) {
        (self.ticks, self.most) = (0, self.grace);
    }

    /// Counts one tick. Returns whether the container ends.
    fn tick(&mut self, is_used: bool) -> bool {
        if is_used {
            self.used();
            return false;
        }
        self.ticks += 1;
        self.ticks >= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::Idleness;

    /// The number of ticks without a process after which the container ends.
    fn ticks_left(mut idleness: Idleness) -> u64 {
        (1..).find(|_| idleness.tick(false)).unwrap()
    }

    #[test]
    fn waits_a_minute_for_the_first_client_and_then_for_the_grace() {
        assert_eq!(ticks_left(Idleness::new(30_000)), 120);
        assert_eq!(ticks_left(Idleness::new(90_000)), 180);
        let mut idleness = Idleness::new(30_000);
        assert!(!idleness.tick(true));
        assert_eq!(ticks_left(idleness), 60);
    }

    #[test]
    fn a_client_between_two_ticks_counts() {
        let mut idleness = Idleness::new(1_200);
        idleness.used();
        assert!(!idleness.tick(false) && !idleness.tick(false));
        idleness.used();
        assert_eq!(ticks_left(idleness), 3);
    }

    #[test]
    fn looks_once_without_a_grace() {
        let mut idleness = Idleness::new(0);
        assert!(!idleness.tick(true));
        assert_eq!(ticks_left(idleness), 1);
    }
}
