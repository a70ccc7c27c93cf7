//! The session's files helper: started by the first call that needs it, ended when it has been idle.

use super::Session;
use super::calls::Call;
use super::startup::spawn_failed;
use super::timers::Timer;
use crate::error::Error;
use crate::files::{Access, Helper};
use crate::shell::state::{Shell, Work};
use nacre_protocol::supervisor::Order;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A helper that has been idle for this long is ended, because it takes half a MiB.
const IDLE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(super) struct Files {
    helper: Option<Arc<Helper>>,
    /// Calls that wait for the start of the session.
    waiting: Vec<Reply>,
}

impl Files {
    /// Refuses later requests.
    pub(super) fn close(&self, error: Error) {
        if let Some(helper) = &self.helper {
            helper.close(error);
        }
    }

    /// Forgets the helper, which has ended with the supervisor.
    pub(super) fn disconnect(&mut self) {
        self.helper = None;
    }

    /// Whether a caller is writing a file.
    pub(super) fn is_writing(&self) -> bool {
        self.helper.as_ref().is_some_and(|helper| helper.is_writing())
    }

    /// Renews the watches: they watch files of a mount that has been replaced.
    pub(super) fn remounted(&self) {
        if let Some(helper) = &self.helper {
            helper.remounted();
        }
    }
}

pub(super) type Reply = oneshot::Sender<Result<Access, Error>>;

impl Session {
    /// Gives access as soon as the session has started, even while a command runs.
    pub(super) fn access_files(&mut self, reply: Reply) {
        self.files.waiting.push(reply);
        self.answer_files_if_started();
        if !self.files.waiting.is_empty() {
            self.submit(Call::Files, Work::Open);
        }
    }

    /// Gives access to the calls that have waited for the start. A command that was queued before them may be running.
    pub(super) fn answer_files_if_started(&mut self) {
        let is_starting = matches!(self.state.shell, Shell::Starting | Shell::SettingUp);
        if self.supervision.is_connected() && self.closing.is_none() && !is_starting {
            self.answer_files(None);
        }
    }

    /// Handles the start of the session, or its failure.
    pub(super) fn answer_files(&mut self, error: Option<Error>) {
        for reply in std::mem::take(&mut self.files.waiting) {
            let _ = reply.send(error.clone().map_or_else(|| self.files_access(), Err));
        }
    }

    fn files_access(&mut self) -> Result<Access, Error> {
        self.timers.set(Timer::Files, Instant::now() + IDLE);
        let living = self.files.helper.as_ref().filter(|helper| !helper.is_gone()).cloned();
        let helper = match living {
            Some(helper) => helper,
            None => self.start_files_helper()?,
        };
        Ok(Access { helper, cwd: self.cwd.clone(), is_rooted: false })
    }

    /// Starts the helper. The call need not wait for it, because its request waits in the helper's socket.
    fn start_files_helper(&mut self) -> Result<Arc<Helper>, Error> {
        let opened = Helper::open(&self.config.id);
        let (helper, theirs) = opened.map_err(|error| spawn_failed("start the files helper", &error))?;
        let helper = Arc::new(helper);
        self.files.helper = Some(Arc::clone(&helper));
        self.order_with(&Order::Files, vec![theirs.into()]);
        Ok(helper)
    }

    /// Ends the helper, unless calls are using it.
    pub(super) fn end_idle_files_helper(&mut self) {
        match &self.files.helper {
            Some(helper) if Arc::strong_count(helper) > 1 => {
                self.timers.set(Timer::Files, Instant::now() + IDLE);
            }
            _ => self.files.helper = None,
        }
    }
}
