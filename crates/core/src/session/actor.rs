//! The task that owns a session: takes messages, runs one job after the other, uses idle time for snapshots.

use super::own_texts::ShellLost;
use super::processes::no_fork;
use super::recovery::MOST_ATTEMPTS;
use super::shell::{Phase, Shell};
use super::spinning::Pace;
use super::{Config, EnvChange, Message};
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, Outcome};
use crate::output::capture::Leftover;
use crate::process::StartRequest;
use crate::session::scope;
use nacre_containment::wire::Order;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// A snapshot is taken when nothing has run for this long, so that a burst of commands never pays for one.
const IDLE_BEFORE_SNAPSHOT: Duration = Duration::from_millis(8);
/// A fork that took over from an `exit` with a large state is renewed when nothing has run for this long.
const IDLE_BEFORE_RENEWAL: Duration = Duration::from_millis(400);
/// More texts of the engine's own in a row than there can be reasons for: whatever the driver still wants, it does not
/// get it.
pub(super) const MOST_INTERNAL_TEXTS: usize = 16;
/// What the supervisor may take beyond the grace time to get rid of everything.
const CLOSE_LIMIT: Duration = Duration::from_secs(15);

/// Something to do in the shell, in turn.
pub(super) enum Job {
    Open(oneshot::Sender<Result<(), Error>>),
    Exec(Box<ExecRequest>),
    SetEnv { vars: EnvChange, reply: oneshot::Sender<Result<(), Error>> },
    Start(Box<StartRequest>),
}

/// See the module.
pub(super) struct Session {
    pub(super) config: Config,
    pub(super) mailbox: mpsc::UnboundedReceiver<Message>,
    pub(super) queue: VecDeque<Job>,
    pub(super) shell: Option<Shell>,
    /// With `survive_exit` off: the shell has ended with this code.
    pub(super) terminated: Option<Option<i32>>,
    /// The shell was brought back since the last result said so.
    pub(super) restarted: bool,
    /// The death of the shell was in the result of the command that caused it.
    pub(super) death_told: bool,
    /// The last command took a fraction of a millisecond.
    pub(super) quick: bool,
    pub(super) pace: Pace,
    /// Of the command whose result is being told.
    pub(super) leftover: Option<Leftover>,
    pub(super) closing: Option<(Duration, oneshot::Sender<()>)>,
    pub(super) ladders: u64,
    pub(super) groups_made: u64,
    /// Where the session stood before a command with a directory of its own.
    pub(super) cwd_before: Option<std::path::PathBuf>,
    /// No snapshots until then: the last one failed.
    pub(super) snapshots_from: Instant,
}

impl Session {
    pub(super) fn new(config: Config, mailbox: mpsc::UnboundedReceiver<Message>) -> Self {
        Self {
            config,
            mailbox,
            queue: VecDeque::new(),
            shell: None,
            terminated: None,
            restarted: false,
            death_told: false,
            quick: false,
            pace: Pace::default(),
            leftover: None,
            closing: None,
            ladders: 0,
            groups_made: 0,
            cwd_before: None,
            snapshots_from: Instant::now(),
        }
    }

    /// Runs until the session is closed or every handle is gone.
    pub(super) async fn run(mut self) {
        while self.closing.is_none() {
            if let Some(job) = self.queue.pop_front() {
                self.perform(job).await;
                continue;
            }
            if let Some(message) = self.pace.look(|| self.mailbox.try_recv().ok()) {
                self.take(message, None);
                continue;
            }
            self.mend().await;
            let ready = self.shell.as_ref().filter(|shell| shell.phase == Phase::Ready);
            let (snapshot_due, renewal_due) = ready.map_or((false, false), |shell| (shell.stale, shell.handed_over));
            tokio::select! {
                biased;
                message = self.mailbox.recv() => match message {
                    Some(message) => drop(self.take(message, None)),
                    None => break,
                },
                () = next_happening(&mut self.shell) => {}
                () = sleep_until(self.snapshots_from.max(Instant::now() + IDLE_BEFORE_SNAPSHOT)), if snapshot_due => {
                    self.snapshot().await;
                }
                () = sleep(IDLE_BEFORE_RENEWAL), if renewal_due => self.renew().await,
            }
        }
        self.close().await;
    }

    /// Files a message. `running` is the id of the command that runs; its interrupt is returned by
    /// [`Session::take_while_running`] instead.
    pub(super) fn take(&mut self, message: Message, running: Option<u64>) -> Option<Option<i32>> {
        match message {
            Message::Open(reply) => self.queue.push_back(Job::Open(reply)),
            Message::Exec(request) => self.queue.push_back(Job::Exec(request)),
            Message::SetEnv { vars, reply } => self.queue.push_back(Job::SetEnv { vars, reply }),
            Message::Start(request) => self.file_start(request, running.is_some()),
            Message::KillProcess { key, policy, reply } => {
                if let Some(shell) = self.shell.as_mut() {
                    shell.processes.kill(key, policy, reply, &shell.supervisor);
                }
            }
            Message::Interrupt { id, signal } if running == Some(id) => return Some(signal),
            Message::Interrupt { id, .. } => self.cancel_queued(id),
            Message::Close { grace, reply } => self.closing = Some((grace, reply)),
        }
        None
    }

