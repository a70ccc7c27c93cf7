//! A sandbox: its sessions by id, and their creation and end.

mod budgets;
mod caches;
mod checkpoint;
mod config;
mod disk_limit;
mod files;
mod fork;
mod keep;
mod kept_processes;
mod merge;
mod pause;
mod ports;
mod secrets;
mod steps;
mod surroundings;
mod suspend;
mod workspace;

use crate::budget::{Budget, Limited};
use crate::capabilities::{Capabilities, ShellError};
use crate::error::{Code, Error};
use crate::exec::{ExecRequest, KilledBy, Outcome};
use crate::feed::{Feed, What};
use crate::functions::Functions;
use crate::hook::Hook;
use crate::isolation::Answering;
use crate::process::{
    DetachRequest, DetachedProcess, NewProcess, Process, ProcessObserver, Registry, SessionStats, StartRequest, Starter,
};
use crate::process_log::{ProcessLog, StateDirectory};
use crate::program_record::ProgramRecord;
use crate::questions::{self, Asking, Question, Questions};
use crate::session::{Handle, Hold, Isolate, Judgement, Opened, RunningCommand, Saved, SessionConfig};
use crate::user::{User, UserError};
use crate::variables::{self, EnvChange};
use crate::workspace::Workspace;
use keep::Keeper;
use nacre_containment::lock::Lock;
use nacre_containment::session_mark::Marks;
use nacre_egress::Plan;
use nacre_protocol::confinement::Network;
use nacre_protocol::standing::ResourceLimits;
use nacre_protocol::workspace::Offer;
use secrets::Secrets;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::time::Duration;
use steps::Steps;
use surroundings::Enforced;
use tokio::sync::{Notify, RwLock};

pub use checkpoint::Rollback;
pub use config::{Config, NewSession};
pub use merge::{MergeOptions, Merged};
pub use nacre_keep::Entry;
pub use pause::{Pause, WhenBusy};
pub use ports::OpenPort;
pub use suspend::{ResumeOptions, Resumed, Suspended};

/// The session that always exists.
pub const DEFAULT_SESSION: &str = "default";

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

/// A weak [`Sandbox`].
pub struct WeakSandbox(Weak<Inner>);

impl WeakSandbox {
    /// The sandbox, if it still exists.
    pub fn upgrade(&self) -> Option<Sandbox> {
        self.0.upgrade().map(|inner| Sandbox { inner })
    }
}

struct Inner {
    config: Config,
    state_directory: Arc<StateDirectory>,
    id: u64,
    capabilities: OnceLock<Capabilities>,
    shell: OnceLock<Result<PathBuf, ShellError>>,
    opened: OnceLock<Opened>,
    record: Lock<Option<Arc<ProgramRecord>>>,
    user: OnceLock<Result<Option<User>, UserError>>,
    enforced: OnceLock<Result<Enforced, Error>>,
    workspace: Option<Arc<Workspace>>,
    workspace_offer: OnceLock<Offer>,
    sessions: Lock<Sessions>,
    steps: Steps,
    processes: Registry,
    /// What all sessions together may use.
    budget: Option<Arc<Budget>>,
    /// Wakes what looks at the disk of the workspace.
    writes: OnceLock<Arc<Notify>>,
    feed: Arc<Feed>,
    questions: Arc<Questions>,
    secrets: Secrets,
    /// What the sandbox keeps on the disk, if it has a name.
    keeper: OnceLock<Keeper>,
    /// Shared by file calls that are being made, and exclusive for a pause.
    files: Arc<RwLock<()>>,
    /// Lasts from the suspension of the sandbox to its end.
    suspended: Lock<Option<Pause>>,
}

/// A session that calls can use.
#[derive(Clone)]
struct OpenSession {
    handle: Handle,
    /// How it was created.
    new: NewSession,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<String, OpenSession>,
    /// Sessions that are closing, by number. Their ids cannot be reused until they have closed, except 'default', which
    /// always exists.
    closing: HashMap<u64, (String, Handle)>,
    closings: u64,
    /// The pauses that wait or are in effect, in order, with the holds of sessions that were created meanwhile.
    pauses: BTreeMap<u64, Vec<Hold>>,
    /// How many pauses there have been.
    paused: u64,
    destroyed: bool,
    made: u64,
}

