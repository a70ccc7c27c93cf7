//! Confining a session: the order to its supervisor, and pids in its namespace.

use super::config::{Isolate, Proxied, SessionIsolation};
use super::context::Context;
use super::internal::Internal;
use super::newcomers::NewcomerWatch;
use super::pid_namespace::Inside;
use super::ports::{Network, PortLookup};
use super::supervision::Supervision;
use super::timers::{HELLO, Timer};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::link::Descriptor;
use crate::process::listeners::Kernel;
use crate::process::terminal::{Size, Terminal};
use crate::proxy::{Denials, Policy, Proxy, Target};
use crate::shell::listener;
use crate::supervisor::PidHold;
use crate::sys;
use crate::user::User;
use crate::wanted::{Denial, Refuser, Wanted};
use nacre_containment::pid::Pid;
use nacre_isolation::explain::{self, Refusal};
use nacre_isolation::git_config::GitConfigs;
use nacre_isolation::masks::Disturbance;
use nacre_protocol::confinement::{self, Confinement};
use nacre_protocol::message;
use nacre_protocol::standing::RunAs;
use nacre_protocol::supervisor::Order;
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, getsockname};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

/// How the session is confined.
#[derive(Default)]
pub(super) struct Enclosure {
    /// Set once that is decided.
    isolation: Option<SessionIsolation>,
    /// The number of the last decision. An earlier one may have an old mount of the workspace.
    decision: u64,
    /// The pid namespace.
    inside: Option<Inside>,
    /// The proxy, which ends with the session's processes.
    proxy: Option<Proxy>,
    /// How its ports are looked up.
    lookup: Arc<PortLookup>,
    /// Its copies of git's config files.
    configs: Option<Arc<GitConfigs>>,
    /// What programs of the machine have replaced.
    disturbance: Option<Arc<Disturbance>>,
    /// The supervisor has to report that it has covered that.
    awaits_masks: bool,
    /// What has appeared in its projects.
    newcomers: Option<NewcomerWatch>,
    /// Why the session cannot be confined.
    problem: Option<String>,
}

/// What judges paths and hosts by the rules of a session.
pub struct Judgement {
    confinement: Arc<Confinement>,
    policy: Option<Policy>,
    /// Those of programs with hosts of their own.
    programs: Vec<(String, Policy)>,
    denials: Option<Denials>,
    run_as: RunAs,
}

impl Judgement {
    /// What refuses a path.
    ///
    /// # Errors
    /// `ENGINE_ERROR`.
    pub async fn path(self, path: PathBuf) -> Result<Vec<Refusal>, Error> {
        blocking(move || Ok(explain::judge(&path, &self.confinement, &explain::Ran::as_user(&self.run_as)))).await
    }

    /// Lets the feed have all that was refused so far.
    pub fn receive(&self) {
        self.denials.iter().for_each(Denials::receive);
    }

    /// What refuses connections of a program to a host and port. Without a name that the rules have: of any other one.
    pub fn host(&self, target: &Target, program: Option<&str>) -> Option<Denial> {
        let own = self.programs.iter().find(|(name, _)| Some(&**name) == program).map(|(_, policy)| policy);
        match (own.or(self.policy.as_ref()), self.confinement.network) {
            (_, confinement::Network::Open) => None,
            (Some(policy), _) => policy.judge(target),
            (None, _) => Some(Denial::new(Wanted::to(target), Refuser::Unlisted)),
        }
    }

    /// What the rules have refused of a command that has printed this. The directories are those before and after. Looks at
    /// files, which may block.
    pub(super) fn printed(&self, printed: &[u8], command: &str, directories: [PathBuf; 2]) -> Vec<Refusal> {
        let directories = explain::directories(directories, command);
        explain::explain(
            printed,
            &self.confinement,
            &explain::Ran { directories, ..explain::Ran::as_user(&self.run_as) },
        )
    }
}

impl Enclosure {
    /// The configuration of the proxy.
    pub(super) fn proxied(&self) -> Option<&Proxied> {
        self.isolation.as_ref()?.proxied.as_ref()
    }

    /// Its copies of git's config files.
    pub(super) fn configs(&self) -> Option<Arc<GitConfigs>> {
        self.configs.clone()
    }

    /// What programs of the machine have replaced.
    pub(super) fn disturbance(&self) -> Option<Arc<Disturbance>> {
        self.disturbance.clone()
    }

