//! Pipes of an ended command that wait for the next command.
//!
//! They take four descriptors, so an idle session keeps none. A few sessions of the process keep theirs for longer,
//! which saves opening new pipes after each pause.

use super::Foreground;
use crate::output::reader::Reader;
use crate::session::context::Context;
use crate::session::streams::OutputPipes;
use crate::session::timers::Timer;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// How long most sessions keep their pipes.
const SHORT: Duration = Duration::from_millis(20);
/// How long a few sessions keep their pipes.
const LONG: Duration = Duration::from_secs(1);
/// How many sessions of the process keep their pipes for longer.
const FEW: usize = 16;

static KEEPERS: Semaphore = Semaphore::const_new(FEW);

/// See the module.
#[derive(Default)]
pub(super) struct IdlePipes {
    pub pipes: Option<OutputPipes>,
    /// The right of the session to keep its pipes for longer.
    keeper: Option<SemaphorePermit<'static>>,
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
        idle.keeper = idle.keeper.take().or_else(|| KEEPERS.try_acquire().ok());
        if !cx.timers.is_set(Timer::IdlePipes) {
            cx.timers.set(Timer::IdlePipes, Instant::now() + if idle.keeper.is_some() { LONG } else { SHORT });
        }
    }

    /// Closes the pipes, and lets another session keep its own for longer.
    pub fn close_pipes(&mut self) {
        self.idle_pipes = IdlePipes::default();
    }
}
