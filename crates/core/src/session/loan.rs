//! What a session lends to its callers: everything needed to send one command. See [`mod@super::mailbox`].

use super::Message;
use super::mailbox::Letter;
use super::stdin::StdinEnd;
use super::streams::{OutputPipes, Streams, env_of, text_of};
use crate::exec::{ExecRequest, Input};
use crate::process::terminal::Terminal;
use crate::proxy::Denials;
use crate::shell::channel::Channel;
use nacre_protocol::shell::{Request, RequestFlags, RequestKind};
use std::io;
use std::sync::Arc;
use tokio::time::Instant;

/// Everything needed to send one command.
pub(super) struct Loan {
    pub shell: Arc<Channel>,
    /// The number of the command.
    pub id: u64,
    /// Pipes that are already open.
    pub pipes: Option<OutputPipes>,
    /// The denials of the session's proxy.
    pub denials: Option<Denials>,
}

/// A command that has been sent.
pub(super) struct Sent {
    pub begun: Instant,
    pub output: OutputPipes,
    pub stdin: Option<StdinEnd>,
}

impl Loan {
    /// Sends a command to the shell. `terminal`: its own, if it has one.
    pub(super) fn send(self, request: &ExecRequest, terminal: Option<&Terminal>) -> io::Result<Sent> {
        let (text, mut flags) = text_of(&request.command);
        flags.set(RequestFlags::TERMINAL_STREAMS, terminal.is_some());
        let env = env_of(&request.env);
        let cwd = request.cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes()).unwrap_or_default();
        let begun = Instant::now();
        let Streams { theirs, output, stdin } = match terminal {
            Some(terminal) => Streams::of_terminal(terminal, &request.input)?,
            None => Streams::open(&request.input, self.pipes, request.merge_output)?,
        };
        flags.set(RequestFlags::TYPED_END, terminal.is_some() && stdin.is_none());
        let wire = Request { text: &text, cwd, env: &env, flags, ..Request::new(RequestKind::Run, self.id) };
        // Earlier denials belong to older processes, not to this command. They are dropped before the command is sent,
        // because its own could follow immediately.
        self.denials.iter().for_each(|denials| drop(denials.end_command()));
        self.shell.send(&wire, theirs)?;
        Ok(Sent { begun, output, stdin })
    }
}

impl Sent {
    /// Creates the record of a command that must wait for the next shell.
    pub(super) fn to_a_dead_shell(input: &Input) -> io::Result<Self> {
        let begun = Instant::now();
        Streams::open(input, None, false).map(|Streams { output, stdin, .. }| Self { begun, output, stdin })
    }
}

impl Letter for Message {
    type Loan = Loan;

    fn send_with(&mut self, loan: Loan) {
        // Only the session can open a terminal.
        if let Self::Exec { request, sent, after: None } = self
            && request.terminal.is_none()
        {
            // If the command cannot be sent, the session tries again and then refuses it.
            *sent = loan.send(request, None).ok();
        }
    }

    fn is_sent(&self) -> bool {
        matches!(self, Self::Exec { sent: Some(_), .. })
    }
}
