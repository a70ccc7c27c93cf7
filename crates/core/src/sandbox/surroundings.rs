//! The limits, user and environment of everything in a sandbox.

use super::caches::Caches;
use super::{Config, Sandbox};
use crate::capabilities::{self, Capabilities, ShellError};
use crate::error::{Code, Error};
use crate::host_commands::{self, SessionCommands};
use crate::isolation::{self, Answering, Isolation};
use crate::jobs::JobLaunch;
use crate::limits::{self, Enforcement, Limits};
use crate::private_directory;
use crate::proxy::Requests;
use crate::session::{Opened, SessionIsolation};
use crate::user::User;
use crate::workspace::{self, Workspace};
use nacre_containment::cgroup::Group;
use nacre_egress::request_log::RequestLog;
use nacre_egress::{Plan, system_bundle};
use nacre_isolation::decide::{self, Places};
use nacre_isolation::mount_table::MountTable;
use nacre_isolation::newcomers;
use nacre_isolation::offer::Offer;
use nacre_isolation::project;
use nacre_isolation::real;
use nacre_isolation::trust;
use nacre_protocol::confinement::{Confinement, Guarding, Namespaces, Network, ProjectFiles, Rules};
use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Time limit for the start of a shell on JavaScript's thread. It takes some milliseconds.
const ANSWER: Duration = Duration::from_secs(1);

/// The enforcement of the sandbox's limits.
#[derive(Clone, Default)]
pub(super) struct Enforced {
    pub(super) by: Enforcement,
    /// The group of all sessions, if the limits need one.
    pub(super) group: Option<PathBuf>,
    /// See [`Group::hold`].
    _hold: Option<Arc<File>>,
}

/// What the decision about a confinement needs. It looks at the user's directories, which may not respond, so a thread
/// that may block makes it.
pub(super) struct Deciding {
    isolation: Option<Isolation>,
    /// They stay when the session is confined again.
    answering: Answering,
    /// Where its requests are reported, without the file.
    requests: Requests,
    workspace: Option<Arc<Workspace>>,
    /// See [`isolation::switch`].
    switch: Option<String>,
    supervisor: PathBuf,
    cwd: PathBuf,
    shell: PathBuf,
    temporary: PathBuf,
    /// Directories to hide from isolated programs.
    private: [PathBuf; 2],
    caches: Caches,
    /// Trees in which programs of other sessions can write.
    shared: Vec<PathBuf>,
    /// The directory of the host's commands.
    commands: Option<PathBuf>,
}

/// Looks at the project in a thread of its own: a path may not respond.
fn look<T: Send + 'static>(looks: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let (send, receive) = mpsc::channel();
    let look = move || drop(send.send(looks()));
    let failed = |reason: &str| Error::new(Code::SpawnFailed, format!("cannot look at the project: {reason}"));
    thread::Builder::new().name("nacre-project".into()).spawn(look).map_err(|error| failed(&error.to_string()))?;
    receive.recv_timeout(PATIENCE).map_err(|_| failed("a path of the isolation does not respond"))
}

impl Deciding {
    /// With the commands of its session.
    pub(super) fn with_commands(self, commands: Option<&SessionCommands>) -> Self {
        Self { commands: commands.map(|commands| PathBuf::from(&commands.places.directory)), ..self }
    }

    /// The confinement of a session and its proxy.
    pub(super) fn isolate(&self) -> Result<SessionIsolation, Error> {
        let offer = isolation::offer(&self.supervisor, self.switch.as_deref())?;
        let mut isolation = match &self.isolation {
            Some(isolation) => self.apply(isolation, &offer)?,
            None => self.unrestricted(&offer)?,
        };
        if let Some(commands) = &self.commands {
            host_commands::show(commands, Arc::make_mut(&mut isolation.confinement))?;
        }
        if let Some(workspace) = &self.workspace {
            if isolation.confinement.namespaces.is_none() {
                let reason = offer.mounts.clone().err().unwrap_or_default();
                let message = format!("the workspace cannot be copy-on-write: there are no mount namespaces: {reason}");
                return Err(Error::new(Code::WorkspaceUnsupported, message));
            }
            let (mut place, mount) = workspace.share()?;
            if self.isolation.is_none() {
                let (cwd, own) = (real(&self.cwd), place.path.clone());
                place.outside = look(move || project::outside(&cwd, &own))?;
            }
            let confinement = Arc::make_mut(&mut isolation.confinement);
            confinement.private.extend(mounts()?.aliases(&place.store));
            confinement.workspace = Some(place);
            isolation.mount = Some(mount);
        }
        Ok(isolation)
    }

