//! The commands of a session that run or wait, and what the session uses, for observers.

use super::Session;
use super::calls::Call;
use super::timers::Timer;
use crate::error::Error;
use crate::exec::{ExecRequest, Outcome};
use crate::feed::{CommandEnd, MOST_OUTPUT, What};
use crate::process::SessionStats;
use nacre_containment::pid::Pid;
use std::time::{Duration, SystemTime};
use tokio::sync::oneshot;
use tokio::time::Instant;

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

/// Between two reports of output to observers.
const BETWEEN_OUTPUT: Duration = Duration::from_millis(100);

impl Session {
    /// Reports the output of the running command to observers soon, if there are some.
    pub(super) fn expect_output(&mut self) {
        if !self.timers.is_set(Timer::Output) && self.config.feed.is_watched() {
            self.timers.set(Timer::Output, Instant::now() + BETWEEN_OUTPUT);
        }
    }

    /// Reports the output of the running command since the last report.
    pub(super) fn show_output(&mut self) {
        let Some((id, total, newest)) = self.foreground.command().map(|command| command.unseen_output()) else {
            return;
        };
        if newest.iter().any(|bytes| !bytes.is_empty()) {
            self.happens(What::CommandOutput { id, total, newest });
        }
    }

    /// Reports the end of a command, and before that the output that was not reported. `seen`: bytes that were.
    pub(super) fn show_end(&mut self, id: u64, outcome: &Outcome, seen: [u64; 2]) {
        let kept = [&outcome.stdout, &outcome.stderr];
        let dropped = [outcome.dropped.0, outcome.dropped.1];
        let total = [0, 1].map(|stream| kept[stream].len() as u64 + dropped[stream]);
        if total != seen && self.config.feed.is_watched() {
            let newest = [0, 1].map(|stream| {
                // Before the gap is the beginning of the output.
                let behind_gap = if dropped[stream] > 0 { kept[stream].len() / 2 } else { kept[stream].len() };
                let unseen = usize::try_from(total[stream] - seen[stream]).unwrap_or(usize::MAX);
                let count = unseen.min(behind_gap).min(MOST_OUTPUT);
                kept[stream][kept[stream].len() - count..].to_vec()
            });
            self.happens(What::CommandOutput { id, total, newest });
        }
        outcome.denials.iter().for_each(|target| self.happens(What::Denied { target: target.clone() }));
        let end = CommandEnd {
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            killed_by: outcome.killed_by.clone(),
            duration: outcome.duration,
            total,
            cwd: outcome.cwd.to_string_lossy().into_owned(),
        };
        self.happens(What::CommandEnded { id, end: Box::new(end) });
    }

    /// Answers with the resource usage of the session, beside whatever it does. Without a supervisor it is 0.
    pub(super) fn read_stats(&self, reply: oneshot::Sender<Result<SessionStats, Error>>) {
        let Some(supervisor) = self.supervision.last().cloned() else {
            return drop(reply.send(Ok(SessionStats { sessions: 1, ..SessionStats::default() })));
        };
        let group = self.supervision.session_group().cloned();
        tokio::spawn(async move {
            let stats = SessionStats::of(supervisor.pid(), group).await;
            drop((supervisor, reply.send(stats)));
        });
    }

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
