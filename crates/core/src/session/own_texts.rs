//! Texts of the engine's own in the shell: questions, preparations, and the forks that stand by.

use super::actor::Session;
use super::listening::Happening;
use super::processes::no_fork;
use super::shell::{Phase, Shell};
use nacre_containment::wire::Order;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long the snapshot's fork may take. It takes a millisecond or two; when there are too many processes bash tries
/// again after a second, which this leaves time for.
const FORK_LIMIT: Duration = Duration::from_millis(1200);
/// From the end of the fork until the standby has told of itself.
const STANDBY_LIMIT: Duration = Duration::from_secs(1);
/// After a fork that failed no snapshot is tried for this long.
const SNAPSHOT_PAUSE: Duration = Duration::from_secs(10);
/// Longest time an engine's own text may take in the shell.
const INTERNAL_LIMIT: Duration = Duration::from_secs(10);

/// The shell went away under an internal text.
pub(super) struct ShellLost;

impl Session {
    /// Runs a text of the engine's own, which may fail.
    pub(super) async fn internal(&mut self, text: &[u8]) -> Result<(), ShellLost> {
        let guarded = self.shell.as_ref().map(|shell| shell.driver.guarded(text)).ok_or(ShellLost)?;
        self.internal_within(&guarded, INTERNAL_LIMIT, |shell| shell.supervisor.order(&Order::KillShell)).await
    }

    /// Runs a text of the engine's own as it is; each time that nothing has happened for `limit`, does what is `overdue`.
    async fn internal_within(
        &mut self,
        text: &[u8],
        limit: Duration,
        overdue: impl Fn(&Shell),
    ) -> Result<(), ShellLost> {
        let Some(shell) = self.shell.as_mut() else { return Err(ShellLost) };
        shell.phase = Phase::Busy;
        if shell.driver.run_internal(text).is_err() {
            shell.supervisor.order(&Order::KillShell);
        }
        // An EXIT trap that began before the text was taken has nothing to do with it: the shell comes back, is ready
        // once more, and only then takes it.
        let (mut skip, mut lost) = (false, false);
        loop {
            let Some(happening) = shell.next_within(limit).await else {
                overdue(shell);
                continue;
            };
            match happening {
                Happening::Shell(crate::driver::Event::Ready { .. }) => {
                    if lost {
                        return Err(ShellLost);
                    }
                    if !std::mem::take(&mut skip) {
                        return Ok(());
                    }
                }
                Happening::Shell(crate::driver::Event::Ending { .. }) if shell.driver.token_unread() => skip = true,
                Happening::Shell(crate::driver::Event::Ending { .. }) => lost = true,
                _ if matches!(shell.phase, Phase::Dead | Phase::Gone) => return Err(ShellLost),
                _ => {}
            }
        }
    }

    /// Runs a text of the engine's own and says whether it succeeded.
    pub(super) async fn checked(&mut self, text: &[u8]) -> Result<bool, ShellLost> {
        let text = self.shell.as_ref().map(|shell| shell.driver.checked(text)).ok_or(ShellLost)?;
        self.internal(&text).await?;
        let shell = self.shell.as_mut().ok_or(ShellLost)?;
        Ok(shell.driver.stored().is_ok_and(|answer| answer == b"0"))
    }

    /// Forks the standby and waits until it stands by.
    ///
    /// A fork that fails, since there are as many processes as there may be, leaves the old standby in place: older, but
    /// better than none. A non-interactive bash that cannot fork exits, by its EXIT trap, so it comes back with its state;
    /// but it is to do so soon, and not be asked for the same again at once.
    pub(super) async fn snapshot(&mut self) {
        let begun = Instant::now();
        let Some(shell) = self.shell.as_mut().filter(|_| begun >= self.snapshots_from) else { return };
        // Somebody has stopped it (SIGSTOP). A command has a timeout that continues it; this has not.
        if shell.is_stopped() {
            return;
        }
        shell.retire_standby().await;
        if shell.phase != Phase::Ready {
            return;
        }
        let before = shell.standby;
        let is_renewed = |shell: &Shell| shell.standby.is_some() && shell.standby != before;
        let text = shell.driver.snapshot(shell.pid);
        let kill_at = begun + INTERNAL_LIMIT;
        let overdue = |shell: &Shell| {
            if Instant::now() < kill_at { shell.give_up_forking() } else { shell.supervisor.order(&Order::KillShell) }
        };
        shell.snapshotting = true;
        let ran = self.internal_within(&text, FORK_LIMIT, overdue).await;
        let Some(shell) = self.shell.as_mut() else { return };
        while ran.is_ok() && !is_renewed(shell) && shell.phase == Phase::Ready && shell.snapshotting {
            if timeout(STANDBY_LIMIT, shell.next()).await.is_err() {
                break;
            }
        }
        shell.snapshotting = false;
        // Otherwise it has died, which is another matter.
        if shell.phase != Phase::Ready {
            return;
        }
        if ran.is_err() || !is_renewed(shell) {
            self.snapshots_from = Instant::now() + SNAPSHOT_PAUSE;
            // What cannot be forked now could not be at an exit either.
            shell.driver.plain_exit();
        }
        shell.stale = false;
        shell.outdated = !is_renewed(shell);
        if shell.outdated {
            shell.processes.refuse_queued(no_fork);
            shell.with_processes(|processes, with| processes.go_on(with));
        }
    }

    /// Turns a shell that goes on as a fork of an ended one into one of its own. Takes a tenth of a second when the state
    /// is large, which is why it was not done at once.
    pub(super) async fn renew(&mut self) {
        let Some(shell) = self.shell.as_mut() else { return };
        let text = shell.driver.renew();
        // A shell that dies over it is brought back by whoever needs it next.
        let _ = self.internal(&text).await;
    }
}