    fn apply(&self, isolation: &Isolation, offer: &Offer) -> Result<SessionIsolation, Error> {
        // Before the decision: what does not exist cannot be hidden.
        let requests = Requests { file: request_log(isolation)?, ..self.requests.clone() };
        let mut confinement = decide::decide(&isolation.rules, offer, self.places()?)
            .map_err(|error| unsupported(error.rule, &error.reason))?;
        let denials = isolation::denials(&confinement, &self.answering, &requests)?;
        let functions = &self.answering.functions;
        let proxied = isolation::proxied(&mut confinement, &isolation.hosts, functions, denials.clone(), requests)?;
        let mut variables = vec![("TMPDIR".to_string(), confinement.temporary.clone().into())];
        if let Some(port) = confinement.proxy_port {
            let allow: Vec<_> = isolation.hosts.all_allowed().cloned().collect();
            variables.extend(isolation::proxy_variables(port, &confinement, &allow));
        }
        let plan = &isolation.hosts.plan;
        if *plan != Plan::default() {
            if let Some(proxied) = &proxied {
                let own = proxied.policy.authority().into_iter().chain(plan.authorities.iter().map(String::as_str));
                let own = own.collect::<Vec<_>>().join("\n");
                variables.extend(trust::give(&own, system_bundle(), &mut confinement, &self.caches.env));
            } else if confinement.network != Network::Closed {
                let reason = "nothing leads the connections of programs through the proxy";
                return Err(unsupported("isolation.network.secrets", reason));
            }
            variables.extend(plan.secrets.iter().map(|one| (one.name.clone(), one.placeholder.clone().into())));
        }
        variables.extend(self.caches.give(&isolation.rules, &mut confinement));
        if !isolation.hosts.programs.is_empty() {
            let path = self.caches.env.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
            let shared = self.shared.iter().map(|tree| real(tree)).filter(|tree| tree != Path::new("/"));
            let (programs, shared, user) = (&isolation.hosts.programs, shared.collect::<Vec<_>>(), self.caches.user);
            isolation::know_programs(programs, &mut confinement, &mounts()?, &shared, path, user)
                .map_err(|reason| unsupported("isolation.network.programs", &reason))?;
        }
        Ok(SessionIsolation { confinement: confinement.into(), proxied, denials, variables, mount: None })
    }

    /// Namespaces for mounts alone, without rules.
    fn unrestricted(&self, offer: &Offer) -> Result<SessionIsolation, Error> {
        let Places { cwd, shell, .. } = self.places()?;
        let namespaces = Namespaces { user: offer.needs_user, ipc: false, network: false, processes: false };
        let mut confinement = Confinement::open(namespaces, cwd, shell);
        confinement.namespaces = offer.mounts.is_ok().then_some(namespaces);
        // Without root, the broker renames the directories that the kernel refuses to rename.
        confinement.brokered = namespaces.user && offer.redirects.is_ok();
        Ok(SessionIsolation::of(confinement))
    }

