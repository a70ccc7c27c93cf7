//! The commands of a session that run or wait, for observers.

use super::Session;
use super::calls::Call;
use crate::exec::ExecRequest;
use nacre_containment::pid::Pid;
use std::time::SystemTime;

/// A command that has not ended.
#[derive(Clone, Debug)]
pub struct RunningCommand {
    /// The id of the request.
    pub id: u64,
    /// The command as displayed, perhaps cut.
    pub command: String,
    /// Its run, unless it waits for its turn.
    pub run: Option<Progress>,
}

/// The progress of a command that has begun.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Wall clock.
    pub started_at: SystemTime,
    /// The shell that runs it; `None` if that has just ended.
    pub pid: Option<Pid>,
    /// Bytes that both streams have printed.
    pub output_bytes: [u64; 2],
    /// When the last output was read (wall clock).
    pub last_output_at: Option<SystemTime>,
}

impl Session {
    /// The running command, and the queued ones in their order.
    pub(super) fn running(&mut self) -> Vec<RunningCommand> {
        let shown =
            |request: &ExecRequest, run| RunningCommand { id: request.id, command: request.command.shown(), run };
        let pid = self.shell.pid();
        let running = self.foreground.command().map(|command| shown(command.request(), Some(command.progress(pid))));
        let queued = self.state.queue.iter().filter_map(|(ticket, _)| match self.calls.get(*ticket) {
            Some(Call::Exec(request, _)) => Some(shown(request, None)),
            _ => None,
        });
        running.into_iter().chain(queued).collect()
    }
}
