//! Opening and closing the fast lane; see [`super::lane`].

use super::Message;
use super::context::Session;
use super::lane::{Loan, State};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

impl Session {
    /// Opens the lane if a command could run immediately.
    pub(super) fn lend(&mut self, mailbox: &UnboundedReceiver<Message>) {
        let Some(shell) = self.link.shell.as_ref().filter(|_| self.config.uses_builtin && self.state.is_ready()) else {
            return;
        };
        let shell = Arc::clone(shell);
        let mut state = self.lane.lock();
        if mailbox.is_empty() {
            *state = State::Open(Loan {
                shell,
                id: self.wait.next_command(),
                pipes: self.spare_pipes.take(),
                denials: self.denials(),
            });
        }
    }

    /// Closes the lane. Returns the message of a command that was sent, unless it was already `received`.
    pub(super) fn take_back(&mut self, mailbox: &mut UnboundedReceiver<Message>, received: bool) -> Option<Message> {
        match std::mem::take(&mut *self.lane.lock()) {
            State::Closed => None,
            State::Open(loan) => {
                self.spare_pipes = loan.pipes;
                None
            }
            State::Used if received => None,
            State::Used => loop {
                match mailbox.try_recv() {
                    Ok(message) => return Some(message),
                    // Cannot happen: the message was posted under the lock.
                    Err(TryRecvError::Empty) => std::hint::spin_loop(),
                    Err(TryRecvError::Disconnected) => return None,
                }
            },
        }
    }
}
