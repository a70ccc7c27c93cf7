//! Before a foreground command: a fresh snapshot where one is needed, its directory and variables, the user's traps.

use super::actor::{MOST_INTERNAL_TEXTS, Session};
use super::effects;
use super::foreground;
use super::own_texts::ShellLost;
use super::recovery::MOST_ATTEMPTS;
use super::scope::{self, Scope};
use super::shell::Shell;
use crate::driver::script::quote;
use crate::error::Error;
use crate::exec::{Command, ExecRequest};

/// Why a command can not be sent.
enum Unprepared {
    /// For a reason of its own.
    Refused(Error),
    /// The shell died over the preparations.
    ShellLost,
}

impl From<Error> for Unprepared {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<ShellLost> for Unprepared {
    fn from(ShellLost: ShellLost) -> Self {
        Self::ShellLost
    }
}

impl Session {
    /// Everything that has to be in place before the command's text is sent. A shell that is lost over it takes what was
    /// in place with it, unless it could save its state: so what was is taken away, and the next shell prepared.
    pub(super) async fn prepare(&mut self, request: &ExecRequest, text: &[u8]) -> Result<Option<Scope>, Error> {
        for _ in 0..MOST_ATTEMPTS {
            self.ready().await?;
            // A background process that is started while this command runs starts from the snapshot.
            let wanted = |shell: &Shell| {
                shell.stale && shell.driver.may_vanish(text) || shell.outdated && !effects::is_instant(text)
            };
            if self.shell.as_ref().is_some_and(wanted) {
                self.snapshot().await;
                self.ready().await?;
            }
            let mut scope = None;
            match self.arrange(request, text, &mut scope).await {
                Ok(()) => return Ok(scope),
                Err(Unprepared::Refused(error)) => return Err(error),
                Err(Unprepared::ShellLost) => self.leave_scope(scope).await,
            }
        }
        Err(foreground::engine_error("the shell died again and again before the command could start"))
    }

    async fn arrange(
        &mut self,
        request: &ExecRequest,
        text: &[u8],
        scope: &mut Option<Scope>,
    ) -> Result<(), Unprepared> {
        if request.cwd.is_some() || !request.env.is_empty() {
            self.enter_scope(request, scope).await?;
        }
        for _ in 0..MOST_INTERNAL_TEXTS {
            let Some(preparation) = self.shell.as_mut().and_then(|shell| shell.driver.preparation(text)) else { break };
            self.internal(&preparation).await?;
        }
        Ok(())
    }

    async fn enter_scope(&mut self, request: &ExecRequest, entered: &mut Option<Scope>) -> Result<(), Unprepared> {
        let names: Vec<&str> = request.env.iter().map(|(name, _)| name.as_str()).collect();
        let question =
            self.shell.as_ref().map(|shell| shell.driver.storing(&scope::question(&names))).unwrap_or_default();
        self.internal(&question).await?;
        let shell = self.shell.as_mut().ok_or(ShellLost)?;
        let answer = shell.driver.stored().map_err(|error| foreground::engine_error(&error.to_string()))?;
        let scope = Scope::new(&names, request.cwd.is_some(), &answer);
        if let Some(error) = scope.read_only() {
            return Err(error.into());
        }
        let before = shell.cwd.clone();
        self.cwd_before = Some(before.clone());
        *entered = Some(scope);
        if let Some(cwd) = &request.cwd {
            let directory = before.join(cwd);
            if !self.checked(&scope::enter(&directory)).await? {
                return Err(scope::cwd_error(&directory).into());
            }
        }
        if !request.env.is_empty() {
            let assignments: Vec<u8> =
                request.env.iter().flat_map(|(name, value)| scope::assignment(name, value.as_deref())).collect();
            self.internal(&assignments).await?;
        }
        Ok(())
    }

    /// Files what has arrived during the preparation; true when it ends this very request.
    pub(super) fn canceled_meanwhile(&mut self, id: u64) -> bool {
        let mut canceled = false;
        while let Ok(message) = self.mailbox.try_recv() {
            canceled |= self.take(message, Some(id)).is_some();
        }
        canceled
    }
}

/// What the words of an argument vector stand behind.
pub(super) const OF_ARGUMENTS: &[u8] = b"\\builtin command --";

/// The shell text of a command. An argument vector becomes quoted words: a program or a builtin, never a function or an
/// alias, and nothing in it is expanded.
pub(super) fn text_of(command: &Command) -> Vec<u8> {
    match command {
        Command::Text(text) => text.clone(),
        Command::Argv(words) => {
            let mut text = OF_ARGUMENTS.to_vec();
            for word in words {
                text.push(b' ');
                text.extend_from_slice(&quote(word));
            }
            text
        }
    }
}
