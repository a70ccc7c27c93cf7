//! The sessions of one sandbox: made, found and ended by id.

use crate::capabilities::{self, Capabilities};
use crate::error::{Code, Error};
use crate::exec::ExecRequest;
use crate::jobs::Launch;
use crate::limits::{self, Enforcement, Limits};
use crate::log::Log;
use crate::process::{NewProcess, Process, Registry, StartRequest};
use crate::process_log::ProcessLog;
use crate::session::{Config as SessionConfig, EnvChange, Handle};
use crate::user::{User, UserSpec};
use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::oneshot;

/// The session that exists by itself.
pub const DEFAULT_SESSION: &str = "default";

/// What all sessions of a sandbox start from.
#[derive(Clone, Debug)]
pub struct Config {
    /// Absolute.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Path of bash; otherwise the first on PATH.
    pub shell: Option<PathBuf>,
    /// Path of the supervisor executable.
    pub supervisor: PathBuf,
    /// `exit` ends the command only.
    pub survive_exit: bool,
    /// Directory for everything on disk.
    pub state_dir: PathBuf,
    /// Use FIFOs although `/proc/<pid>/fd` works.
    pub force_fifo: bool,
    /// Use no control groups although they work.
    pub force_subreaper: bool,
    /// What all of it together may use; descriptors: each process.
    pub limits: Limits,
    /// Whom everything runs as, when it is somebody else.
    pub user: Option<UserSpec>,
    /// Variables that the user's own (`HOME`, `USER` ...) must not replace.
    pub own_variables: Vec<String>,
    /// Where deaths and recoveries are told.
    pub log: Log,
}

/// A session to be made.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// Its id.
    pub id: String,
    /// Instead of the sandbox's, absolute.
    pub cwd: Option<PathBuf>,
    /// Changes to the sandbox's environment.
    pub env: EnvChange,
    /// Instead of the sandbox's.
    pub survive_exit: Option<bool>,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

/// A [`Sandbox`] that does not keep it from being forgotten.
pub struct WeakSandbox(Weak<Inner>);

impl WeakSandbox {
    /// The sandbox, if anybody still has it.
    pub fn upgrade(&self) -> Option<Sandbox> {
        self.0.upgrade().map(|inner| Sandbox { inner })
    }
}

/// How the sandbox's limits are in force.
#[derive(Clone, Default)]
struct Enforced {
    by: Enforcement,
    /// The group of all sessions, when it needs one.
    group: Option<PathBuf>,
}

struct Inner {
    config: Config,
    id: u64,
    capabilities: OnceLock<Capabilities>,
    shell: OnceLock<Result<PathBuf, String>>,
    user: OnceLock<Result<Option<User>, String>>,
    enforced: OnceLock<Result<Enforced, (Code, String)>>,
    sessions: Mutex<Sessions>,
    processes: Registry,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<String, Handle>,
    /// Ids whose end is still under way, so that they are not given out again before it.
    closing: HashMap<String, Handle>,
    destroyed: bool,
    made: u64,
}

static SANDBOXES: AtomicU64 = AtomicU64::new(0);

impl Sandbox {
    /// Does nothing yet.
    pub fn new(config: Config) -> Self {
        let id = SANDBOXES.fetch_add(1, Ordering::Relaxed);
        Self {
            inner: Arc::new(Inner {
                config,
                id,
                capabilities: OnceLock::new(),
                shell: OnceLock::new(),
                user: OnceLock::new(),
                enforced: OnceLock::new(),
                sessions: Mutex::default(),
                processes: Registry::default(),
            }),
        }
    }

    /// For those who must not keep it.
    pub fn downgrade(&self) -> WeakSandbox {
        WeakSandbox(Arc::downgrade(&self.inner))
    }

