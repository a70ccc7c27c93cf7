//! Ending a foreground command before its time: because somebody wants it, or because its report was lost.

use super::actor::Session;
use super::foreground::Run;
use super::killing::{Cause, Killing};
use super::shell::Phase;
use crate::exec::ExecRequest;
use nacre_containment::wire::Order;
use std::time::Duration;

impl Session {
    pub(super) fn start_killing(&mut self, run: &mut Run, request: &ExecRequest, cause: Cause, signal: Option<i32>) {
        let Some(shell) = self.shell.as_mut() else { return };
        if let Some(killing) = &mut run.killing {
            if signal == Some(libc::SIGKILL) {
                killing.insist();
                shell.supervisor.order(&Order::Insist);
            }
            return;
        }
        self.ladders += 1;
        let signal = signal.unwrap_or(request.kill.signal);
        let grace = if signal == libc::SIGKILL { Duration::ZERO } else { request.kill.grace };
        let mut killing = Killing::start(self.ladders, cause, signal, grace);
        // A successor that an ending shell forks could not be told from the command's own processes.
        shell.driver.plain_exit();
        let last_words = shell.driver.has_last_words();
        // One that is there already must live.
        run.spare.extend(shell.successor.map(|(pid, _)| pid));
        shell.supervisor.order(&Order::KillForeground {
            id: self.ladders,
            signal,
            grace_ms: grace.as_millis() as u64,
            spare: std::mem::take(&mut run.spare),
            last_words,
        });
        run.withdrawn = run.skip_ready && shell.driver.take_back();
        if matches!(shell.phase, Phase::Ending | Phase::Dead) {
            killing.shell_ended();
            if shell.phase == Phase::Dead || shell.saved || !last_words {
                shell.supervisor.order(&Order::Settled);
            }
        }
        run.killing = Some(killing);
    }

    pub(super) fn kill_shell(&mut self) {
        if let Some(shell) = &self.shell {
            shell.supervisor.order(&Order::KillShell);
        }
    }

    /// `set -n`, a function called `builtin` and the like: the shell waits for a command and will never report this one.
    pub(super) fn check_report(&mut self, run: &mut Run) {
        let Some(shell) = &self.shell else { return };
        if shell.phase != Phase::Busy || run.report_lost {
            return;
        }
        run.report_lost = run.suspicions.prove(shell.driver.suspicion(shell.pid));
        if run.report_lost {
            shell.supervisor.order(&Order::KillShell);
        }
    }
}
