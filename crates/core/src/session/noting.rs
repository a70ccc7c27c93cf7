//! What each happening changes in what is known of the shell.

use super::listening::Happening;
use super::processes::Processes;
use super::shell::{FORK_LIMIT, Phase, Shell};
use crate::driver::Event;
use nacre_containment::pid::Pid;
use nacre_containment::wire::{Order, Report};
use std::path::PathBuf;
use tokio::time::Instant;

impl Shell {
    /// Keeps the phase, the directory and the standby up to date, and lets a shell that has saved its state go on at once.
    pub(super) fn note(&mut self, happening: &Happening) {
        match happening {
            Happening::Shell(Event::Ready { cwd, .. }) => {
                self.phase = Phase::Ready;
                self.cwd.clone_from(cwd);
            }
            Happening::Shell(Event::Ending { cwd, .. }) => {
                self.phase = Phase::Ending;
                self.saved = false;
                self.stale = true;
                self.outdated = true;
                self.cwd.clone_from(cwd);
            }
            Happening::Shell(Event::Saved) => {
                self.handed_over = false;
                if self.phase == Phase::Gone {
                    return;
                }
                self.phase = Phase::Ending;
                self.saved = true;
                if self.driver.resume().is_err() {
                    self.supervisor.order(&Order::KillShell);
                }
            }
            Happening::Shell(Event::Standby { pid }) => {
                self.replace_standby(*pid);
                self.succeeding = false;
            }
            Happening::Shell(Event::Successor { pid }) => {
                self.successor = Some((*pid, Instant::now() + FORK_LIMIT));
                self.with_processes(|processes, with| processes.hold(with));
            }
            Happening::Supervisor(Report::ShellEnded { .. }) => {
                self.died_saving = self.phase == Phase::Ending;
                self.phase = Phase::Dead;
            }
            Happening::Supervisor(Report::StandbyEnded { standby }) if self.standby == Some(*standby) => {
                self.standby = None;
                self.stale = true;
                self.outdated = true;
            }
            Happening::Supervisor(Report::Promoted { shell }) => {
                // One that the dead shell had made at last, and that has told of itself only now, is not the one.
                self.standby = self.standby.filter(|standby| shell.is_some_and(|shell| shell != *standby));
                self.succeeding = false;
                self.stale = true;
                self.outdated = true;
                if let Some(shell) = shell {
                    self.pid = *shell;
                }
            }
            Happening::Supervisor(Report::Started { shell, group }) => {
                // Not the phase: the shell may have told that it is ready before this came through the other channel.
                self.pid = *shell;
                self.group = group.as_ref().map(PathBuf::from);
                self.stale = true;
                self.outdated = true;
            }
            Happening::Supervisor(Report::Rotated { group }) => self.group = group.as_ref().map(PathBuf::from),
            Happening::SupervisorGone => self.phase = Phase::Gone,
            // The rest is for the running command or for the background processes.
            Happening::Shell(Event::Born { .. } | Event::Begun { .. } | Event::Stillborn { .. })
            | Happening::Supervisor(_) => {}
        }
    }

    /// Makes the successor known as the standby: when the old shell has left, it is promoted like one. The order of the two
    /// channels does not matter: the old shell leaves only after this.
    ///
    /// The race: the standby before it, which is killed now, may have been asked for a fork. Its answer would never come, or
    /// the fork would be there and nobody know of it. So this waits until the standby is not at work any more.
    pub(super) fn succeed_when_idle(&mut self) {
        let Some((pid, _)) = self.successor.take_if(|_| self.processes.is_idle()) else { return };
        self.replace_standby(pid);
        (self.handed_over, self.succeeding) = (true, true);
        self.with_processes(Processes::standby_replaced);
        if self.driver.dismiss().is_err() {
            self.supervisor.order(&Order::KillShell);
        }
    }

    /// The supervisor kills the one before.
    fn replace_standby(&mut self, pid: Pid) {
        let mut retired = std::mem::take(&mut self.retired);
        retired.retain(|pid| self.find(*pid).is_some());
        retired.extend(self.standby.replace(pid));
        self.retired = retired;
        self.supervisor.order(&Order::Standby { pid });
    }
}
