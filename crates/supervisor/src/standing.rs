//! What everything in a session runs under, besides its control group: limits and user.
//!
//! Every process of the session goes through [`Standing::take`] before it does anything for the session: those that the
//! supervisor starts by exec (`spawn`), and the files helper, which is a fork (`files`). What it takes on is inherited by
//! all that they start, and cannot be given up.

use crate::arguments::Arguments;
use crate::spawn::{ResourceLimits, RunAs, become_user};
use nacre_protocol::supervisor::StartStep;

/// See the module.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    /// The user, when that is not this process's.
    pub user: Option<&'a RunAs>,
    /// Resource limits.
    pub limits: ResourceLimits,
}

impl<'a> Standing<'a> {
    /// That of the session's processes.
    pub fn of(arguments: &'a Arguments) -> Self {
        Self { user: arguments.user.as_ref(), limits: arguments.limits }
    }

    /// Takes it on, for good.
    ///
    /// # Safety
    /// To be called in a fork: system calls only, so that an exec may follow.
    ///
    /// # Errors
    /// The step that failed; `errno` has the reason.
    pub unsafe fn take(&self) -> Result<(), StartStep> {
        // SAFETY: the caller is in a fork, and both only make system calls.
        unsafe {
            if !self.limits.set() {
                return Err(StartStep::Limits);
            }
            if !self.user.is_none_or(|(uid, gid, groups)| become_user(*uid, *gid, groups)) {
                return Err(StartStep::User);
            }
        }
        Ok(())
    }
}
