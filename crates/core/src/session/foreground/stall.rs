//! Warns about a stream that is not read while other commands of its session wait.
//!
//! A slow reader holds up its command, and the session runs one command at a time. A loop over a stream that awaits another
//! command of the same session therefore waits for itself.

use super::{Foreground, ForegroundCommand};
use crate::session::context::Context;
use crate::session::timers::Timer;
use std::time::Duration;
use tokio::time::Instant;

/// How long no output is read, with a command waiting, before the warning.
const STALL: Duration = Duration::from_secs(5);

impl Foreground {
    /// Looks later, if a stream could keep commands waiting.
    pub fn expect_stall(&self, cx: &mut Context, waiting: usize) {
        if waiting > 0 && !cx.timers.is_set(Timer::Stall) && self.running.as_ref().is_some_and(can_stall) {
            cx.timers.set(Timer::Stall, Instant::now() + STALL);
        }
    }

    /// Warns if a stream keeps commands waiting.
    pub fn look_for_stall(&mut self, cx: &mut Context, waiting: usize) {
        let Some(command) = self.running.as_mut().filter(|command| waiting > 0 && can_stall(command)) else {
            return;
        };
        let last_read = command.capture.so_far().1.filter(|_| command.is_held_up());
        let stalled = last_read.and_then(|at| at.elapsed().ok()).unwrap_or_default();
        if stalled >= STALL {
            command.is_stall_logged = true;
            let command = command.request.command.shown();
            tracing::warn!(log = cx.config.log.id(), session = %cx.config.id, command, waiting, "commands wait for a stream whose output is not read: read it to its end, kill it, or use another session");
        } else {
            cx.timers.set(Timer::Stall, Instant::now() + (STALL - stalled));
        }
    }
}

/// Whether its caller can keep its output from being read, and was not warned.
fn can_stall(command: &ForegroundCommand) -> bool {
    command.request.live.is_some() && !command.is_stall_logged
}
