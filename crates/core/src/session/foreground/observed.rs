//! What observers learn of the running command: its output from time to time, and its end.

use super::{Foreground, ForegroundCommand};
use crate::exec::Outcome;
use crate::feed::{CommandEnd, MOST_OUTPUT, What};
use crate::session::context::Context;
use crate::session::timers::Timer;
use std::time::Duration;
use tokio::time::Instant;

/// Between two reports of output to observers.
const BETWEEN_OUTPUT: Duration = Duration::from_millis(100);

impl Foreground {
    /// Reports the output of the running command to observers soon, if there are some.
    pub fn expect_output(&self, cx: &mut Context) {
        if !cx.timers.is_set(Timer::Output) && cx.config.feed.is_watched() {
            cx.timers.set(Timer::Output, Instant::now() + BETWEEN_OUTPUT);
        }
    }

    /// Reports the output of the running command since the last report.
    pub fn show_output(&mut self, cx: &Context) {
        if let Some(command) = &mut self.running {
            show_unseen(cx, command);
        }
    }
}

/// Reports the output of a command since the last report.
pub(in crate::session) fn show_unseen(cx: &Context, command: &mut ForegroundCommand) {
    let (total, _) = command.capture.so_far();
    let newest = command.capture.newest(command.seen, MOST_OUTPUT);
    command.seen = total;
    if newest.iter().any(|bytes| !bytes.is_empty()) {
        cx.happens(What::CommandOutput { id: command.request.id, total, newest });
    }
}

/// Reports the end of a command, and before that the output that was not reported. `seen`: bytes that were. `keeps_state`:
/// the shell is as before but for `$?`.
pub(in crate::session) fn show_end(cx: &Context, id: u64, outcome: &Outcome, seen: [u64; 2], keeps_state: bool) {
    let kept = [&outcome.stdout, &outcome.stderr];
    let dropped = [outcome.dropped.0, outcome.dropped.1];
    let total = [0, 1].map(|stream| kept[stream].len() as u64 + dropped[stream]);
    if total != seen && cx.config.feed.is_watched() {
        let newest = [0, 1].map(|stream| {
            // Before the gap is the beginning of the output.
            let behind_gap = if dropped[stream] > 0 { kept[stream].len() / 2 } else { kept[stream].len() };
            let unseen = usize::try_from(total[stream] - seen[stream]).unwrap_or(usize::MAX);
            let count = unseen.min(behind_gap).min(MOST_OUTPUT);
            kept[stream][kept[stream].len() - count..].to_vec()
        });
        cx.happens(What::CommandOutput { id, total, newest });
    }
    let end = CommandEnd {
        exit_code: outcome.exit_code,
        signal: outcome.signal,
        killed_by: outcome.killed_by.clone(),
        duration: outcome.duration,
        total,
        keeps_state,
        cwd: outcome.cwd.to_string_lossy().into_owned(),
        usage: outcome.usage,
        traffic: outcome.traffic,
    };
    cx.happens(What::CommandEnded { id, end: Box::new(end) });
}