/// What the sessions of a sandbox have in common.
#[derive(Clone)]
struct SharedSandbox {
    shell: PathBuf,
    user: Option<User>,
    limits: ResourceLimits,
    /// Where the sessions' control groups are created, if groups are used.
    group_parent: Option<PathBuf>,
}

static SANDBOXES: AtomicU64 = AtomicU64::new(0);

impl Sandbox {
    /// Creates a sandbox. Starts nothing.
    pub fn new(config: Config) -> Self {
        config.log.install();
        let id = SANDBOXES.fetch_add(1, Ordering::Relaxed);
        let workspace = config.workspace.clone().map(|options| {
            let unique = format!("{}-{id}", self_name());
            Arc::new(Workspace::new(options, &config.state_dir, unique, config.supervisor.clone()))
        });
        let feed = Arc::<Feed>::default();
        Self {
            inner: Arc::new(Inner {
                state_directory: Arc::new(StateDirectory::new(config.state_dir.clone())),
                id,
                capabilities: OnceLock::new(),
                shell: OnceLock::new(),
                opened: OnceLock::new(),
                record: Lock::default(),
                user: OnceLock::new(),
                enforced: OnceLock::new(),
                workspace,
                workspace_offer: OnceLock::new(),
                sessions: Lock::default(),
                steps: Steps::default(),
                processes: Registry::default(),
                writes: OnceLock::new(),
                budget: config.budget.map(|limit| Budget::new(Limited::Sandbox, limit)),
                questions: Arc::new(questions(Arc::clone(&feed), config.on_question.clone())),
                secrets: Secrets::default(),
                keeper: OnceLock::new(),
                feed,
                files: Arc::default(),
                suspended: Lock::default(),
                config,
            }),
        }
    }

    /// A weak handle.
    pub fn downgrade(&self) -> WeakSandbox {
        WeakSandbox(Arc::downgrade(&self.inner))
    }

