//! The fast lane: the calling thread sends a command to the idle shell itself.
//!
//! Waking an idle thread takes longer than `true`. While the shell is idle and a command could run immediately, the
//! actor therefore lends everything needed to send it. A caller that finds the loan sends the command and then posts it
//! to the actor, which wakes up in parallel with the shell instead of before it.
//!
//! This does not change the order of calls. Every message is posted under the lane's lock, and the first message ends
//! the loan. The actor lends under the same lock, and only while its mailbox is empty. A command sent in this way is
//! therefore the first message in the mailbox, and the actor handles it before any later event.

use super::Message;
use super::command::{OutputPipes, Streams, env_of, text_of};
use super::stdin::StdinEnd;
use crate::exec::{ExecRequest, Input};
use crate::proxy::Denials;
use crate::shell::channel::Channel;
use nacre_protocol::shell::{Request, RequestKind};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

/// Everything needed to send one command.
pub(super) struct Loan {
    pub(super) shell: Arc<Channel>,
    /// The number of the command.
    pub(super) id: u64,
    /// Pipes that are already open.
    pub(super) pipes: Option<OutputPipes>,
    /// The denials of the session's proxy.
    pub(super) denials: Option<Denials>,
}

/// A command that has been sent.
pub(super) struct Sent {
    pub(super) begun: Instant,
    pub(super) output: OutputPipes,
    pub(super) stdin: Option<StdinEnd>,
}

impl Sent {
    /// Creates the record of a command that must wait for the next shell.
    pub(super) fn to_a_dead_shell(input: &Input) -> io::Result<Self> {
        let begun = Instant::now();
        Streams::open(input, None, false).map(|Streams { output, stdin, .. }| Self { begun, output, stdin })
    }
}

/// See the module.
#[derive(Default)]
pub(super) enum State {
    /// Only the actor may use the shell.
    #[default]
    Closed,
    /// A caller may send one command.
    Open(Loan),
    /// A caller has sent a command.
    Used,
}

/// See the module. Shared by the actor and its handles.
#[derive(Clone, Default)]
pub(super) struct Lane(Arc<Mutex<State>>);

impl Lane {
    /// Posts a message; `post` puts it into the mailbox. A command is first sent to the shell if the lane is open.
    pub(super) fn post<T>(&self, mut message: Message, post: impl FnOnce(Message) -> T) -> T {
        let mut state = self.lock();
        let loan = std::mem::take(&mut *state);
        match (&mut message, loan) {
            (Message::Exec { request, sent }, State::Open(loan)) => {
                // If the command cannot be sent, the actor tries again and then refuses it.
                *sent = send(loan, request).ok();
                if sent.is_some() {
                    *state = State::Used;
                }
            }
            (_, State::Used) => *state = State::Used,
            (_, State::Open(_) | State::Closed) => {}
        }
        post(message)
    }

    /// Locks the lane's state, for the actor.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a command to the shell.
pub(super) fn send(loan: Loan, request: &ExecRequest) -> io::Result<Sent> {
    let (text, flags) = text_of(&request.command);
    let env = env_of(&request.env);
    let cwd = request.cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes()).unwrap_or_default();
    let begun = Instant::now();
    let Streams { theirs, output, stdin } = Streams::open(&request.input, loan.pipes, request.merge_output)?;
    let wire = Request { text: &text, cwd, env: &env, flags, ..Request::new(RequestKind::Run, loan.id) };
    // Earlier denials belong to older processes, not to this command. They are dropped before the command is sent,
    // because its own could follow immediately.
    loan.denials.iter().for_each(|denials| drop(denials.take()));
    loan.shell.send(&wire, theirs)?;
    Ok(Sent { begun, output, stdin })
}
