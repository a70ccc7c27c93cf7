//! What a session lends to its callers: everything needed to run one command. See [`mod@super::mailbox`].

use super::foreground::Pace;
use super::mailbox::{CallerAnswer, Letter};
use super::numbers::Numbers;
use super::stdin::StdinEnd;
use super::streams::{OutputPipes, Streams, env_of, text_of};
use crate::exec::{ExecRequest, Input, Outcome};
use crate::feed::Feed;
use crate::output::capture::Capture;
use crate::process::terminal::Terminal;
use crate::proxy::Denials;
use crate::shell::channel::{Channel, Received};
use crate::wanted::Denied;
use nacre_isolation::git_config::GitConfigs;
use nacre_isolation::masks::Disturbance;
use nacre_protocol::shell::{Done, DoneFlags, Reply, Request, RequestFlags, RequestKind};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Everything needed to run one command.
pub(super) struct Loan {
    pub shell: Arc<Channel>,
    pub numbers: Arc<Numbers>,
    pub pace: Arc<Pace>,
    /// Pipes that are already open.
    pub pipes: Option<OutputPipes>,
    /// Its observers, who learn of the end of a command before its caller does. So only the session answers while there are some.
    pub feed: Arc<Feed>,
    /// What was refused.
    pub denials: Option<Denials>,
    /// What programs of the machine have replaced.
    pub disturbance: Option<Arc<Disturbance>>,
    /// Its copies of git's config files.
    pub configs: Option<Arc<GitConfigs>>,
    /// Whether the session explains failures, which may block.
    pub explains: bool,
    /// Whether the session adds nothing to the next result.
    pub is_whole: bool,
}

/// A command that has been sent.
pub(super) struct Sent {
    /// Its number.
    pub id: u64,
    pub begun: Instant,
    pub started_at: SystemTime,
    /// `None` once the command is answered and its pipes serve the next one.
    pub output: Option<OutputPipes>,
    pub stdin: Option<StdinEnd>,
    /// What its caller has received from the shell.
    pub early: Vec<Received>,
    pub answered: Option<Answered>,
    loan: Option<Loan>,
}

/// What the caller of a command has told its program.
pub(super) struct Answered {
    /// The kept bytes of both streams.
    pub output: [Vec<u8>; 2],
    /// Bytes not kept of each.
    pub dropped: (u64, u64),
    pub denied: Denied,
    pub duration: Duration,
}

/// How a caller waits for an answer: the shell, and how long.
pub(super) struct Expected(Arc<Channel>, Duration);

impl Expected {
    /// Waits.
    pub(super) fn wait(self) {
        self.0.wait(self.1);
    }
}

/// Messages of callers that may use the loan.
pub(super) trait Lent: Letter<Loan = Loan, Wait = Expected, Answer = Outcome> {}
impl<M: Letter<Loan = Loan, Wait = Expected, Answer = Outcome>> Lent for M {}

impl Loan {
    /// Sends a command to the shell. `terminal`: its own, if it has one.
    pub(super) fn send(mut self, request: &ExecRequest, terminal: Option<&Terminal>) -> io::Result<Sent> {
        let (text, mut flags) = text_of(&request.command);
        flags.set(RequestFlags::TERMINAL_STREAMS, terminal.is_some());
        let env = env_of(&request.env);
        let cwd = request.cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes()).unwrap_or_default();
        let (begun, id) = (Instant::now(), self.numbers.next_command());
        let Streams { theirs, output, stdin } = match terminal {
            Some(terminal) => Streams::of_terminal(terminal, &request.input)?,
            None => Streams::open(&request.input, self.pipes.take(), request.merge_output)?,
        };
        flags.set(RequestFlags::TYPED_END, terminal.is_some() && stdin.is_none());
        let wire = Request { text: &text, cwd, env: &env, flags, ..Request::new(RequestKind::Run, id) };
        // Before the command is sent, because its own denials could follow immediately.
        let traced = request.is_traced.then_some(request.id);
        self.denials.iter().for_each(|denials| denials.begin_command(traced));
        let sent = Sent::new(id, begun, output, stdin);
        self.shell.send(&wire, theirs)?;
        Ok(Sent { loan: Some(self), ..sent })
    }

    /// Whether the session has to look at files before a result.
    fn adds_to(&self, done: &Done) -> bool {
        self.explains && done.status != 0 || self.configs.as_ref().is_some_and(|configs| configs.have_changed())
    }
}

