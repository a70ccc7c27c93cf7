//! What comes from a shell and its supervisor, one thing after the other.

use super::shell::{Phase, Shell};
use crate::driver::Event;
use nacre_containment::signal;
use nacre_containment::wire::Report;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How often to look whether somebody has stopped a shell that the engine waits for.
const STOPPED_LOOK: Duration = Duration::from_millis(100);
/// What bash says when it can not fork, in front of the system's reason. Not translated.
const FORK_FAILS: &[u8] = b"fork: ";
/// Base output is kept for the moment a shell dies with a message; this much is enough for any.
const MOST_BASE_OUTPUT: usize = 64 * 1024;

/// Something that has happened.
#[derive(Clone, Debug)]
pub enum Happening {
    /// The shell has told something.
    Shell(Event),
    /// The supervisor has told something.
    Supervisor(Report),
    /// The supervisor is gone.
    SupervisorGone,
}

impl Shell {
    /// The next thing that happens. Cancel-safe. Keeps `phase`, `cwd` and the standby up to date, and lets a shell that
    /// has saved its state go on at once.
    pub async fn next(&mut self) -> Happening {
        loop {
            if let Some(mut happening) = self.pending.pop_front() {
                self.correct(&mut happening);
                self.note(&happening);
                self.with_processes(|processes, with| processes.note(&happening, with));
                self.succeed_when_idle();
                return happening;
            }
            let successor_waits_until = self.successor.map(|(_, until)| until);
            tokio::select! {
                biased;
                source = readable(&self.control) => self.read_control(source),
                report = self.supervisor.report(), if self.phase != Phase::Gone => {
                    if matches!(report, Some(Report::ProcessEnded { .. })) {
                        // It may have said why on a channel that is slower.
                        self.read_control(1);
                    }
                    self.pending.push_back(report.map_or(Happening::SupervisorGone, Happening::Supervisor));
                }
                source = readable(&self.base) => self.read_base(source),
                () = reached(successor_waits_until) => {
                    self.with_processes(|processes, with| processes.fork_failed(with));
                    self.succeed_when_idle();
                }
            }
        }
    }

    /// The next thing that happens, unless nothing does for so long. For what the shell does for the engine: somebody may
    /// stop it meanwhile (SIGSTOP), and since nobody's time is up, nobody else would continue it.
    pub async fn next_within(&mut self, limit: Duration) -> Option<Happening> {
        let end = Instant::now() + limit;
        loop {
            let look_at = end.min(Instant::now() + STOPPED_LOOK);
            if let Ok(happening) = timeout_at(look_at, self.next()).await {
                return Some(happening);
            }
            if self.is_stopped()
                && let Some(identity) = self.find(self.pid)
            {
                let _ = signal::send_to(identity, libc::SIGCONT);
            }
            if Instant::now() >= end {
                return None;
            }
        }
    }

    /// Whether something has happened that [`Shell::next`] gives at once. Looks at what the shell tells, without waiting.
    pub fn poll(&mut self) -> bool {
        if self.driver.has_told() {
            self.read_control(0);
        }
        !self.pending.is_empty()
    }

    fn read_control(&mut self, source: usize) {
        let events = self.driver.events().unwrap_or_default();
        self.pending.extend(events.into_iter().map(Happening::Shell));
        clear(&self.control[source]);
    }

    fn read_base(&mut self, source: usize) {
        let kept = &mut self.base_output[source];
        loop {
            kept.reserve(4096);
            match crate::sys::read_spare(self.base[source].get_ref(), kept, usize::MAX) {
                Ok(count) if count > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let fork_failed = kept.windows(FORK_FAILS.len()).any(|window| window == FORK_FAILS);
        if fork_failed && self.snapshotting {
            self.snapshotting = false;
            self.base_output[1].clear();
            self.give_up_forking();
        } else if fork_failed {
            self.with_processes(|processes, with| processes.fork_failed(with));
        }
        let kept = &mut self.base_output[source];
        let excess = kept.len().saturating_sub(MOST_BASE_OUTPUT);
        kept.drain(..excess);
        clear(&self.base[source]);
    }

    /// What the shell has printed outside of commands since the last call.
    pub fn take_base_output(&mut self) -> [Vec<u8>; 2] {
        self.read_base(0);
        self.read_base(1);
        std::mem::take(&mut self.base_output)
    }

    /// `PWD` is a variable like any other: when it holds no directory the kernel is asked.
    fn correct(&self, happening: &mut Happening) {
        if let Happening::Shell(Event::Ready { cwd, .. } | Event::Ending { cwd, .. }) = happening
            && !cwd.is_absolute()
        {
            *cwd = std::fs::read_link(format!("/proc/{}/cwd", self.pid)).unwrap_or_else(|_| self.cwd.clone());
        }
    }
}

/// Waits for a time, or for ever.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Which of two descriptors is readable.
async fn readable(pair: &[AsyncFd<Arc<OwnedFd>>; 2]) -> usize {
    tokio::select! {
        biased;
        Ok(_) = pair[0].readable() => 0,
        Ok(_) = pair[1].readable() => 1,
        else => std::future::pending().await,
    }
}

/// Forgets readiness after everything has been read. Safe because the reactor runs on this very thread: nothing can have
/// been noticed between the read and this call.
fn clear(fd: &AsyncFd<Arc<OwnedFd>>) {
    let _ = fd.try_io(tokio::io::Interest::READABLE, |_| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}