    /// # Errors
    /// `CWD_NOT_FOUND`: what does not exist cannot be mounted, so no program could report it.
    fn places(&self) -> Result<Places, Error> {
        let rules = self.isolation.as_ref().map(|isolation| &isolation.rules.filesystem);
        // Only the view has what a mount shows, and its programs control that: the machine's path is not looked at.
        let covers = |path: &PathBuf| rules.is_some_and(|rules| rules.covers(path));
        let covered = [self.cwd.clone(), real(&self.cwd)].into_iter().find(covers);
        let cwd = match &covered {
            Some(_) => PathBuf::new(),
            None => self.cwd.canonicalize().or_else(|error| match error.raw_os_error() {
                Some(errno @ (libc::ENOENT | libc::ENOTDIR)) => Err(Error::cwd(&self.cwd, errno)),
                _ => Ok(PathBuf::new()),
            })?,
        };
        Ok(Places {
            cwd: covered.clone().unwrap_or_else(|| self.cwd.clone()),
            shell: self.shell.canonicalize().unwrap_or_else(|_| self.shell.clone()),
            temporary: self.temporary.clone(),
            private: self.private_directories(&cwd),
            mounts: mounts()?,
            project: match covered
                .as_ref()
                .and_then(|path| rules?.mounts.iter().find(|mount| path.starts_with(&mount.target)))
            {
                Some(mount) => self.project(&mount.source, std::slice::from_ref(&mount.source), false)?,
                None => self.project(&cwd, rules.map_or(&[], |rules| &rules.write), true)?,
            },
        })
    }

    /// What is guarded in the project. `cwd` is empty where it cannot be looked at. `opens`: git may write to the repository, if
    /// the rules say so.
    fn project(&self, cwd: &Path, write: &[PathBuf], opens: bool) -> Result<ProjectFiles, Error> {
        let Some(rules) = self.isolation.as_ref().map(|isolation| &isolation.rules) else {
            return Ok(ProjectFiles::default());
        };
        if rules.guarding == Guarding::Off || !cwd.is_absolute() {
            return Ok(ProjectFiles::default());
        }
        let opens = opens && rules.guarding == Guarding::WithRepository;
        let layered = self.workspace.as_ref().map(|workspace| workspace.path().to_path_buf());
        let (cwd, write) = (cwd.to_path_buf(), write.to_vec());
        look(move || {
            let found = project::find(&cwd, &write, opens, layered.as_deref());
            ProjectFiles { known: newcomers::look(&found.roots).into_iter().collect(), ..found }
        })
    }

    /// The directories to hide, unless the working directory is below them. They exist from now on: what does not exist
    /// cannot be hidden. A directory that cannot be used is left out.
    fn private_directories(&self, cwd: &Path) -> Vec<PathBuf> {
        self.private
            .iter()
            .filter(|path| private_directory::create(path).is_ok())
            .filter_map(|path| path.canonicalize().ok())
            .filter(|path| !cwd.starts_with(path))
            .collect()
    }
}

/// The file with the requests of a session.
fn request_log(isolation: &Isolation) -> Result<Option<Arc<RequestLog>>, Error> {
    let failed =
        |path: &Path, error| Error::cannot(&format!("open isolation.network.log ({})", path.display()), &error);
    let open = |path: &Path| RequestLog::open(path).map_err(|error| failed(path, error));
    isolation.hosts.log.as_deref().map(open).transpose()
}

fn unsupported(rule: &'static str, reason: &str) -> Error {
    let unsupported = decide::Unsupported { rule, reason: reason.into() };
    Error::new(Code::IsolationUnsupported, unsupported.to_string())
}

/// How long a project may take to respond.
const PATIENCE: Duration = Duration::from_secs(10);

/// The machine's mounts.
fn mounts() -> Result<MountTable, Error> {
    MountTable::of_this_process().map_err(|error| {
        Error::new(
            Code::IsolationUnsupported,
            format!("the list of mounts, /proc/self/mountinfo, cannot be read: {error}"),
        )
    })
}