    /// Whether the supervisor has to cover something again, which it is then asked to do.
    pub(super) fn asks_for_masks(&mut self) -> bool {
        let Some(disturbance) = self.disturbance.as_ref().filter(|disturbance| disturbance.is_seen()) else {
            return false;
        };
        disturbance.asked();
        self.awaits_masks = true;
        true
    }

    pub(super) fn awaits_masks(&self) -> bool {
        self.awaits_masks
    }

    pub(super) fn masked(&mut self) {
        self.awaits_masks = false;
    }

    /// What has appeared in its projects.
    pub(super) fn newcomers(&self) -> Option<&NewcomerWatch> {
        self.newcomers.as_ref()
    }

    /// What was refused.
    pub(super) fn denials(&self) -> Option<Denials> {
        self.isolation.as_ref()?.denials.clone()
    }

    /// Whether what a failed command prints is to be explained by the rules for files. What observes files does not see that
    /// programs look for them.
    pub(super) fn explains(&self) -> bool {
        let confinement = self.isolation.as_ref().map(|isolation| &isolation.confinement);
        confinement.is_some_and(|confinement| confinement.filesystem.is_some() && !confinement.learns())
    }

    /// What judges paths and hosts. Nothing without rules.
    pub(super) fn judgement(&self, user: Option<&User>) -> Option<Judgement> {
        let isolation = self.isolation.as_ref()?;
        Some(Judgement {
            confinement: Arc::clone(&isolation.confinement),
            policy: isolation.proxied.as_ref().map(|proxied| proxied.policy.clone()),
            programs: isolation.proxied.as_ref().map(|proxied| proxied.programs.clone()).unwrap_or_default(),
            denials: isolation.denials.clone(),
            run_as: user.map_or_else(RunAs::own, |user| user.run_as.clone()),
        })
    }

    /// The init of the pid namespace, which adopts orphans.
    pub(super) fn init(&self) -> Option<Pid> {
        self.inside.as_ref().map(Inside::init)
    }

