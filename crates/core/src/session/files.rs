//! The session's files helper: started by the first call that needs it, ended when it has been idle.

use super::Session;
use super::calls::Call;
use super::startup::spawn_failed;
use super::timers::Timer;
use crate::error::Error;
use crate::files::{Access, Helper};
use crate::shell::state::Work;
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
}

impl Files {
    /// Refuses later requests.
    pub(super) fn close(&self, error: Error) {
        if let Some(helper) = &self.helper {
            helper.close(error);
        }
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
    /// Gives access immediately, even while a command runs. Starts the session first if it has no processes.
    pub(super) fn access_files(&mut self, reply: Reply) {
        if !self.supervision.is_connected() || self.closing.is_some() {
            self.submit(Call::Files(reply), Work::Open);
            return;
        }
        let _ = reply.send(self.files_access());
    }

    /// Handles the start of the session, or its failure.
    pub(super) fn answer_files(&mut self, reply: Reply, error: Option<Error>) {
        let _ = reply.send(error.map_or_else(|| self.files_access(), Err));
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
