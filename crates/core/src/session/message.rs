//! The messages of a session's handles.

use super::config::Opened;
use super::confinement::Judgement;
use super::loan::{Expected, Loan, Sent};
use super::mailbox::{CallerAnswer, Letter};
use super::ports::Network;
use super::running::RunningCommand;
use super::saved::Saved;
use crate::error::Error;
use crate::exec::{ExecRequest, KillPolicy, KilledBy, Outcome};
use crate::files::Access;
use crate::process::{DetachRequest, SessionStats, StartRequest};
use crate::variables::EnvChange;
use nacre_protocol::supervisor::Program;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// The programs of a session that cannot be frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Some of them.
    pub programs: Vec<Program>,
    /// How many there are.
    pub count: u64,
    /// Whether the session has control groups. Without them, nothing can be frozen.
    pub has_groups: bool,
}

/// A session whose programs are frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Some of the programs.
    pub programs: Vec<Program>,
    /// How many there are.
    pub count: u64,
    /// Whether nothing but idle shells uses its files: it has no program, and no caller is writing a file.
    pub is_idle: bool,
}

/// A hold that a session is to put into effect.
pub(super) struct NewHold {
    pub id: u64,
    pub grant: watch::Sender<bool>,
}

/// Receives access to the files.
pub(super) type AccessReply = oneshot::Sender<Result<Access, Error>>;
pub(super) type FreezeReply = oneshot::Sender<Result<Frozen, Busy>>;
pub(super) type SaveReply = oneshot::Sender<Result<Saved, Error>>;
pub(super) type RemountReply = oneshot::Sender<Result<(), Error>>;

/// What the holder of a session wants of it.
pub(super) enum HoldOrder {
    Freeze { if_idle: bool, reply: FreezeReply },
    Save(SaveReply),
    Remount { mount: OwnedFd, reply: RemountReply },
    StartAgain,
    Release,
}

/// What handles send.
pub(super) enum Message {
    Open(oneshot::Sender<Result<Opened, Error>>),
    Exec {
        request: Box<ExecRequest>,
        sent: Option<Box<Sent>>,
        /// A hold to queue before it.
        after: Option<NewHold>,
    },
    Interrupt {
        id: u64,
        signal: Option<i32>,
        by: KilledBy,
        /// Dropped when the command has ended.
        ended: Option<oneshot::Sender<()>>,
    },
    Detach(Box<DetachRequest>),
    SetEnv {
        vars: EnvChange,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    Start(Box<StartRequest>),
    Files(AccessReply),
    Running(oneshot::Sender<Result<Vec<RunningCommand>, Error>>),
    Stats(oneshot::Sender<Result<SessionStats, Error>>),
    Network(oneshot::Sender<Result<Option<Network>, Error>>),
    Judgement(oneshot::Sender<Result<Option<Judgement>, Error>>),
    SignalProcess {
        key: u64,
        signal: i32,
    },
    KillProcess {
        key: u64,
        policy: KillPolicy,
        reply: oneshot::Sender<bool>,
    },
    Hold {
        new: NewHold,
        /// It takes effect at once, or never.
        if_idle: bool,
    },
    /// Answered with the state before the running command, if anything has it.
    SaveBefore(oneshot::Sender<Saved>),
    /// For the hold with this id.
    Held(u64, HoldOrder),
    Close {
        grace: Duration,
        reply: oneshot::Sender<()>,
    },
}

impl Message {
    /// Whether it is a command whose caller has the result.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self, Self::Exec { sent: Some(sent), .. } if sent.answered.is_some())
    }
}

impl Letter for Message {
    type Loan = Loan;
    type Wait = Expected;
    type Answer = Outcome;

    fn send_with(&mut self, loan: Loan) -> Option<Expected> {
        // Only the session can open a terminal, and wait until the supervisor has covered what was replaced.
        if let Self::Exec { request, sent, after: None } = self
            && request.terminal.is_none()
            && !loan.disturbance.as_ref().is_some_and(|disturbance| disturbance.is_seen())
        {
            // If the command cannot be sent, the session tries again and then refuses it.
            *sent = loan.send(request, None).ok().map(Box::new);
            return sent.as_ref().and_then(|sent| sent.expected(request));
        }
        None
    }

    fn wait(expected: Expected) {
        expected.wait();
    }

    fn answer(&mut self) -> CallerAnswer<Self> {
        match self {
            Self::Exec { request, sent: Some(sent), .. } => sent.answer(request),
            _ => CallerAnswer::Nothing,
        }
    }

    fn is_sent(&self) -> bool {
        matches!(self, Self::Exec { sent: Some(_), .. })
    }
}