    /// What is used on this system. Probed once.
    pub fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities.get_or_init(|| {
            let mut found = Capabilities::probe();
            if self.inner.config.force_subreaper && found.group_parent.take().is_some() {
                found.notes.push("control groups are switched off; trees are killed by the subreaper".into());
            }
            if self.inner.config.user.is_some() && std::mem::take(&mut found.proc_fd) {
                found
                    .notes
                    .push("commands run as another user: the shell's channels are FIFOs in the state directory".into());
            }
            if self.inner.config.force_fifo && std::mem::take(&mut found.proc_fd) {
                found.notes.push(
                    "/proc/<pid>/fd is switched off; the shell's channels are FIFOs in the state directory".into(),
                );
            }
            found
        })
    }

    /// The bash that is used, or why there is none. Looked for once.
    pub fn shell(&self) -> &Result<PathBuf, String> {
        self.inner.shell.get_or_init(|| {
            let config = &self.inner.config;
            let path =
                config.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap_or_default();
            capabilities::find_bash(config.shell.as_deref(), &path)
        })
    }

    /// Makes a session and starts its shell. This and the following calls take effect at once, and not when their future
    /// is first polled: they keep their order with [`Sandbox::exec`].
    pub fn create_session(&self, new: NewSession) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let id = new.id.clone();
        let added = self.add(new).map(|handle| (handle.open(), handle));
        let sandbox = self.clone();
        async move {
            let (opening, handle) = added?;
            let opened = opening.await;
            if opened.is_err() {
                sandbox.lock().open.remove(&id);
                handle.close(Duration::ZERO).await;
            }
            opened
        }
    }

    /// Queues a command in a session.
    pub fn exec(&self, session: &str, request: ExecRequest) {
        match self.session(session) {
            Ok(handle) => handle.exec(request),
            Err(error) => request.sink.finished(Err(error)),
        }
    }

    /// Ends a command; see [`Handle::interrupt`].
    pub fn interrupt(&self, session: &str, id: u64, signal: Option<i32>) {
        if let Some(handle) = self.lock().open.get(session) {
            handle.interrupt(id, signal);
        }
    }

    /// Starts a background process from a session; resolves when it has a pid.
    pub fn start_process(
        &self,
        session: &str,
        mut new: NewProcess,
    ) -> impl Future<Output = Result<Arc<Process>, Error>> + Send + use<> {
        let log = ProcessLog::new(&self.inner.config.state_dir, new.log_limit);
        let filed = self.session(session).and_then(|handle| {
            new.limits = self.process_limits(&new.wanted_limits)?;
            let process = Arc::new(Process::new(&mut new, handle.downgrade(), log));
            self.inner.processes.add(Arc::clone(&process))?;
            let (reply, answer) = oneshot::channel();
            handle.start_process(StartRequest { new, process: Arc::clone(&process), reply });
            Ok((process, answer))
        });
        let sandbox = self.clone();
        async move {
            let (process, answer) = filed?;
            let started = answer.await.unwrap_or_else(|_| Err(Error::session_destroyed(process.session.id())));
            if let Err(error) = started {
                sandbox.inner.processes.remove(&process);
                return Err(error);
            }
            Ok(process)
        }
    }

    /// The background processes.
    pub fn processes(&self) -> &Registry {
        &self.inner.processes
    }

    /// Sets and unsets variables of a session.
    pub fn set_env(&self, session: &str, vars: EnvChange) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let setting = self.session(session).map(|handle| handle.set_env(vars));
        async move { setting?.await }
    }

    /// The ids of all sessions that have been made; the default session is among them once it has been used.
    pub fn sessions(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.lock().open.keys().cloned().collect();
        ids.sort();
        ids
    }

    /// Ends a session with everything it started.
    pub fn delete_session(&self, id: &str, grace: Duration) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let closing = self.start_closing(id).map(|handle| handle.close(grace));
        let (sandbox, id) = (self.clone(), id.to_string());
        async move {
            closing?.await;
            sandbox.lock().closing.remove(&id);
            Ok(())
        }
    }

    fn start_closing(&self, id: &str) -> Result<Handle, Error> {
        let mut sessions = self.lock();
        sessions.check()?;
        let handle = sessions.open.remove(id).ok_or_else(|| Error::session_not_found(id))?;
        sessions.closing.insert(id.to_string(), handle.clone());
        self.inner.processes.end_with(Some(id));
        Ok(handle)
    }

    /// Ends all sessions; every later call fails. Resolves when nothing is left.
    pub fn destroy(&self, grace: Duration) -> impl Future<Output = ()> + Send + use<> {
        let handles: Vec<Handle> = {
            let mut sessions = self.lock();
            sessions.destroyed = true;
            self.inner.processes.end_with(None);
            let open: Vec<Handle> = sessions.open.drain().map(|(_, handle)| handle).collect();
            open.into_iter().chain(sessions.closing.drain().map(|(_, handle)| handle)).collect()
        };
        // All are told at once; then each is waited for.
        let closing: Vec<_> = handles.into_iter().map(|handle| handle.close(grace)).collect();
        let sandbox = self.clone();
        async move {
            for closed in closing {
                closed.await;
            }
            if let Some(Ok(Enforced { group: Some(group), .. })) = sandbox.inner.enforced.get() {
                // The last supervisor has removed it, unless there was none.
                let _ = std::fs::remove_dir(group);
            }
            // Their logs go with them, and the files of those.
            sandbox.inner.processes.clear();
        }
    }

    /// What a durable job of this sandbox starts with. The sandbox's limits hold for each job by itself, since jobs
    /// outlive the sandbox and the group that its sessions share.
    ///
    /// # Errors
    /// No shell, no such user, `LIMIT_UNSUPPORTED`.
    pub fn job_launch(&self, wanted: Option<&Limits>) -> Result<Launch, Error> {
        self.lock().check()?;
        let config = &self.inner.config;
        let shell = self.shell().clone().map_err(|message| Error::new(Code::SpawnFailed, message))?;
        let user = self.user()?;
        let group_parent = self.capabilities().group_parent.clone();
        let limits = wanted.unwrap_or(&config.limits).enforcement(group_parent.as_ref(), self.binds_user()?)?;
        let env = self.env(user.as_ref());
        Ok(Launch {
            supervisor: config.supervisor.clone(),
            shell,
            env,
            cwd: config.cwd.clone(),
            user,
            group_parent,
            limits,
        })
    }

    fn session(&self, id: &str) -> Result<Handle, Error> {
        {
            let sessions = self.lock();
            sessions.check()?;
            if let Some(handle) = sessions.open.get(id) {
                return Ok(handle.clone());
            }
        }
        if id == DEFAULT_SESSION {
            self.add(NewSession { id: id.into(), ..NewSession::default() })
        } else {
            Err(Error::session_not_found(id))
        }
    }

    /// Puts the sandbox's limits into force, once.
    fn enforced(&self) -> Result<Enforced, Error> {
        let inner = &self.inner;
        let made = inner.enforced.get_or_init(|| {
            let capabilities = self.capabilities();
            let binds_user = self.binds_user().map_err(|error| (error.code, error.message))?;
            let enforce = || {
                let by = inner.config.limits.enforcement(capabilities.group_parent.as_ref(), binds_user)?;
                let unique = format!("{}-{}", std::process::id(), inner.id);
                let group = limits::sandbox_group(&by.group, capabilities, &unique)?;
                Ok(Enforced { by, group })
            };
            enforce().map_err(|error: Error| (error.code, error.message))
        });
        made.clone().map_err(|(code, message)| Error::new(code, message))
    }

    fn process_limits(&self, wanted: &Limits) -> Result<Enforcement, Error> {
        let parent = self.enforced()?.group.or_else(|| self.capabilities().group_parent.clone());
        wanted.enforcement(parent.as_ref(), self.binds_user()?)
    }

    /// Whether limits that are counted by user bind those that run here.
    fn binds_user(&self) -> Result<bool, Error> {
        let user = self.user()?;
        Ok(user.map_or_else(|| !nix::unistd::geteuid().is_root(), |user| user.uid != 0))
    }

    fn user(&self) -> Result<Option<User>, Error> {
        let spec = self.inner.config.user.as_ref();
        let found = self.inner.user.get_or_init(|| spec.map(User::resolve).transpose());
        found.clone().map_err(|message| Error::new(Code::SpawnFailed, message))
    }

    /// What sessions start with: the sandbox's environment, with what a login as the user would set.
    fn env(&self, user: Option<&User>) -> Vec<(OsString, OsString)> {
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

    fn add(&self, new: NewSession) -> Result<Handle, Error> {
        let shell = self.shell().clone().map_err(|message| Error::new(Code::SpawnFailed, message))?;
        let capabilities = self.capabilities();
        let user = self.user()?;
        let enforced = self.enforced()?;
        let config = &self.inner.config;
        let mut sessions = self.lock();
        sessions.check()?;
        if sessions.open.contains_key(&new.id) || sessions.closing.contains_key(&new.id) {
            return Err(Error::new(Code::SessionAlreadyExists, format!("session '{}' exists already", new.id)));
        }
        sessions.made += 1;
        let unique = format!("nacre-{}-{}-{}", self_name(), self.inner.id, sessions.made);
        let session = SessionConfig {
            id: new.id.clone(),
            cwd: new.cwd.unwrap_or_else(|| config.cwd.clone()),
            env: changed(&self.env(user.as_ref()), new.env),
            user,
            shell,
            supervisor: config.supervisor.clone(),
            log: config.log.clone(),
            survive_exit: new.survive_exit.unwrap_or(config.survive_exit),
            fifo_directory: (!capabilities.proc_fd).then(|| config.state_dir.join(&unique)),
            limits: enforced.by.statements().into_iter().map(|(statement, _)| statement).collect(),
            group: enforced.group.or_else(|| capabilities.group_parent.clone()).map(|parent| (parent, unique)),
        };
        let handle = Handle::spawn(session)
            .map_err(|error| Error::new(Code::SpawnFailed, format!("can not start the engine: {error}")))?;
        sessions.open.insert(new.id, handle.clone());
        Ok(handle)
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.inner.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    fn check(&self) -> Result<(), Error> {
        if self.destroyed { Err(Error::new(Code::SandboxDestroyed, "the sandbox was destroyed")) } else { Ok(()) }
    }
}

/// The pid of this process, and something that no other process with this pid has had: pids come again, above all that of
/// a host which is init of a container. When such a host dies its whole pid namespace does, its supervisors too, and what
/// they would have removed stays where the next one starts.
fn self_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        // The standard library's keys are random for each process.
        let random = RandomState::new().hash_one(0) as u32;
        format!("{}-{random:08x}", std::process::id())
    })
}

pub(crate) fn changed(env: &[(OsString, OsString)], changes: EnvChange) -> Vec<(OsString, OsString)> {
    let mut env = env.to_vec();
    for (name, value) in changes {
        env.retain(|(existing, _)| *existing != *name);
        env.extend(value.map(|value| (OsString::from(name), OsString::from(value))));
    }
    env
}
