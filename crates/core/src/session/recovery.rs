//! Getting a shell, and getting it back: first start, standby, respawn, and the loss of the supervisor itself.

use super::actor::{MOST_INTERNAL_TEXTS, Session};
use super::listening::Happening;
use super::shell::{Phase, Shell};
use super::{remains, scope};
use crate::capabilities;
use crate::driver::Driver;
use crate::driver::script::{NOT_LIMITED, Origin, ScriptDriver};
use crate::error::{Code, Error};
use crate::log::Level;
use crate::supervisor::{GroupPlan, Supervisor};
use nacre_containment::wire::{Order, Report};
use std::ffi::OsString;
use std::time::Duration;
use tokio::time::timeout;

/// Longest time a shell may take from start, `exit` or takeover until it is ready. Large states take a tenth of a second.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// How long to wait for the standby of a session whose supervisor was killed.
const LAST_STATE_LIMIT: Duration = Duration::from_secs(2);
/// So often a shell that dies at once is started again.
pub(super) const MOST_ATTEMPTS: u32 = 3;

impl Session {
    /// Waits until the shell is ready for a command, and does whatever that takes.
    pub(super) async fn ready(&mut self) -> Result<(), Error> {
        let (mut attempts, mut upkeeps) = (0, 0);
        loop {
            let Some(shell) = self.shell.as_mut() else {
                self.start().await?;
                continue;
            };
            match shell.phase {
                Phase::Ready => match shell.driver.upkeep() {
                    Some(text) if upkeeps < MOST_INTERNAL_TEXTS => {
                        upkeeps += 1;
                        drop(self.internal(&text).await);
                    }
                    _ => return Ok(()),
                },
                Phase::Busy | Phase::Ending => {
                    if shell.next_within(READY_LIMIT).await.is_none() {
                        shell.supervisor.order(&Order::KillShell);
                    }
                }
                Phase::Dead | Phase::Gone if attempts == MOST_ATTEMPTS => {
                    let message = format!(
                        "the shell of session '{}' dies again and again as soon as it is started",
                        self.config.id
                    );
                    return Err(Error::new(Code::SpawnFailed, message));
                }
                Phase::Dead => {
                    attempts += 1;
                    self.replace_shell().await?;
                }
                Phase::Gone => {
                    attempts += 1;
                    self.restart().await?;
                }
            }
        }
    }

    /// Puts a shell that died in idle time back at once, so that the next command finds it ready. What can not be put
    /// right is told to the next command.
    pub(super) async fn mend(&mut self) {
        if self.shell.as_ref().is_some_and(|shell| matches!(shell.phase, Phase::Dead | Phase::Gone)) {
            if self.config.survive_exit {
                drop(self.ready().await);
            } else {
                self.terminated.get_or_insert(None);
            }
        }
    }

    async fn start(&mut self) -> Result<(), Error> {
        if !self.config.cwd.is_dir() {
            return Err(scope::cwd_error(&self.config.cwd));
        }
        let bash_env = self.config.env.iter().rfind(|(name, _)| name == "BASH_ENV").map(|(_, value)| value.clone());
        let driver = self.open_driver(bash_env)?;
        self.launch(driver).await?;
        let checked = self.first_answer().await;
        if checked.is_err() {
            // Dropping it ends the supervisor and all that.
            self.shell = None;
        }
        checked
    }

    /// Waits for a shell that is started for the first time, and makes sure that it is one we can work with.
    async fn first_answer(&mut self) -> Result<(), Error> {
        let Some(shell) = self.shell.as_mut() else { return Ok(()) };
        while shell.phase == Phase::Busy {
            if shell.next_within(READY_LIMIT).await.is_none() {
                return Err(Error::new(
                    Code::SpawnFailed,
                    format!("'{}' did not become ready", self.config.shell.display()),
                ));
            }
        }
        let version = String::from_utf8_lossy(&shell.driver.stored().unwrap_or_default()).into_owned();
        if version.contains(NOT_LIMITED) {
            let message = "the sandbox's limits can not be set: they are above what the host itself may use";
            return Err(Error::new(Code::LimitUnsupported, message));
        }
        capabilities::check_version(&self.config.shell, &version)
            .map_err(|message| Error::new(Code::SpawnFailed, message))
    }

    fn owner(&self) -> Option<(u32, u32)> {
        self.config.user.as_ref().map(|user| (user.uid, user.gid))
    }

