//! A pause of the whole sandbox: no command, process or file call begins, and the programs are frozen.
//!
//! All holds of a pause are queued in one step, under the lock of the sessions. Two pauses therefore have the same order
//! in every session, and never wait for each other in a circle. A session that is created meanwhile is held before its
//! first command, so it has no program yet. The trial session of [`Sandbox::opened`] is not held: it runs no program.
//!
//! File calls do not wait in a session's queue, so they share a lock, which a pause takes for itself. It waits for the
//! calls that are being made. A write in pieces is a call for its opening alone: its pieces and its end do not wait.

use super::Sandbox;
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::session::{Busy, Frozen, Hold};
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::OwnedRwLockWriteGuard;

/// How many programs an error names.
const NAMED: usize = 3;

/// See the module. Dropping it lets everything go on.
#[must_use = "everything goes on when this is dropped"]
pub struct Pause {
    sandbox: Sandbox,
    /// Identifies the holds of sessions that are created meanwhile.
    number: u64,
    holds: Vec<Hold>,
    files: Option<OwnedRwLockWriteGuard<()>>,
    is_idle: bool,
    /// The programs that are frozen.
    frozen: Vec<Busy>,
}

/// What a checkpoint or a fork does if programs use the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// Copies what was changed.
    #[default]
    Copy,
    /// Fails with `WORKSPACE_BUSY`.
    Reject,
}

impl Sandbox {
    /// Waits until no command runs in any session, and keeps programs from running until the result is dropped.
    /// Commands that were queued before run first, later ones wait. Sessions that end meanwhile, and processes that are
    /// being killed, are not waited for.
    ///
    /// # Errors
    /// `WORKSPACE_BUSY` if programs run that cannot be frozen, as without control groups; `SANDBOX_DESTROYED`.
    pub fn pause(&self) -> impl Future<Output = Result<Pause, Error>> + Send + use<> {
        let pause = self.begin_pause();
        async move {
            let mut pause = pause?;
            pause.take_effect().await?;
            Ok(pause)
        }
    }

    /// Queues a hold in every session.
    fn begin_pause(&self) -> Result<Pause, Error> {
        let mut sessions = self.living()?;
        let number = sessions.begin_pause();
        let holds = sessions.open.values().map(|open| open.handle.hold()).collect();
        let mut pause = Pause::new(self, number, None);
        pause.holds = holds;
        Ok(pause)
    }
}

impl Pause {
    /// A pause without holds so far. `files`: what excludes file calls, unless the caller has that.
    pub(super) fn new(sandbox: &Sandbox, number: u64, files: Option<OwnedRwLockWriteGuard<()>>) -> Self {
        Self { sandbox: sandbox.clone(), number, holds: Vec::new(), files, is_idle: false, frozen: Vec::new() }
    }

    /// Adds holds that are in effect.
    pub(super) fn hold(&mut self, holds: impl IntoIterator<Item = Hold>) {
        self.holds.extend(holds);
    }