    /// Records why the session cannot be confined.
    pub(super) fn refuse(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// Drops a mount that no supervisor has got: the next start asks for one.
    pub(super) fn drop_unused_mount(&mut self) {
        self.isolation.take_if(|isolation| isolation.mount.is_some());
    }

    /// Forgets what belonged to processes that are gone. The decision stays, unless the mount of its
    /// workspace is used up.
    pub(super) fn close(&mut self) {
        let is_usable =
            |isolation: &SessionIsolation| isolation.confinement.workspace.is_none() || isolation.mount.is_some();
        let isolation = self.isolation.take().filter(is_usable);
        *self = Self { isolation, decision: self.decision, ..Self::default() };
    }

    /// Begins to decide how the session is confined. False if that is known, or nothing is to be decided.
    pub(super) fn decides(&mut self, cx: &mut Context) -> bool {
        let Some(Isolate(decide)) = cx.config.isolate.clone().filter(|_| self.isolation.is_none()) else {
            return false;
        };
        let internal = cx.internal.clone();
        self.decision += 1;
        let decision = self.decision;
        tokio::task::spawn_blocking(move || {
            let _ = internal.send(Internal::IsolationDecided { decision, isolation: Box::new(decide()) });
        });
        cx.timers.set(Timer::Hello, Instant::now() + HELLO);
        true
    }

    /// Uses the decision that was awaited.
    pub(super) fn decided(&mut self, cx: &mut Context, isolation: SessionIsolation) {
        for (name, value) in &isolation.variables {
            cx.config.env.retain(|(existing, _)| existing != &**name);
            cx.config.env.push((name.into(), value.clone()));
        }
        self.isolation = Some(isolation);
    }

    /// Whether this decision is awaited.
    pub(super) fn awaits(&self, decision: u64) -> bool {
        self.decision == decision && self.isolation.is_none()
    }

    /// Orders the supervisor to confine everything that it starts.
    pub(super) fn confine(&mut self, cx: &mut Context, supervision: &Supervision) -> io::Result<()> {
        let Some(isolation) = &mut self.isolation else { return Ok(()) };
        let file = sys::memory_file()?;
        sys::replace_contents(&file, &message::encode(&*isolation.confinement)?)?;
        let channel_name = listener::name()?.to_string();
        let mount = isolation.mount.take();
        let order = Order::Confine { fork_key: cx.numbers.fork_key(), channel_name, has_workspace: mount.is_some() };
        let mut descriptors: Vec<Descriptor> =
            [Some(file), mount].into_iter().flatten().map(Descriptor::from).collect();
        if let Some(denials) = &isolation.denials {
            descriptors.push(Descriptor::from(denials.reporter().try_clone_to_owned()?));
        }
        supervision.order_with(cx, &order, descriptors);
        Ok(())
    }

    /// Records that the session is confined.
    pub(super) fn confined(&mut self, cx: &Context, init: Option<Pid>, mut sockets: Vec<OwnedFd>) {
        tracing::debug!(log = cx.config.log.id(), session = %cx.config.id, ?init, "the session is confined");
        self.inside = init.map(Inside::new);
        self.disturbance = Disturbance::take(&mut sockets).map(Arc::new);
        self.configs = GitConfigs::take(&mut sockets).map(Arc::new);
        let files = self.isolation.as_ref().and_then(|isolation| isolation.confinement.filesystem.as_ref());
        self.newcomers = files.and_then(|files| NewcomerWatch::new(cx, &files.project));
        let is_netlink = |socket: &OwnedFd| {
            let address = getsockname::<SockaddrStorage>(socket.as_raw_fd());
            address.is_ok_and(|address| address.family() == Some(AddressFamily::Netlink))
        };
        let (diagnosis, sockets): (Vec<_>, Vec<_>) = sockets.into_iter().partition(is_netlink);
        self.lookup = Arc::new(PortLookup::new(diagnosis.into_iter().next().map(Kernel::new)));
        self.proxy = self.proxied().and_then(|proxied| {
            let mut sockets = sockets.into_iter();
            let listener = sockets.next().or_else(|| proxied.listener.as_ref()?.try_clone().ok())?;
            let of_programs = proxied.programs.iter().map_while(|(_, policy)| Some((sockets.next()?, policy.clone())));
            let listeners = [(listener, proxied.policy.clone())].into_iter().chain(of_programs).collect();
            let started = Proxy::start(listeners, sockets.next());
            started.inspect_err(|error| {
                tracing::error!(log = cx.config.log.id(), session = %cx.config.id, %error, "the proxy cannot be started");
            })
            .ok()
        });
    }

    /// Records the init of a pid namespace that the session has without a confinement.
    pub(super) fn adopts(&mut self, init: Pid) {
        self.inside = Some(Inside::new(init));
    }

    /// Translates a pid inside the session's namespace to a pid of this process's. `None` if the process has ended.
    pub(super) fn outside(&self, pid: i32, supervisor: Option<Pid>) -> Option<Pid> {
        let Some(inside) = &self.inside else { return Pid::new(pid) };
        inside.outside(pid, supervisor)
    }

    /// The root directory of the session's programs, as paths that this process can open. The first that works is to be
    /// used: each belongs to a process, which may have ended. `shells`: the shell and the standby.
    fn roots(&self, shells: [Option<Pid>; 2]) -> impl Iterator<Item = PathBuf> {
        let has_own = self.isolation.as_ref().is_some_and(|isolation| isolation.confinement.namespaces.is_some());
        let processes = shells.into_iter().chain([self.init()]).flatten();
        let roots = processes.filter(move |_| has_own).map(|pid| PathBuf::from(format!("/proc/{pid}/root")));
        roots.chain([PathBuf::from("/")])
    }

    /// Opens a terminal that the programs of the session can use.
    pub(super) fn open_terminal(&self, cx: &Context, size: Size, shells: [Option<Pid>; 2]) -> io::Result<Terminal> {
        let owner = cx.config.user.as_ref().map(|user| (user.run_as.uid, user.run_as.gid));
        let nowhere = Err(io::Error::from(io::ErrorKind::NotFound));
        let open = |root: PathBuf| {
            let terminal = Terminal::open(size, owner, &root)?;
            terminal.open_other_side().map(|_| terminal)
        };
        self.roots(shells).fold(nowhere, |opened, root| opened.or_else(|_| open(root)))
    }

    /// The network of the processes below this supervisor.
    pub(super) fn network(&self, supervisor: Option<&PidHold>) -> Option<Network> {
        let namespaces = self.isolation.as_ref().and_then(|isolation| isolation.confinement.namespaces);
        let is_own = namespaces.is_some_and(|namespaces| namespaces.network);
        supervisor.map(|supervisor| Network::new(supervisor.clone(), is_own, Arc::clone(&self.lookup)))
    }

    /// Why a program cannot be confined.
    pub(super) fn error(&self, errno: i32, detail: &str) -> Error {
        let known = self.problem.as_deref().unwrap_or(detail);
        let reason = if known.is_empty() { io::Error::from_raw_os_error(errno).to_string() } else { known.to_string() };
        Error::new(Code::IsolationUnsupported, format!("the session cannot be isolated: {reason}"))
    }
}
