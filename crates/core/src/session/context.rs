//! What all parts of a session use.

use super::config::SessionConfig;
use super::end_reason::EndReason;
use super::internal::Internal;
use super::numbers::Numbers;
use super::timers::Timers;
use crate::error::Error;
use crate::feed::What;
use crate::shell::event::Event;
use crate::shell::listener::Reconnected;
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use tokio::sync::mpsc::UnboundedSender;

/// See the module.
pub(super) struct Context {
    pub config: SessionConfig,
    pub end_reason: EndReason,
    pub numbers: Numbers,
    pub timers: Timers,
    /// For the shell's state machine.
    pub events: VecDeque<Event>,
    /// Sends reports of the session's own tasks.
    pub internal: UnboundedSender<Internal>,
    /// Sends the new channels of its shells.
    pub reconnects: UnboundedSender<Reconnected>,
    /// The directory after the last command.
    pub cwd: PathBuf,
}

impl Context {
    /// Reports what has happened to observers.
    pub(super) fn happens(&self, what: What) {
        self.config.feed.push(&self.config.id, what);
    }

    /// The error of a call that the end of the session cuts off.
    pub(super) fn ended_error(&self) -> Error {
        self.end_reason.error(&self.config.id)
    }

    /// Reports an event that cannot happen. A debug build, which the tests use, stops the session: no defect passes them.
    pub(super) fn defect(&self, what: &dyn fmt::Display) {
        tracing::error!(log = self.config.log.id(), session = %self.config.id, "a defect of nacre: {what}");
        debug_assert!(false, "a defect of nacre: {what}");
    }
}