    /// Creates a session and starts its shell. This and the following calls take effect immediately, not when their
    /// future is first polled, so they keep their order with [`Sandbox::exec`].
    pub fn create_session(&self, new: NewSession) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let added = self.add(new).map(|handle| (handle.open(), handle));
        let sandbox = self.clone();
        async move {
            let (opening, handle) = added?;
            let opened = opening.await;
            if opened.is_err() {
                // A rollback may have put another one in its place.
                sandbox.lock().open.retain(|_, open| !open.handle.is(&handle));
                handle.close(Duration::ZERO).await;
            }
            opened.map(drop)
        }
    }

    /// Returns what judges paths and hosts by the rules of a session, once its shell has started. `None` without rules.
    pub fn judgement(&self, session: &str) -> impl Future<Output = Result<Option<Judgement>, Error>> + Send + use<> {
        let handle = self.session(session).map(|handle| (handle.open(), handle));
        async move {
            let (opening, handle) = handle?;
            opening.await?;
            handle.judgement().await
        }
    }

    /// Queues a command in a session. With undo steps, an automatic checkpoint precedes it if that is possible. Returns the
    /// result as [`Handle::exec`] does.
    pub fn exec(&self, session: &str, request: ExecRequest) -> Option<Outcome> {
        match self.session(session) {
            Ok(handle) if self.has_steps() => self.exec_with_step(&handle, request),
            Ok(handle) => return handle.exec(request),
            Err(error) => request.sink.finished(Err(error)),
        }
        None
    }

    /// Makes the process that a command can become, for its request. `None` if there is no such session.
    pub fn command(&self, session: &str, new: DetachedProcess) -> Option<Arc<Process>> {
        let log = ProcessLog::new(&self.inner.state_directory, new.log_limit);
        let owner = Box::new(self.session(session).ok()?.downgrade());
        let process = Arc::new(Process::of_command(new, owner, log, self.observer(false)));
        self.inner.processes.add_command(Arc::clone(&process));
        Some(process)
    }

    /// Adds what happens to a process to the feed, unless it is hidden.
    fn observer(&self, is_hidden: bool) -> ProcessObserver {
        let feed = (!is_hidden).then(|| Arc::clone(&self.inner.feed));
        Arc::new(move |process, happened| {
            if let Some(feed) = &feed {
                feed.push(process.session.id(), What::of(process, happened));
            }
        })
    }

    /// Interrupts a command; see [`Handle::interrupt`].
    pub fn interrupt(&self, session: &str, id: u64, signal: Option<i32>, by: KilledBy) {
        if let Some(OpenSession { handle, .. }) = self.lock().open.get(session) {
            handle.interrupt(id, signal, by);
        }
    }

    /// Interrupts a command, and resolves when it has ended.
    pub fn kill_command(
        &self,
        session: &str,
        id: u64,
        signal: Option<i32>,
        by: KilledBy,
    ) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.lock().open.get(session).map(|open| open.handle.kill_command(id, signal, by));
        async move {
            if let Some(ended) = ended {
                ended.await;
            }
        }
    }

    /// Returns the running and the queued commands of a session. The default session has none before its first use.
    pub fn running(&self, session: &str) -> impl Future<Output = Result<Vec<RunningCommand>, Error>> + Send + use<> {
        let asked = self.handles(Some(session)).map(|handles| handles.first().map(Handle::running));
        async move {
            match asked? {
                Some(running) => running.await,
                None => Ok(Vec::new()),
            }
        }
    }

    /// Reads the resource usage of a session, or the sum of those that are open. The default session uses nothing before
    /// its first use.
    pub fn stats(&self, session: Option<&str>) -> impl Future<Output = Result<SessionStats, Error>> + Send + use<> {
        let is_sum = session.is_none();
        let asked = self.handles(session).map(|handles| handles.iter().map(Handle::stats).collect::<Vec<_>>());
        async move {
            let mut sum = SessionStats::default();
            for stats in asked? {
                match stats.await {
                    Ok(stats) => sum = sum.plus(&stats),
                    // The session has just ended.
                    Err(error) if is_sum && error.code != Code::EngineError => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(sum)
        }
    }

    /// A session, or all that are open. The default session is none before its first use.
    fn handles(&self, session: Option<&str>) -> Result<Vec<Handle>, Error> {
        let open = &self.lock().open;
        match session {
            None => Ok(open.values().map(|open| open.handle.clone()).collect()),
            Some(id) => match open.get(id) {
                Some(open) => Ok(vec![open.handle.clone()]),
                None if id == DEFAULT_SESSION => Ok(Vec::new()),
                None => Err(Error::session_not_found(id)),
            },
        }
    }

    /// Starts a background process from a session. `done` receives the process once it has a pid.
    pub fn start_process(
        &self,
        session: &str,
        mut new: NewProcess,
        done: impl FnOnce(Result<Arc<Process>, Error>) + Send + 'static,
    ) {
        let is_hidden = new.is_hidden;
        let observer = self.observer(is_hidden);
        let log = ProcessLog::new(&self.inner.state_directory, new.log_limit);
        let filed = self.session(session).and_then(|handle| {
            new.limits = self.process_limits(&new.wanted_limits)?;
            let process = Arc::new(Process::new(&mut new, Box::new(handle.downgrade()), log, observer));
            self.inner.processes.add(Arc::clone(&process))?;
            if !is_hidden {
                self.keep_process(&process);
            }
            Ok((handle, process))
        });
        let (handle, process) = match filed {
            Ok(filed) => filed,
            Err(error) => return done(Err(error)),
        };
        let starter = self.starter(&process, done);
        handle.start_process(StartRequest { new, process, starter, attempts: 0 });
    }

    /// Makes a running command, with its shell, a background process; see [`Handle::detach`]. `done` receives the process
    /// once the session is free for another command.
    pub fn detach(
        &self,
        session: &str,
        command: u64,
        process: Arc<Process>,
        ends_call: bool,
        done: impl FnOnce(Result<Arc<Process>, Error>) + Send + 'static,
    ) {
        let filed = self.session(session).and_then(|handle| {
            self.inner.processes.add(Arc::clone(&process))?;
            self.keep_process(&process);
            Ok(handle)
        });
        let handle = match filed {
            Ok(handle) => handle,
            Err(error) => return done(Err(error)),
        };
        let starter = self.starter(&process, done);
        handle.detach(DetachRequest { command, process, ends_call, starter });
    }

    /// Reports the outcome of a start. A process that could not be started is not kept.
    fn starter(
        &self,
        process: &Arc<Process>,
        done: impl FnOnce(Result<Arc<Process>, Error>) + Send + 'static,
    ) -> Starter {
        let (sandbox, started) = (self.clone(), Arc::clone(process));
        Starter::new(process.session.id(), move |result| {
            if result.is_err() {
                sandbox.inner.processes.remove(&started);
            }
            done(result.map(|()| started));
        })
    }

    /// What happens in the sandbox.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.inner.feed
    }

    /// The questions that wait for their answers.
    pub fn questions(&self) -> &Questions {
        &self.inner.questions
    }

    /// Reports that a service has been started again.
    pub fn service_restarted(&self, session: &str, id: String, restarts: u32) {
        self.inner.feed.push(session, What::ServiceRestarted { id, restarts });
    }

    /// The background processes.
    pub fn processes(&self) -> &Registry {
        &self.inner.processes
    }

    /// Sets and unsets variables of a session.
    pub fn set_env(&self, session: &str, vars: EnvChange) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let setting = self.session(session).map(|handle| handle.set_env(vars));
        let has_changed = self.change_of(session);
        async move {
            let set = setting?.await;
            has_changed();
            set
        }
    }

    /// Whether rules restrict the network of a session, or of the sandbox.
    pub fn restricts_network(&self, session: Option<&str>) -> bool {
        let sessions = self.lock();
        let own = session.and_then(|id| sessions.open.get(id)).and_then(|open| open.new.isolation.as_ref());
        let isolation = own.or(self.inner.config.isolation.as_ref());
        isolation.is_some_and(|isolation| isolation.rules.network != Network::Open)
    }

    /// Why a session has no shell any more, if its shell has exited without `survive_exit`.
    pub fn exit_error(&self, session: &str) -> Option<Error> {
        self.lock().open.get(session)?.handle.exit_error()
    }

    /// The ids of all sessions. The default session is listed once it has been used.
    pub fn sessions(&self) -> Vec<String> {
        let mut ids: Vec<String> = self.lock().open.keys().cloned().collect();
        ids.sort();
        ids
    }

    /// Ends a session and everything it started.
    pub fn delete_session(&self, id: &str, grace: Duration) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let closing = self.start_closing(id).map(|(number, handle)| (number, handle.close(grace)));
        let (sandbox, id) = (self.clone(), id.to_string());
        async move {
            let (number, closed) = closing?;
            closed.await;
            sandbox.forget_kept(&id).await;
            sandbox.lock().closing.remove(&number);
            Ok(())
        }
    }

    fn start_closing(&self, id: &str) -> Result<(u64, Handle), Error> {
        let mut sessions = self.living()?;
        let OpenSession { handle, .. } = sessions.open.remove(id).ok_or_else(|| Error::session_not_found(id))?;
        let number = sessions.start_closing(id.to_string(), handle.clone());
        self.inner.processes.end_with(Some(id));
        Ok((number, handle))
    }

    /// Ends all sessions; every later call fails. Resolves once all processes have exited.
    pub fn destroy(&self, grace: Duration) -> impl Future<Output = ()> + Send + use<> {
        let (handles, open) = {
            let mut sessions = self.lock();
            sessions.destroyed = true;
            self.inner.processes.end_with(None);
            let open: Vec<OpenSession> = sessions.open.drain().map(|(_, open)| open).collect();
            let mut handles: Vec<Handle> = open.iter().map(|open| open.handle.clone()).collect();
            handles.extend(sessions.closing.drain().map(|(_, (_, handle))| handle));
            (handles, open)
        };
        // Closes all sessions at the same time. What is kept is written first.
        let close =
            move |handles: Vec<Handle>| handles.into_iter().map(|handle| handle.close(grace)).collect::<Vec<_>>();
        let (now, later) =
            if self.inner.keeper.get().is_none() { (handles, Vec::new()) } else { (Vec::new(), handles) };
        let closing = close(now);
        let sandbox = self.clone();
        async move {
            sandbox.keep_last(open).await;
            for closed in closing.into_iter().chain(close(later)) {
                closed.await;
            }
            let suspended = sandbox.inner.suspended.lock().take();
            drop(suspended);
            sandbox.let_go_of_kept().await;
            let record = sandbox.inner.record.lock().take();
            if let Some(record) = record {
                record.end().await;
            }
            if let Some(Ok(Enforced { group: Some(group), .. })) = sandbox.inner.enforced.get() {
                // The last supervisor has removed the group, except if none was started.
                let _ = std::fs::remove_dir(group);
            }
            if let Some(commands) = sandbox.inner.config.commands.clone() {
                commands.sweep().await;
            }
            if let Some(workspace) = sandbox.inner.workspace.clone() {
                let _ = tokio::task::spawn_blocking(move || workspace.close()).await;
            }
            // This also frees their logs and the logs' files.
            sandbox.inner.processes.clear();
            sandbox.inner.feed.end();
        }
    }

    fn session(&self, id: &str) -> Result<Handle, Error> {
        if let Some(open) = self.living()?.open.get(id) {
            return Ok(open.handle.clone());
        }
        if id == DEFAULT_SESSION {
            self.add(NewSession { id: id.into(), ..NewSession::default() })
        } else {
            Err(Error::session_not_found(id))
        }
    }

    fn add(&self, new: NewSession) -> Result<Handle, Error> {
        let shared = self.shared()?;
        let mut sessions = self.living()?;
        if sessions.is_taken(&new.id) {
            let message = format!("session '{}' already exists; use or delete it, or choose another id", new.id);
            return Err(Error::new(Code::SessionAlreadyExists, message));
        }
        let handle = self.spawn(&mut sessions, new.clone(), shared, None)?;
        sessions.open(handle.clone(), new);
        Ok(handle)
    }

    /// Starts a session that no caller can use, reports its shell, and closes the session.
    fn try_session(&self, report: impl FnOnce(Result<Opened, Error>) + Send + 'static) -> Result<(), Error> {
        let shared = self.shared()?;
        let mut sessions = self.living()?;
        let handle = self.spawn(&mut sessions, NewSession::default(), shared, None)?;
        // No caller's session has this id.
        let number = sessions.start_closing(String::new(), handle.clone());
        let sandbox = self.clone();
        let trial = async move {
            report(handle.open().await);
            handle.close(Duration::ZERO).await;
            sandbox.lock().closing.remove(&number);
        };
        crate::runtime::spawn(trial).map_err(|error| cannot_start(&error))
    }

    /// What every session needs. Determined before the sessions are locked, because it may take a while.
    fn shared(&self) -> Result<SharedSandbox, Error> {
        let (shell, user, enforced) = (self.shell().clone()?, self.user()?, self.enforced()?);
        let group_parent = enforced.group.or_else(|| self.capabilities().group_parent.clone());
        Ok(SharedSandbox { shell, user, limits: enforced.by.inherited, group_parent })
    }

    fn spawn(
        &self,
        sessions: &mut Sessions,
        new: NewSession,
        shared: SharedSandbox,
        saved: Option<Saved>,
    ) -> Result<Handle, Error> {
        let SharedSandbox { shell, user, limits, group_parent } = shared;
        let config = &self.inner.config;
        let (kept, budgets) = (self.kept_session(&new)?, self.budgets(&new));
        sessions.made += 1;
        let marks = self.marks();
        let unique = format!("nacre-{}-{}", self.unique(&marks), sessions.made);
        let cwd = new.cwd.unwrap_or_else(|| config.cwd.clone());
        let given = new.env.iter().map(|(name, _)| name.clone()).collect();
        let mut env = variables::changed(&self.env(user.as_ref()), new.env);
        let commands = config.commands.as_ref().map(|commands| commands.give(&mut env, &config.supervisor));
        let isolation = new.isolation.as_ref().or(config.isolation.as_ref());
        let isolation = isolation.map(|isolation| self.inner.secrets.current(isolation, self.plan()));
        let isolation = isolation.as_deref();
        // A link to the shell may be where a private directory covers it, like /tmp.
        let shell = if isolation.is_some() { nacre_isolation::real(&shell) } else { shell };
        let is_decided = isolation.is_some() || self.inner.workspace.is_some();
        let isolate = is_decided.then(|| {
            let ask = isolation.and_then(|isolation| isolation.hosts.ask.clone());
            let asking = ask.map(|ask| Asking::new(Arc::clone(&self.inner.questions), new.id.clone(), ask));
            let functions = Functions { on_function: config.on_function.clone(), session: new.id.clone() };
            let answering = Answering { asking, functions };
            let deciding = self.deciding(isolation, answering, &cwd, &shell, &unique, self.caches(&env, given));
            let deciding = deciding.with_commands(commands.as_ref());
            Isolate(Arc::new(move || deciding.isolate()))
        });
        let session = SessionConfig {
            id: new.id,
            cwd,
            env,
            commands,
            isolate,
            budgets,
            user,
            shell,
            supervisor: config.supervisor.clone(),
            log: config.log.clone(),
            feed: Arc::clone(&self.inner.feed),
            on_end: config.on_end.clone(),
            survive_exit: new.survive_exit.unwrap_or(config.survive_exit),
            uses_builtin: !config.force_plain && self.capabilities().builtin,
            limits,
            saved,
            group: group_parent.map(|parent| (parent, unique)),
            marks,
            kept,
        };
        Handle::spawn(session).map_err(|error| cannot_start(&error))
    }

    /// The secrets of this sandbox.
    fn plan(&self) -> &Plan {
        static NONE: Plan =
            Plan { secrets: Vec::new(), requests: Vec::new(), handlers: Vec::new(), authorities: Vec::new() };
        self.inner.config.isolation.as_ref().map_or(&NONE, |isolation| &isolation.hosts.plan)
    }

    /// The marks of this sandbox's processes. The first session also looks for what ended programs have left behind.
    fn marks(&self) -> Arc<Marks> {
        let mut record = self.inner.record.lock();
        let record = record.get_or_insert_with(|| ProgramRecord::of(&self.inner.config.state_dir));
        Arc::clone(&record.marks)
    }

    /// A part of the names of its control groups. A later program finds the groups by the program in it.
    fn unique(&self, marks: &Marks) -> String {
        format!("{}-{}-{}", std::process::id(), marks.program, self.inner.id)
    }

    /// Fails once the sandbox has been destroyed.
    fn living(&self) -> Result<MutexGuard<'_, Sessions>, Error> {
        let sessions = self.lock();
        sessions.check()?;
        Ok(sessions)
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.inner.sessions.lock()
    }
}