    fn open_driver(&self, bash_env: Option<OsString>) -> Result<Box<dyn Driver>, Error> {
        let origin = Origin {
            shell: self.config.shell.clone(),
            supervisor: self.config.supervisor.clone(),
            bash_env,
            limits: self.config.limits.clone(),
            offers_builtin: self.config.offers_builtin,
        };
        let owner = self.owner();
        let opened = match &self.config.fifo_directory {
            Some(directory) => ScriptDriver::over_fifos(origin, directory.clone(), owner).map_err(|error| {
                // Not the directory's fault.
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                    return spawn_failed("open the shell's channels", &error);
                }
                let message = format!("the state directory '{}' can not be used: {error}", directory.display());
                Error::new(Code::StateDirUnavailable, message)
            }),
            None => ScriptDriver::over_proc(origin).map_err(|error| spawn_failed("open the shell's channels", &error)),
        };
        Ok(Box::new(opened?))
    }

    async fn launch(&mut self, mut driver: Box<dyn Driver>) -> Result<(), Error> {
        let launch = driver.launch().map_err(|error| spawn_failed("prepare the shell", &error))?;
        self.groups_made += 1;
        let group = self
            .config
            .group
            .as_ref()
            .map(|(parent, name)| GroupPlan { parent: parent.clone(), name: format!("{name}-{}", self.groups_made) });
        let supervisor = Supervisor::start(&self.config, launch, group.as_ref())
            .map_err(|error| spawn_failed(&format!("run {}", self.config.supervisor.display()), &error))?;
        match timeout(READY_LIMIT, supervisor.report()).await {
            Ok(Some(Report::Started { shell, group })) => {
                let shell = Shell::new(driver, supervisor, shell, group, self.config.cwd.clone(), self.owner())
                    .map_err(|error| spawn_failed("watch the shell", &error))?;
                self.shell = Some(shell);
                Ok(())
            }
            Ok(Some(Report::StartFailed { message, .. })) if message.contains("working directory") => {
                Err(scope::cwd_error(&self.config.cwd))
            }
            Ok(Some(Report::StartFailed { message, .. })) => Err(Error::new(Code::SpawnFailed, message)),
            Ok(_) => Err(Error::new(Code::SpawnFailed, "the supervisor ended before it could start the shell")),
            Err(_) => Err(Error::new(Code::SpawnFailed, "the supervisor did not answer")),
        }
    }

    /// The shell's process is gone. In order of how much is kept: it had saved its state; a snapshot stands by; nothing
    /// but the state of the last `exit`, or of the start.
    async fn replace_shell(&mut self) -> Result<(), Error> {
        let Some(shell) = self.shell.as_mut() else { return Ok(()) };
        let told = std::mem::take(&mut self.death_told);
        if shell.successor.is_some() {
            // It died before that was in place, which happens meanwhile.
            shell.retire_standby().await;
        }
        let expected = shell.handed_over;
        if !expected && shell.died_saving && shell.driver.adopt_saved_state() {
            return self.respawn().await;
        }
        self.restarted |= !told && !expected;
        if !expected {
            let id = &self.config.id;
            self.config
                .log
                .write(Level::Warn, || format!("the shell of session '{id}' died; its last snapshot goes on"));
        }
        shell.retire_standby().await;
        // Before the order: the new shell may be ready before the supervisor's answer is here.
        shell.phase = Phase::Busy;
        shell.supervisor.order(&Order::PromoteStandby);
        loop {
            match shell.next().await {
                Happening::Supervisor(Report::Promoted { shell: Some(standby) }) => {
                    return shell.driver.take_over(standby).map_err(|error| spawn_failed("wake the standby", &error));
                }
                Happening::Supervisor(Report::Promoted { shell: None }) => {
                    let id = &self.config.id;
                    self.config.log.write(Level::Error, || {
                        format!("session '{id}' has no snapshot; it starts from an older state")
                    });
                    return self.respawn().await;
                }
                Happening::SupervisorGone => return Ok(()),
                _ => {}
            }
        }
    }

    async fn respawn(&mut self) -> Result<(), Error> {
        let Some(shell) = self.shell.as_mut() else { return Ok(()) };
        // The supervisor remembers how to start a shell; launching again only puts the channels in order.
        shell.driver.launch().map_err(|error| spawn_failed("prepare the shell", &error))?;
        shell.phase = Phase::Busy;
        shell.supervisor.order(&Order::Respawn);
        loop {
            match shell.next().await {
                Happening::Supervisor(Report::Started { .. }) | Happening::SupervisorGone => return Ok(()),
                Happening::Supervisor(Report::StartFailed { message, .. }) => {
                    return Err(Error::new(Code::SpawnFailed, message));
                }
                _ => {}
            }
        }
    }

    /// The supervisor was killed. Its shell died with it (parent-death signal); the standby did not and still knows the
    /// state. It is asked for it, then everything that is left of the session is killed and a new supervisor started.
    async fn restart(&mut self) -> Result<(), Error> {
        self.restarted = true;
        let id = &self.config.id;
        self.config
            .log
            .write(Level::Error, || format!("the supervisor of session '{id}' died; the session is started again"));
        let Some(mut shell) = self.shell.take() else { return Ok(()) };
        // The race: an earlier standby that the dead supervisor should have killed waits for the same byte as the last one,
        // and even one that has been killed can still take it: a read that finds data returns it before the signal acts.
        let (standby, others) = shell.bereaved();
        remains::bury(others).await;
        if let Some(standby) = standby
            && shell.driver.take_over(standby.pid).is_ok()
        {
            let saved = async { while !matches!(shell.next().await, Happening::Shell(crate::driver::Event::Saved)) {} };
            if timeout(LAST_STATE_LIMIT, saved).await.is_ok() {
                shell.driver.adopt_saved_state();
            }
        }
        remains::sweep(shell.supervisor.pid(), shell.session_group()).await;
        // The race: the dead shell may have reported a command after that had been given up for lost.
        shell.driver.forget();
        self.launch(shell.into_driver()).await
    }
}

fn spawn_failed(doing: &str, error: &std::io::Error) -> Error {
    Error::new(Code::SpawnFailed, format!("can not {doing}: {error}"))
}