    /// The holds in effect.
    pub(super) fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.holds.iter()
    }

    /// Whether no program uses the workspace: only idle shells are left, and no caller is writing a file.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Fails if the caller does not want to go on while the workspace is in use. `otherwise`: what helps beside their end.
    ///
    /// # Errors
    /// `WORKSPACE_BUSY`.
    pub fn check(&self, when_busy: WhenBusy, otherwise: &str) -> Result<(), Error> {
        match when_busy {
            WhenBusy::Reject if !self.is_idle => Err(in_use_error(&self.frozen, otherwise)),
            _ => Ok(()),
        }
    }

    /// Changes every session over to the mount that the keeper of the workspace hands out now. One that cannot change over
    /// starts again there, with its state. Only in an idle pause, which lasts until that is done, even if the future is
    /// dropped.
    pub async fn remount(self: Arc<Self>) {
        let _ = tokio::spawn(async move { self.remount_each().await }).await;
    }

    async fn remount_each(&self) {
        // Otherwise the sandbox is being destroyed.
        let Ok(workspace) = self.sandbox.workspace() else { return };
        for hold in &self.holds {
            let workspace = Arc::clone(&workspace);
            let changed = match blocking(move || workspace.share()).await {
                Ok((_, mount)) => hold.remount(mount).await,
                Err(error) => Err(error),
            };
            if changed.is_err() {
                hold.start_again();
            }
        }
    }

    async fn take_effect(&mut self) -> Result<(), Error> {
        let mut ended = Vec::new();
        let mut held = Vec::new();
        for hold in std::mem::take(&mut self.holds) {
            let is_granted = hold.granted().await;
            if is_granted { &mut held } else { &mut ended }.push(hold);
        }
        self.holds = held;
        self.files = Some(self.sandbox.exclude_files().await?);
        self.freeze(ended, false).await
    }

    /// Freezes the programs of every session. `ended` are the holds of those that end. `if_idle`: fails at once if a program
    /// runs.
    ///
    /// # Errors
    /// As for [`Sandbox::pause`].
    pub(super) async fn freeze(&mut self, ended: Vec<Hold>, if_idle: bool) -> Result<(), Error> {
        // The caller means what was there before. A session that ends otherwise needs no hold.
        if self.holds.iter().chain(&ended).any(Hold::is_rolled_back) {
            return Err(Error::rolled_back());
        }
        let mut is_idle = ended.is_empty();
        let freezing: Vec<_> = self.holds.iter().map(|hold| hold.freeze(if_idle)).collect();
        let mut busy = Vec::new();
        for frozen in freezing {
            match frozen.await {
                Ok(Frozen { programs, count, is_idle: is_session_idle }) => {
                    is_idle &= is_session_idle;
                    self.frozen.extend((count > 0).then_some(Busy { programs, count, has_groups: true }));
                }
                Err(programs) => busy.push(programs),
            }
        }
        let sessions = self.sandbox.lock();
        sessions.check()?;
        self.is_idle = is_idle && !sessions.is_any_ending();
        drop(sessions);
        if busy.is_empty() { Ok(()) } else { Err(busy_error(&busy)) }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let late = self.sandbox.lock().pauses.remove(&self.number);
        // Not under the lock.
        drop(late);
    }
}

fn in_use_error(frozen: &[Busy], otherwise: &str) -> Error {
    let message = if frozen.is_empty() {
        "a shell has a named pipe or a locked file open, a file is being written, or a session is ending".into()
    } else {
        format!("programs are using the workspace: {}; end them, or {otherwise}", names_of(frozen))
    };
    Error::new(Code::WorkspaceBusy, message)
}

fn busy_error(busy: &[Busy]) -> Error {
    let names = names_of(busy);
    let reason = if busy.iter().all(|busy| busy.has_groups) {
        "programs are using the workspace and cannot be paused"
    } else {
        "programs are using the workspace, and nacre cannot pause them without a control group"
    };
    Error::new(Code::WorkspaceBusy, format!("{reason}: {names}; end them, or wait for their end"))
}

fn names_of(busy: &[Busy]) -> String {
    let programs: Vec<_> = busy.iter().flat_map(|busy| &busy.programs).collect();
    let count = busy.iter().map(|busy| busy.count).sum::<u64>();
    let mut names = String::new();
    for (number, program) in programs.iter().take(NAMED).enumerate() {
        let _ = write!(names, "{}{} ({})", if number > 0 { ", " } else { "" }, program.pid, program.command);
    }
    let more = count.saturating_sub(programs.len().min(NAMED) as u64);
    if more > 0 {
        let _ = write!(names, "{}{more} more", if names.is_empty() { "" } else { " and " });
    }
    if count == 0 {
        names.push_str("they cannot be looked up");
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_containment::pid::Pid;
    use nacre_protocol::supervisor::Program;

    #[test]
    fn the_error_names_some_programs_and_counts_the_others() {
        let program = |pid, command: &str| Program { pid: Pid::new(pid).unwrap(), command: command.into() };
        let one = Busy { programs: vec![program(7, "sleep 60")], count: 1, has_groups: false };
        let error = busy_error(std::slice::from_ref(&one));
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            (
                "WORKSPACE_BUSY",
                "programs are using the workspace, and nacre cannot pause them without a control group: 7 (sleep 60); \
                 end them, or wait for their end"
            )
        );
        let many = Busy { programs: (2..10).map(|pid| program(pid, "x")).collect(), count: 20, has_groups: true };
        let message = busy_error(std::slice::from_ref(&many)).message;
        assert!(message.contains("cannot be paused: 2 (x), 3 (x), 4 (x) and 17 more;"), "{message}");
        let message = busy_error(&[one, many]).message;
        assert!(message.contains("7 (sleep 60), 2 (x), 3 (x) and 18 more;"), "{message}");
        let unseen = Busy { programs: Vec::new(), count: 0, has_groups: true };
        assert!(busy_error(&[unseen]).message.contains("paused: they cannot be looked up;"));
    }
}