/// The questions of a sandbox. Its feed has them, and `on_question` learns of each that is asked.
fn questions(feed: Arc<Feed>, on_question: Hook<Question>) -> Questions {
    Questions::new(Box::new(move |question, happened| {
        feed.push(&question.session, What::of_question(question, happened));
        if happened == questions::QuestionEvent::Asked {
            on_question.call(question);
        }
    }))
}

fn cannot_start(error: &std::io::Error) -> Error {
    Error::cannot("start the engine", error)
}

impl Sessions {
    fn check(&self) -> Result<(), Error> {
        if self.destroyed { Err(Error::sandbox_destroyed()) } else { Ok(()) }
    }

    /// Holds every session that is opened from now on, until this pause ends. Returns its number.
    fn begin_pause(&mut self) -> u64 {
        self.paused += 1;
        self.pauses.insert(self.paused, Vec::new());
        self.paused
    }

    /// Makes a new session available. It is held by the pauses that wait or are in effect.
    fn open(&mut self, handle: Handle, new: NewSession) {
        self.pauses.values_mut().for_each(|holds| holds.push(handle.hold()));
        self.open.insert(new.id.clone(), OpenSession { handle, new });
    }

    /// Files a session that is closing, and returns its number.
    fn start_closing(&mut self, id: String, handle: Handle) -> u64 {
        self.closings += 1;
        self.closing.insert(self.closings, (id, handle));
        self.closings
    }

    /// Whether the programs of a session are being ended. A session of [`Sandbox::try_session`] has none.
    fn is_any_ending(&self) -> bool {
        self.closing.values().any(|(id, _)| !id.is_empty())
    }

    fn is_taken(&self, id: &str) -> bool {
        let is_closing = || id != DEFAULT_SESSION && self.closing.values().any(|(closing, _)| closing == id);
        self.open.contains_key(id) || is_closing()
    }
}

/// A unique name: the pid of this process and a random number, because pids are reused.
///
/// A host that is init of a container always has the same pid. When it dies, its supervisors die with the pid
/// namespace, and the groups that they would have removed remain for the next host.
fn self_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        // The standard library's hash keys are random in each process.
        let random = RandomState::new().hash_one(0) as u32;
        format!("{}-{random:08x}", std::process::id())
    })
}
