//! Warns about a stream that is not read while other commands of its session wait.
//!
//! A slow reader holds up its command, and the session runs one command at a time. A loop over a stream that awaits another
//! command of the same session therefore waits for itself.

use super::Session;
use super::timers::Timer;
use std::time::Duration;
use tokio::time::Instant;

/// How long no output is read, with a command waiting, before the warning.
const STALL: Duration = Duration::from_secs(5);

impl Session {
    /// Looks later, if a stream could keep commands waiting.
    pub(super) fn expect_stall(&mut self) {
        if !self.state.queue.is_empty()
            && !self.timers.is_set(Timer::Stall)
            && self.foreground.command().is_some_and(|command| command.can_stall())
        {
            self.timers.set(Timer::Stall, Instant::now() + STALL);
        }
    }

    pub(super) fn look_for_stall(&mut self) {
        let waiting = self.state.queue.len();
        let Some(command) = self.foreground.command().filter(|command| waiting > 0 && command.can_stall()) else {
            return;
        };
        let stalled = command.stalled_for();
        if stalled >= STALL {
            command.stall_logged();
            let command = command.request().command.shown();
            tracing::warn!(log = self.config.log.id(), session = %self.config.id, command, waiting, "commands wait for a stream whose output is not read: read it to its end, kill it, or use another session");
        } else {
            self.timers.set(Timer::Stall, Instant::now() + (STALL - stalled));
        }
    }
}
