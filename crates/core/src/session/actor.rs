//! The task that owns a session: takes messages, runs one job after the other, uses idle time for snapshots.

use super::shell::{Happening, Phase, Shell};
use super::{Config, EnvChange, Message};
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, Outcome};
use crate::session::scope;
use nacre_containment::wire::Order;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// A snapshot is taken when nothing has run for this long, so that a burst of commands never pays for one.
const IDLE_BEFORE_SNAPSHOT: Duration = Duration::from_millis(8);
/// A fork that took over from an `exit` with a large state is renewed when nothing has run for this long.
const IDLE_BEFORE_RENEWAL: Duration = Duration::from_millis(400);
/// Longest time an engine's own text may take in the shell.
const INTERNAL_LIMIT: Duration = Duration::from_secs(10);
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
}

/// The shell went away under an internal text.
pub(super) struct ShellLost;

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
    pub(super) closing: Option<(Duration, oneshot::Sender<()>)>,
    pub(super) ladders: u64,
    pub(super) groups_made: u64,
    /// Where the session stood before a command with a directory of its own.
    pub(super) cwd_before: Option<std::path::PathBuf>,
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
            closing: None,
            ladders: 0,
            groups_made: 0,
            cwd_before: None,
        }
    }

    /// Runs until the session is closed or every handle is gone.
    pub(super) async fn run(mut self) {
        while self.closing.is_none() {
            if let Some(job) = self.queue.pop_front() {
                self.perform(job).await;
                continue;
            }
            let ready = self.shell.as_ref().filter(|shell| shell.phase == Phase::Ready);
            let (snapshot_due, renewal_due) = ready.map_or((false, false), |shell| (shell.stale, shell.handed_over));
            tokio::select! {
                biased;
                message = self.mailbox.recv() => match message {
                    Some(message) => drop(self.take(message, None)),
                    None => break,
                },
                () = next_happening(&mut self.shell) => self.mend().await,
                () = sleep(IDLE_BEFORE_SNAPSHOT), if snapshot_due => self.snapshot().await,
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
            Message::Interrupt { id, signal } if running == Some(id) => return Some(signal),
            Message::Interrupt { id, .. } => self.cancel_queued(id),
            Message::Close { grace, reply } => self.closing = Some((grace, reply)),
        }
        None
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
        }
    }

    async fn set_env(&mut self, vars: EnvChange) -> Result<(), Error> {
        self.ready().await?;
        for (name, value) in vars {
            let assignment = scope::assignment(&name, value.as_deref());
            match self.checked(&assignment).await {
                Ok(true) => {}
                Ok(false) => return Err(scope::read_only(&name)),
                Err(ShellLost) => {
                    self.ready().await?;
                    return Err(Error::new(Code::EngineError, "the shell died while variables were being set"));
                }
            }
        }
        Ok(())
    }

    /// Runs a text of the engine's own.
    pub(super) async fn internal(&mut self, text: &[u8]) -> Result<(), ShellLost> {
        let Some(shell) = self.shell.as_mut() else { return Err(ShellLost) };
        shell.phase = Phase::Busy;
        if shell.driver.run_internal(text).is_err() {
            shell.supervisor.order(&Order::KillShell);
        }
        // An EXIT trap that began before the text was taken has nothing to do with it: the shell comes back, is ready
        // once more, and only then takes it.
        let (mut skip, mut lost) = (false, false);
        loop {
            let Ok(happening) = timeout(INTERNAL_LIMIT, shell.next()).await else {
                shell.supervisor.order(&Order::KillShell);
                continue;
            };
            match happening {
                Happening::Shell(crate::driver::Event::Ready { .. }) => {
                    if lost {
                        return Err(ShellLost);
                    }
                    if !std::mem::take(&mut skip) {
                        return Ok(());
                    }
                }
                Happening::Shell(crate::driver::Event::Ending { .. }) if shell.driver.token_unread() => skip = true,
                Happening::Shell(crate::driver::Event::Ending { .. }) => lost = true,
                _ if matches!(shell.phase, Phase::Dead | Phase::Gone) => return Err(ShellLost),
                _ => {}
            }
        }
    }

    /// Runs a text of the engine's own and says whether it succeeded.
    pub(super) async fn checked(&mut self, text: &[u8]) -> Result<bool, ShellLost> {
        let text = self.shell.as_ref().map(|shell| shell.driver.checked(text)).ok_or(ShellLost)?;
        self.internal(&text).await?;
        let shell = self.shell.as_mut().ok_or(ShellLost)?;
        Ok(shell.driver.stored().is_ok_and(|answer| answer == b"0"))
    }

    /// Forks the standby and waits until it stands by.
    pub(super) async fn snapshot(&mut self) {
        let Some(shell) = self.shell.as_mut() else { return };
        let before = shell.standby;
        let text = shell.driver.snapshot(shell.pid);
        if self.internal(&text).await.is_err() {
            return;
        }
        let Some(shell) = self.shell.as_mut() else { return };
        while shell.standby == before && shell.phase == Phase::Ready {
            // A fork that fails (process limit) leaves the old standby in place: older, but better than none.
            if timeout(Duration::from_secs(1), shell.next()).await.is_err() {
                break;
            }
        }
        shell.stale = false;
    }

    /// Turns a shell that goes on as a fork of an ended one into one of its own. Takes a tenth of a second when the state
    /// is large, which is why it was not done at once.
    async fn renew(&mut self) {
        let Some(shell) = self.shell.as_mut() else { return };
        let text = shell.driver.renew();
        // A shell that dies over it is brought back by whoever needs it next.
        let _ = self.internal(&text).await;
    }

    async fn close(&mut self) {
        let grace = self.closing.as_ref().map_or(Duration::ZERO, |(grace, _)| *grace);
        for job in self.queue.drain(..) {
            refuse(job, || Error::session_destroyed(&self.config.id));
        }
        if let Some(mut shell) = self.shell.take()
            && shell.phase != Phase::Gone
        {
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
    }
}