impl Sandbox {
    /// The capabilities of this system, probed once.
    pub fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities.get_or_init(|| {
            let mut found = Capabilities::probe(&self.inner.config.supervisor);
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

    /// The shell of this sandbox's sessions. Determined once, by a session of its own: the sandbox's user may have
    /// written the shell, so it runs with the sandbox's user, limits and rules, and never as this process. Changes
    /// nothing for the other sessions: each finds out for itself.
    ///
    /// Waits at most a second, since the caller may be JavaScript's thread.
    ///
    /// # Errors
    /// Why no session can start; `SPAWN_FAILED` if the shell did not start in time, after which a later call tries again.
    pub fn opened(&self) -> Result<Opened, Error> {
        if let Some(known) = self.inner.opened.get() {
            return Ok(known.clone());
        }
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.try_session(move |opened| drop(sender.send(opened)))?;
        let late = |_| Error::new(Code::SpawnFailed, "the shell did not become ready in time");
        let opened = receiver.recv_timeout(ANSWER).map_err(late)??;
        Ok(self.inner.opened.get_or_init(|| opened).clone())
    }

    /// The surroundings of a durable job of this sandbox. The sandbox's limits apply to each job separately, because
    /// jobs outlive the sandbox and the group that its sessions share.
    ///
    /// # Errors
    /// `SPAWN_FAILED` if the shell or the user is missing; `LIMIT_UNSUPPORTED`; `WORKSPACE_UNSUPPORTED`.
    pub fn job_launch(&self, wanted: Option<&Limits>, cwd: Option<&Path>) -> Result<JobLaunch, Error> {
        self.lock().check()?;
        if self.inner.workspace.is_some() {
            let message = "a durable job outlives this process, which holds its copy-on-write workspace";
            return Err(Error::new(Code::WorkspaceUnsupported, message));
        }
        let config = &self.inner.config;
        let shell = self.shell().clone()?;
        let user = self.user()?;
        let group_parent = self.capabilities().group_parent.clone();
        let limits = wanted.unwrap_or(&config.limits).enforcement(group_parent.as_ref(), self.binds_user()?)?;
        let mut env = self.env(user.as_ref());
        let isolation = config.isolation.as_ref();
        let shell = if isolation.is_some() { real(&shell) } else { shell };
        let confinement = isolation.map(|isolation| self.confine_job(isolation, cwd, &shell, &mut env)).transpose()?;
        Ok(JobLaunch {
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

    /// Enforces the sandbox's limits, once.
    pub(super) fn enforced(&self) -> Result<Enforced, Error> {
        let inner = &self.inner;
        let made = inner.enforced.get_or_init(|| {
            let capabilities = self.capabilities();
            let by = inner.config.limits.enforcement(capabilities.group_parent.as_ref(), self.binds_user()?)?;
            let group = limits::sandbox_group(&by.group, capabilities, &self.unique(&self.marks()))?;
            let hold = group.as_ref().and_then(|path| Group::at(path).hold().ok().flatten());
            Ok(Enforced { by, group, _hold: hold.map(Arc::new) })
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
        Ok(user.map_or_else(|| !nix::unistd::geteuid().is_root(), |user| user.run_as.uid != 0))
    }

    /// The mechanisms that enforce isolation on this machine.
    ///
    /// # Errors
    /// `SPAWN_FAILED` if the supervisor cannot run.
    pub fn tiers(&self) -> Result<isolation::Tiers, Error> {
        let offer = isolation::offer(&self.inner.config.supervisor, isolation::switch().as_deref())?;
        Ok(isolation::tiers(&offer))
    }

    /// What this machine offers to workspaces. Tried once.
    pub fn workspace_offer(&self) -> &nacre_protocol::workspace::Offer {
        let Config { supervisor, state_dir, .. } = &self.inner.config;
        self.inner.workspace_offer.get_or_init(|| {
            let found = workspace::offer(supervisor, state_dir);
            let offer = isolation::offer(supervisor, isolation::switch().as_deref());
            let brokered = offer.is_ok_and(|offer| offer.needs_user && offer.redirects.is_ok());
            let works = found.copy_on_write.is_ok();
            nacre_protocol::workspace::Offer { directory_rename: found.directory_rename || works && brokered, ..found }
        })
    }

    /// The confinement of a durable job. A job outlives this process and its proxy, so it has no proxy.
    fn confine_job(
        &self,
        isolation: &Isolation,
        cwd: Option<&Path>,
        shell: &Path,
        env: &mut Vec<(OsString, OsString)>,
    ) -> Result<Confinement, Error> {
        if isolation.rules.network == Network::Proxy {
            let reason = "a durable job outlives this process, whose proxy is the only way to the allowed hosts";
            return Err(unsupported("isolation.network", reason));
        }
        let unique = format!("nacre-job-{:016x}", RandomState::new().hash_one(std::process::id()));
        let cwd = cwd.unwrap_or(&self.inner.config.cwd);
        let deciding =
            self.deciding(Some(isolation), Answering::default(), cwd, shell, &unique, self.caches(env, Vec::new()));
        request_log(isolation)?;
        let mut offer = isolation::offer(&deciding.supervisor, deciding.switch.as_deref())?;
        offer.broker = Err("durable jobs have none".into());
        // Nor anything to report to.
        let rules = Rules { explains: false, learns: false, ..isolation.rules.clone() };
        let mut confinement = decide::decide(&rules, &offer, deciding.places()?)
            .map_err(|error| unsupported(error.rule, &error.reason))?;
        set_variable(env, "TMPDIR", confinement.temporary.clone().into());
        for (name, value) in deciding.caches.give(&isolation.rules, &mut confinement) {
            set_variable(env, &name, value);
        }
        Ok(confinement)
    }

    /// What the decision about the confinement of a session or job needs.
    pub(super) fn deciding(
        &self,
        isolation: Option<&Isolation>,
        answering: Answering,
        cwd: &Path,
        shell: &Path,
        unique: &str,
        caches: Caches,
    ) -> Deciding {
        let config = &self.inner.config;
        let mut isolation = isolation.cloned();
        // What is kept of a session does not have it.
        if let (Some(isolation), Some(own)) = (&mut isolation, &config.isolation) {
            isolation.rules.explains |= own.rules.explains;
        }
        let own = config.isolation.iter().map(|own| &own.rules.filesystem);
        let shown = own.clone().flat_map(|own| &own.mounts).map(|mount| &mount.source);
        // Without rules of the sandbox, its programs can write to its directory.
        let shared = own.flat_map(|own| &own.write).chain(shown).chain([&config.cwd]).cloned().collect();
        Deciding {
            isolation,
            requests: Requests {
                session: answering.functions.session.as_str().into(),
                on_traced: config.on_traced.clone(),
                feed: Arc::clone(&self.inner.feed),
                file: None,
                log: config.log.clone(),
            },
            answering,
            workspace: self.inner.workspace.clone(),
            switch: isolation::switch(),
            supervisor: config.supervisor.clone(),
            cwd: cwd.to_path_buf(),
            shell: shell.to_path_buf(),
            temporary: std::env::temp_dir().join(format!("{unique}-tmp")),
            private: [config.state_dir.clone(), config.jobs_root.clone()],
            caches,
            shared,
            commands: None,
        }
    }

    /// What decides about the caches of tools. `given`: the variables of the session itself.
    pub(super) fn caches(&self, env: &[(OsString, OsString)], given: Vec<String>) -> Caches {
        let config = &self.inner.config;
        let value = |name: &str| env.iter().rfind(|(set, _)| set == name).map(|(_, value)| value.clone());
        // Programs pass the whole environment of this process.
        let is_inherited = |name: &String| std::env::var_os(name) == value(name);
        let own = given.into_iter().chain(config.own_variables.clone()).filter(|name| !is_inherited(name));
        Caches {
            project: config.cwd.clone(),
            env: env.to_vec(),
            own: own.collect(),
            user: self.user().ok().flatten().map(|user| user.run_as.uid),
            state: config.state_dir.clone(),
            is_layered: config.workspace.is_some(),
            supervisor: config.supervisor.clone(),
        }
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
                set_variable(&mut env, name, value);
            }
        }
        env
    }
}

fn set_variable(env: &mut Vec<(OsString, OsString)>, name: &str, value: OsString) {
    env.retain(|(existing, _)| existing != name);
    env.push((name.into(), value));
}