    /// A process never waits for a command that runs: it starts from the snapshot, which is up to date whenever that can
    /// last long (see [`Session::prepare`]). Otherwise it is the next thing to be done.
    fn file_start(&mut self, request: Box<StartRequest>, running: bool) {
        match self.shell.as_mut().filter(|shell| running && shell.standby.is_some() && !shell.outdated) {
            Some(shell) => shell.with_processes(|processes, with| processes.start(*request, with)),
            None => {
                let at = self.queue.iter().take_while(|job| matches!(job, Job::Start(_))).count();
                self.queue.insert(at, Job::Start(request));
            }
        }
    }

    async fn start_process(&mut self, request: Box<StartRequest>) {
        for _ in 0..MOST_ATTEMPTS {
            if let Err(error) = self.ready().await {
                return request.refuse(error);
            }
            if self.shell.as_ref().is_some_and(|shell| shell.outdated || shell.standby.is_none()) {
                self.snapshot().await;
            }
            // Otherwise the shell has died over it.
            if self.shell.as_ref().is_some_and(|shell| shell.phase == Phase::Ready) {
                break;
            }
        }
        match self.shell.as_mut().filter(|shell| shell.standby.is_some() && !shell.outdated) {
            Some(shell) => shell.with_processes(|processes, with| processes.start(*request, with)),
            None => request.refuse(no_fork()),
        }
    }

    fn cancel_queued(&mut self, id: u64) {
        let at = self.queue.iter().position(|job| matches!(job, Job::Exec(request) if request.id == id));
        if let Some(Job::Exec(request)) = at.and_then(|at| self.queue.remove(at)) {
            let cwd = self.shell.as_ref().map_or_else(|| self.config.cwd.clone(), |shell| shell.cwd.clone());
            request.sink.finished(Ok(Outcome { canceled: true, cwd, ..Outcome::default() }));
        }
    }

    async fn perform(&mut self, job: Job) {
        if let Some(code) = self.terminated {
            return refuse(job, || terminated(&self.config.id, code));
        }
        match job {
            Job::Open(reply) => {
                let opened = self.ready().await;
                let _ = reply.send(opened);
            }
            Job::SetEnv { vars, reply } => {
                let set = self.set_env(vars).await;
                let _ = reply.send(set);
            }
            Job::Exec(request) => self.exec(*request).await,
            Job::Start(request) => self.start_process(request).await,
        }
    }

    /// Setting them twice does no harm: when the shell dies over it, the next one is given all of them.
    async fn set_env(&mut self, vars: EnvChange) -> Result<(), Error> {
        for _ in 0..MOST_ATTEMPTS {
            self.ready().await?;
            if let Some(shell) = self.shell.as_mut() {
                (shell.stale, shell.outdated) = (true, true);
            }
            if let Ok(set) = self.assign(&vars).await {
                return set;
            }
        }
        Err(Error::new(Code::EngineError, "the shell died again and again while variables were being set"))
    }

    async fn assign(&mut self, vars: &EnvChange) -> Result<Result<(), Error>, ShellLost> {
        for (name, value) in vars {
            if !self.checked(&scope::assignment(name, value.as_deref())).await? {
                return Ok(Err(scope::read_only(name)));
            }
        }
        Ok(Ok(()))
    }

    async fn close(&mut self) {
        let grace = self.closing.as_ref().map_or(Duration::ZERO, |(grace, _)| *grace);
        for job in self.queue.drain(..) {
            refuse(job, || Error::session_destroyed(&self.config.id));
        }
        if let Some(mut shell) = self.shell.take()
            && shell.phase != Phase::Gone
        {
            shell.processes.refuse_queued(|| Error::session_destroyed(&self.config.id));
            shell.supervisor.order(&Order::Shutdown { grace_ms: grace.as_millis() as u64 });
            let gone = async {
                while shell.phase != Phase::Gone {
                    shell.next().await;
                }
            };
            let _ = timeout(grace + CLOSE_LIMIT, gone).await;
        }
        if let Some((_, reply)) = self.closing.take() {
            let _ = reply.send(());
        }
        // Calls that were sent while the shell was being ended.
        self.mailbox.close();
        while let Ok(message) = self.mailbox.try_recv() {
            match message {
                Message::Close { reply, .. } => drop(reply.send(())),
                other => {
                    self.take(other, None);
                }
            }
        }
        for job in self.queue.drain(..) {
            refuse(job, || Error::session_destroyed(&self.config.id));
        }
    }
}

async fn next_happening(shell: &mut Option<Shell>) {
    match shell {
        Some(shell) if shell.phase != Phase::Gone => drop(shell.next().await),
        _ => std::future::pending().await,
    }
}

/// The error of calls on a session whose shell has ended for good.
pub(super) fn terminated(id: &str, code: Option<i32>) -> Error {
    let how = code.map_or("was killed".to_string(), |code| format!("exited with code {code}"));
    Error::new(Code::SessionTerminated, format!("the shell of session '{id}' {how}"))
}

fn refuse(job: Job, error: impl Fn() -> Error) {
    match job {
        Job::Open(reply) | Job::SetEnv { reply, .. } => drop(reply.send(Err(error()))),
        Job::Exec(request) => request.sink.finished(Err(error())),
        Job::Start(request) => request.refuse(error()),
    }
}
