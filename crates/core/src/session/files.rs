//! The session's files helper: started by the first call that needs it, ended when it has been idle.

use super::context::Context;
use super::message::AccessReply;
use super::supervision::Supervision;
use super::timers::Timer;
use crate::error::Error;
use crate::files::{Access, Helper};
use nacre_protocol::supervisor::Order;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A helper that has been idle for this long is ended, because it takes half a MiB.
const IDLE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Default)]
pub(super) struct Files {
    helper: Option<Arc<Helper>>,
    /// Calls that wait for the start of the session.
    waiting: Vec<AccessReply>,
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

    /// Adds a call that waits for the start of the session.
    pub(super) fn wait(&mut self, reply: AccessReply) {
        self.waiting.push(reply);
    }

    /// Whether calls wait for it.
    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Handles the start of the session, or its failure: answers the calls that wait for it.
    pub(super) fn answer(&mut self, cx: &mut Context, supervision: &Supervision, error: Option<Error>) {
        for reply in std::mem::take(&mut self.waiting) {
            let _ = reply.send(error.clone().map_or_else(|| self.access(cx, supervision), Err));
        }
    }

    fn access(&mut self, cx: &mut Context, supervision: &Supervision) -> Result<Access, Error> {
        cx.timers.set(Timer::Files, Instant::now() + IDLE);
        let living = self.helper.as_ref().filter(|helper| !helper.is_gone()).cloned();
        let helper = match living {
            Some(helper) => helper,
            None => self.start(cx, supervision)?,
        };
        Ok(Access { helper, cwd: cx.cwd.clone(), is_rooted: false })
    }

    /// Starts the helper. The call need not wait for it, because its request waits in the helper's socket.
    fn start(&mut self, cx: &mut Context, supervision: &Supervision) -> Result<Arc<Helper>, Error> {
        let opened = Helper::open(&cx.config.id);
        let (helper, theirs) = opened.map_err(|error| Error::cannot("start the files helper", &error))?;
        let helper = Arc::new(helper);
        self.helper = Some(Arc::clone(&helper));
        supervision.order_with(cx, &Order::Files, vec![theirs.into()]);
        Ok(helper)
    }

    /// Ends the helper, unless calls are using it.
    pub(super) fn end_if_idle(&mut self, cx: &mut Context) {
        match &self.helper {
            Some(helper) if Arc::strong_count(helper) > 1 => cx.timers.set(Timer::Files, Instant::now() + IDLE),
            _ => self.helper = None,
        }
    }
}
