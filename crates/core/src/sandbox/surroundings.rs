//! The limits, user and environment of everything in a sandbox.

use super::Sandbox;
use crate::capabilities::{self, Capabilities, Engine, ShellError};
use crate::error::{Code, Error};
use crate::isolation::{self, Isolation};
use crate::jobs::Launch;
use crate::limits::{self, Enforcement, Limits};
use crate::private_directory;
use crate::session::Proxied;
use crate::shell::probe;
use crate::user::User;
use nacre_isolation::confinement::Confinement;
use nacre_isolation::decide::{self, Places};
use nacre_isolation::rules::Network;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The enforcement of the sandbox's limits.
#[derive(Clone, Default)]
pub(super) struct Enforced {
    pub(super) by: Enforcement,
    /// The group of all sessions, if the limits need one.
    pub(super) group: Option<PathBuf>,
}

impl Sandbox {
    /// The capabilities of this system, probed once.
    pub fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities.get_or_init(|| {
            let mut found = Capabilities::probe();
            if self.inner.config.force_subreaper && found.group_parent.take().is_some() {
                found.controllers.clear();
                found.notes.push("control groups are switched off; trees are killed by the subreaper".into());
            }
            if self.inner.config.force_plain {
                found.notes.push("the builtin is switched off; each command runs in its own bash".into());
            }
            found
        })
    }

    /// The bash to use, or why there is none. Looked up once.
    pub fn shell(&self) -> &Result<PathBuf, ShellError> {
        self.inner.shell.get_or_init(|| {
            let config = &self.inner.config;
            let path = config.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
            capabilities::find_bash(config.shell.as_deref(), path)
        })
    }

    /// The engine of this sandbox's sessions. Determined once, by loading the builtin into the shell.
    pub fn engine(&self) -> Engine {
        *self.inner.engine.get_or_init(|| match self.shell() {
            Ok(shell) if !self.inner.config.force_plain && !probe::loads_builtin(shell) => Engine::Plain,
            _ if self.inner.config.force_plain => Engine::Plain,
            _ => Engine::Builtin,
        })
    }

    /// The surroundings of a durable job of this sandbox. The sandbox's limits apply to each job separately, because
    /// jobs outlive the sandbox and the group that its sessions share.
    ///
    /// # Errors
    /// `SPAWN_FAILED` if the shell or the user is missing; `LIMIT_UNSUPPORTED`.
    pub fn job_launch(&self, wanted: Option<&Limits>) -> Result<Launch, Error> {
        self.lock().check()?;
        let config = &self.inner.config;
        let shell = self.shell().clone()?;
        let user = self.user()?;
        let group_parent = self.capabilities().group_parent.clone();
        let limits = wanted.unwrap_or(&config.limits).enforcement(group_parent.as_ref(), self.binds_user()?)?;
        let mut env = self.env(user.as_ref());
        let isolation = config.isolation.as_ref();
        let confinement = isolation.map(|isolation| self.confine_job(isolation, &shell, &mut env)).transpose()?;
        Ok(Launch {
            confinement,
            supervisor: config.supervisor.clone(),
            shell,
            env,
            cwd: config.cwd.clone(),
            user,
            group_parent,
            limits,
        })
    }

    /// Checks that the state directory can hold logs. The first log that needs it creates it.
    ///
    /// # Errors
    /// `STATE_DIR_UNAVAILABLE` if other users can change it.
    pub(super) fn check_state_dir(&self) -> Result<(), Error> {
        let path = &self.inner.config.state_dir;
        private_directory::check(path).map(drop).map_err(|reason| {
            let message = format!("stateDir '{}' cannot be used: {reason}", path.display());
            Error::new(Code::StateDirUnavailable, message)
        })
    }

    /// Enforces the sandbox's limits, once.
    pub(super) fn enforced(&self) -> Result<Enforced, Error> {
        let inner = &self.inner;
        let made = inner.enforced.get_or_init(|| {
            let capabilities = self.capabilities();
            let by = inner.config.limits.enforcement(capabilities.group_parent.as_ref(), self.binds_user()?)?;
            let unique = format!("{}-{}", std::process::id(), inner.id);
            let group = limits::sandbox_group(&by.group, capabilities, &unique)?;
            Ok(Enforced { by, group })
        });
        made.clone()
    }

    pub(super) fn process_limits(&self, wanted: &Limits) -> Result<Enforcement, Error> {
        let parent = self.enforced()?.group.or_else(|| self.capabilities().group_parent.clone());
        wanted.enforcement(parent.as_ref(), self.binds_user()?)
    }

    /// True if limits that count per user apply to the processes of this sandbox.
    pub(super) fn binds_user(&self) -> Result<bool, Error> {
        let user = self.user()?;
        Ok(user.map_or_else(|| !nix::unistd::geteuid().is_root(), |user| user.uid != 0))
    }

    /// The mechanisms that enforce isolation on this machine.
    ///
    /// # Errors
    /// `SPAWN_FAILED` if the supervisor cannot run.
    pub fn tiers(&self) -> Result<isolation::Tiers, Error> {
        isolation::offer(&self.inner.config.supervisor).map(|offer| isolation::tiers(&offer))
    }

    /// The confinement of a durable job. A job outlives this process and its proxy, so it has no proxy. It has no pid
    /// namespace, whose init would outlive the command, so only Landlock limits its signals.
    fn confine_job(
        &self,
        isolation: &Isolation,
        shell: &Path,
        env: &mut Vec<(OsString, OsString)>,
    ) -> Result<Confinement, Error> {
        let unsupported = |error: decide::Unsupported| Error::new(Code::IsolationUnsupported, error.to_string());
        if isolation.rules.network == Network::Proxy {
            let reason = "a durable job outlives this process, whose proxy is the only way to the allowed hosts";
            return Err(unsupported(decide::Unsupported { rule: "isolation.network", reason: reason.into() }));
        }
        let mut offer = isolation::offer(&self.inner.config.supervisor)?;
        offer.processes = Err("durable jobs have none".into());
        offer.broker = Err("durable jobs have none".into());
        let unique = format!("nacre-job-{:016x}", RandomState::new().hash_one(std::process::id()));
        let places = self.places(&self.inner.config.cwd, shell, &unique);
        let confinement = decide::decide(&isolation.rules, &offer, places).map_err(unsupported)?;
        set_variable(env, "TMPDIR", confinement.temporary.clone().into());
        Ok(confinement)
    }

    fn places(&self, cwd: &Path, shell: &Path, unique: &str) -> Places {
        Places {
            cwd: cwd.to_path_buf(),
            shell: shell.canonicalize().unwrap_or_else(|_| shell.to_path_buf()),
            temporary: std::env::temp_dir().join(format!("{unique}-tmp")),
        }
    }

    /// The confinement of a session and its proxy. Adds the variables that programs need for both.
    pub(super) fn confine(
        &self,
        isolation: Option<&Isolation>,
        cwd: &Path,
        shell: &Path,
        unique: &str,
        env: &mut Vec<(OsString, OsString)>,
    ) -> Result<(Option<Arc<Confinement>>, Option<Proxied>), Error> {
        let Some(isolation) = isolation else { return Ok((None, None)) };
        let places = self.places(cwd, shell, unique);
        let offer = isolation::offer(&self.inner.config.supervisor)?;
        let mut confinement = decide::decide(&isolation.rules, &offer, places)
            .map_err(|unsupported| Error::new(Code::IsolationUnsupported, unsupported.to_string()))?;
        set_variable(env, "TMPDIR", confinement.temporary.clone().into());
        let proxied = isolation::proxied(&mut confinement, &isolation.allow)?;
        if let Some(port) = confinement.proxy_port {
            let variables = isolation::proxy_variables(port, &confinement, &isolation.allow);
            variables.into_iter().for_each(|(name, value)| set_variable(env, &name, value));
        }
        Ok((Some(Arc::new(confinement)), proxied))
    }

    pub(super) fn user(&self) -> Result<Option<User>, Error> {
        let spec = self.inner.config.user.as_ref();
        let found = self.inner.user.get_or_init(|| spec.map(User::resolve).transpose());
        Ok(found.clone()?)
    }

    /// The environment of sessions: the sandbox's, with the variables that a login as the user would set.
    pub(super) fn env(&self, user: Option<&User>) -> Vec<(OsString, OsString)> {
        let config = &self.inner.config;
        let mut env = config.env.clone();
        for (name, value) in user.map(User::variables).unwrap_or_default() {
            if !config.own_variables.iter().any(|own| own == name) {
                env.retain(|(existing, _)| existing != name);
                env.push((name.into(), value));
            }
        }
        env
    }
}

fn set_variable(env: &mut Vec<(OsString, OsString)>, name: &str, value: OsString) {
    env.retain(|(existing, _)| existing != name);
    env.push((name.into(), value));
}