impl Sent {
    /// Creates the record of a command that starts now.
    pub(super) fn new(id: u64, begun: Instant, output: OutputPipes, stdin: Option<StdinEnd>) -> Self {
        let (started_at, output) = (SystemTime::now(), Some(output));
        Self { id, begun, started_at, output, stdin, early: Vec::new(), answered: None, loan: None }
    }

    /// Creates the record of a command that must wait for the next shell.
    pub(super) fn to_a_dead_shell(input: &Input, id: u64) -> io::Result<Self> {
        let begun = Instant::now();
        Streams::open(input, None, false).map(|Streams { output, stdin, .. }| Self::new(id, begun, output, stdin))
    }

    /// How to wait for its answer, if that may come at once and be the whole result.
    pub(super) fn expected(&self, request: &ExecRequest) -> Option<Expected> {
        let loan = self.loan.as_ref().filter(|loan| loan.is_whole)?;
        // A command that prints more than its limit is killed, even if it has just ended.
        if !request.at_once || self.stdin.is_some() || request.output_limit.is_some() || loan.feed.is_watched() {
            return None;
        }
        loan.pace.patience().map(|patience| Expected(Arc::clone(&loan.shell), patience))
    }

    /// Receives its answer.
    pub(super) fn answer<M: Lent>(&mut self, request: &mut ExecRequest) -> CallerAnswer<M> {
        let Some(loan) = self.loan.take() else { return CallerAnswer::Nothing };
        match loan.shell.poll() {
            Some(Received::Reply(Reply::Done(done)))
                if done.id == self.id && is_whole(&done) && !loan.adds_to(&done) =>
            {
                self.conclude(request, loan, done)
            }
            Some(Received::Reply(begun @ Reply::Begun { id, .. })) if id == self.id => {
                self.early.push(Received::Reply(begun));
                let expected = loan.pace.patience().map(|patience| Expected(Arc::clone(&loan.shell), patience));
                self.loan = Some(loan);
                expected.map_or(CallerAnswer::Nothing, CallerAnswer::Part)
            }
            Some(other) => {
                self.early.push(other);
                CallerAnswer::Nothing
            }
            None => {
                loan.pace.missed();
                CallerAnswer::Nothing
            }
        }
    }

    /// Makes the result. The session keeps its own records later, from the same report.
    fn conclude<M: Lent>(&mut self, request: &mut ExecRequest, mut loan: Loan, done: Done) -> CallerAnswer<M> {
        let mut outcome = Outcome {
            exit_code: Some(done.status),
            cwd: OsString::from_vec(done.cwd.clone()).into(),
            started_at: Some(self.started_at),
            usage: Some(done.usage),
            ..Outcome::default()
        };
        request.sink.release();
        if let Some(output) = self.output.take() {
            let (reader, writers) = output.into_parts();
            let mut capture = Capture::new(reader, request.max_buffer, None, None);
            capture.drain(&mut request.sink);
            loan.pipes = OutputPipes::reclaim(capture.finish(&mut outcome, &mut request.sink), writers).ok();
        }
        let denied = loan.denials.as_ref().map(Denials::end_command).unwrap_or_default();
        outcome.deny(denied.clone());
        outcome.duration = self.begun.elapsed();
        loan.pace.ended(outcome.duration);
        self.answered = Some(Answered {
            output: [outcome.stdout.clone(), outcome.stderr.clone()],
            dropped: outcome.dropped,
            denied,
            duration: outcome.duration,
        });
        // The session keeps up with a few small results, not with many large ones.
        let is_small = outcome.stdout.len() + outcome.stderr.len() <= SMALL;
        let is_kept = is_small && done.flags.contains(DoneFlags::STATE_KEPT);
        self.early.push(Received::Reply(Reply::Done(done)));
        CallerAnswer::Whole(outcome, is_kept.then_some(loan))
    }
}

/// Output of a command after which the loan may be used again before the session has seen it.
const SMALL: usize = 4096;

/// Whether a report says all about the end: no process is left that may print, and the shell goes on as it was.
fn is_whole(done: &Done) -> bool {
    done.forks == 0 && done.signal == 0 && !done.cwd.is_empty() && (done.flags - DoneFlags::STATE_KEPT).is_empty()
}
