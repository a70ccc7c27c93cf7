//! Pipes of an ended command that wait for the next command.
//!
//! They take four descriptors, so an idle session keeps none. A few sessions of the process keep theirs for longer,
//! which saves opening new pipes after each pause.

use super::Foreground;
use crate::output::reader::Reader;
use crate::session::context::Context;
use crate::session::streams::OutputPipes;
use crate::session::timers::Timer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How long most sessions keep their pipes.
const SHORT: Duration = Duration::from_millis(20);
/// How long a few sessions keep their pipes.
const LONG: Duration = Duration::from_secs(1);
/// How many sessions of the process keep their pipes for longer.
const FEW: usize = 16;

static KEEPING: AtomicUsize = AtomicUsize::new(0);

/// See the module.
#[derive(Default)]
pub(super) struct IdlePipes {
    pub pipes: Option<OutputPipes>,
    keeper: Option<Keeper>,
}

impl Foreground {
    /// Keeps the pipes of an ended command for a while, unless its processes may still use them.
    pub(super) fn keep_pipes(&mut self, cx: &mut Context, pipes: Result<OutputPipes, Reader>) {
        match pipes {
            Ok(pipes) => {
                cx.timers.clear(Timer::IdlePipes);
                self.take_back_pipes(cx, pipes);
            }
            Err(leftover) => self.leftover = Some(leftover),
        }
    }

    /// Takes back pipes that no command has used. They are not kept for longer than before.
    pub fn take_back_pipes(&mut self, cx: &mut Context, pipes: OutputPipes) {
        let idle = &mut self.idle_pipes;
        idle.pipes = Some(pipes);
        idle.keeper = idle.keeper.take().or_else(Keeper::new);
        if !cx.timers.is_set(Timer::IdlePipes) {
            cx.timers.set(Timer::IdlePipes, Instant::now() + if idle.keeper.is_some() { LONG } else { SHORT });
        }
    }

    /// Closes the pipes, and lets another session keep its own for longer.
    pub fn close_pipes(&mut self) {
        self.idle_pipes = IdlePipes::default();
    }
}

/// The right of a session to keep its pipes for longer.
struct Keeper(());

impl Keeper {
    /// Counts one more session, if there is room.
    fn new() -> Option<Self> {
        let one_more = |count| (count < FEW).then_some(count + 1);
        KEEPING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok().map(|_| Self(()))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        KEEPING.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_few_sessions_keep_their_pipes_for_longer() {
        let keepers: Vec<_> = std::iter::from_fn(Keeper::new).take(FEW + 1).collect();
        assert_eq!(keepers.len(), FEW);
        drop(keepers);
        assert!(Keeper::new().is_some());
    }
}
