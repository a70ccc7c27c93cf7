//! Warns about a stream that is not read while other commands of its session wait.
//!
//! A slow reader holds up its command, and the session runs one command at a time. A loop over a stream that awaits another
//! command of the same session therefore waits for itself.

use super::context::Context;
use super::foreground::Foreground;
use super::timers::Timer;
use std::time::Duration;
use tokio::time::Instant;

/// How long no output is read, with a command waiting, before the warning.
const STALL: Duration = Duration::from_secs(5);

impl Foreground {
    /// Looks later, if a stream could keep commands waiting.
    pub(super) fn expect_stall(&mut self, cx: &mut Context, waiting: usize) {
        if waiting > 0 && !cx.timers.is_set(Timer::Stall) && self.command().is_some_and(|command| command.can_stall()) {
            cx.timers.set(Timer::Stall, Instant::now() + STALL);
        }
    }

    /// Warns if a stream keeps commands waiting.
    pub(super) fn look_for_stall(&mut self, cx: &mut Context, waiting: usize) {
        let Some(command) = self.command().filter(|command| waiting > 0 && command.can_stall()) else {
            return;
        };
        let stalled = command.stalled_for();
        if stalled >= STALL {
            command.stall_logged();
            let command = command.request().command.shown();
            tracing::warn!(log = cx.config.log.id(), session = %cx.config.id, command, waiting, "commands wait for a stream whose output is not read: read it to its end, kill it, or use another session");
        } else {
            cx.timers.set(Timer::Stall, Instant::now() + (STALL - stalled));
        }
    }
}
