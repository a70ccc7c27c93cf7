//! The host's side of a session's supervisor: starts it, sends orders, reaps it.

use crate::link::{Descriptor, Link, LinkMessage};
use crate::sys;
use crate::variables;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::pidfd;
use nacre_protocol::message;
use nacre_protocol::standing::{ResourceLimits, RunAs};
use nacre_protocol::supervisor::{HostCommands, Order, PROGRAM_NAME, Report, Setup};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use tokio::sync::{oneshot, watch};

/// Maximum bytes of a complaint in an error message.
const MAX_COMPLAINT_BYTES: usize = 1024;

/// What a supervisor is started with.
pub struct Launch<'a> {
    /// The absolute path of its executable.
    pub program: &'a Path,
    /// The absolute directory where the shell starts.
    pub cwd: &'a Path,
    /// The absolute path of bash.
    pub shell: &'a Path,
    /// The shell's complete environment.
    pub env: &'a [(OsString, OsString)],
    /// The user that the shell runs as, if not this process's.
    pub user: Option<&'a RunAs>,
    /// Limits that processes inherit.
    pub limits: ResourceLimits,
    /// The session's control group, which the supervisor creates.
    pub group: Option<&'a Group>,
    /// The mark of everything below it.
    pub mark: Option<u64>,
    /// The commands of the host.
    pub commands: Option<HostCommands>,
    /// Where programs call them.
    pub listener: Option<OwnedFd>,
    /// The session's id, and what else [`Setup::kept_as`] needs, if the session is kept on the disk.
    pub kept: Option<(&'a str, [OwnedFd; 2])>,
}

/// A running supervisor. Dropping it closes the socket, so the supervisor ends everything below it. A separate task
/// reaps it once every [`PidHold`] is dropped too.
pub struct Supervisor {
    link: Link<Report>,
    hold: PidHold,
    /// A memory file: the supervisor's standard error until it is set up.
    stderr: OwnedFd,
    /// Why no more reports can be received, if that is not its end.
    deafness: OnceLock<String>,
}

/// Keeps a supervisor's pid from being reused: the supervisor is reaped when the last clone is dropped.
///
/// The pid is the session number of everything below the supervisor. While it is held, every process with that session
/// number belongs to the session.
#[derive(Clone)]
pub struct PidHold {
    pid: Pid,
    /// Whether it has ended.
    ended: watch::Receiver<bool>,
    _released: Arc<oneshot::Sender<()>>,
}

impl PidHold {
    /// The supervisor's process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits until the supervisor has ended. Cancel-safe.
    pub async fn ended(&self) {
        if self.ended.clone().wait_for(|ended| *ended).await.is_err() {
            // Nothing observes its end: there was no thread for it.
            std::future::pending().await
        }
    }
}

impl Supervisor {
    /// Starts a supervisor.
    ///
    /// The standard library spawns with `posix_spawn` unless an option needs a fork (`pre_exec`, `uid`, a relative
    /// program with another PATH). A fork would copy the page tables of a large host, so the supervisor itself sets the
    /// working directory, the session, signals and groups.
    pub fn start(launch: Launch<'_>) -> io::Result<Self> {
        let Launch { program: executable, cwd, shell, env, user, limits, group, mark, commands, listener, kept } =
            launch;
        let (kept_as, places) = kept.unzip();
        let (link, theirs) = Link::pair()?;
        let setup = Setup {
            host: std::process::id().cast_signed(),
            cwd: cwd.into(),
            shell: shell.into(),
            group: group.map(|group| group.path().into()),
            user: user.cloned(),
            limits,
            mark,
            commands,
            kept_as: kept_as.map(Into::into),
        };
        let descriptors = places.into_iter().flatten().chain(listener).map(Into::into).collect();
        link.post(LinkMessage::of(&setup, descriptors)?);
        let mut command = program(executable);
        let inherited = env.iter().filter(|(name, _)| name != WITHHELD && name != variables::NEVER_INHERITED);
        command.envs(inherited.map(|(name, value)| (name, variables::inherited(name, value))));
        command.stdin(theirs).stdout(Stdio::null());
        let stderr = sys::memory_file()?;
        command.stderr(stderr.try_clone()?);
        let child = command.spawn().map_err(|error| variables::named_in(error, env))?;
        drop(command);
        let pid =
            Pid::new(child.id() as i32).ok_or_else(|| io::Error::other("the supervisor has an impossible pid"))?;
        let (hold, released) = oneshot::channel();
        let (observed, ended) = watch::channel(false);
        reap(child, pid, observed, released);
        Ok(Self { link, hold: PidHold { pid, ended, _released: Arc::new(hold) }, stderr, deafness: OnceLock::new() })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.hold.pid
    }

    /// Keeps its pid from being reused, even after its end.
    pub fn hold_pid(&self) -> PidHold {
        self.hold.clone()
    }

    /// What explains its end: why its reports cannot be received, or its standard error before its setup. `None` if there is
    /// nothing.
    pub fn complaint(&self) -> Option<String> {
        if let Some(deafness) = self.deafness.get() {
            return Some(deafness.clone());
        }
        let bytes = sys::beginning(&self.stderr, MAX_COMPLAINT_BYTES).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        (!text.is_empty()).then(|| text.strip_prefix("nacre-supervisor: ").unwrap_or(text).to_string())
    }

    /// Sends an order with descriptors. [`Supervisor::report`] detects a dead supervisor.
    pub fn order_with(&self, order: &Order, descriptors: Vec<Descriptor>) {
        tracing::trace!(?order, supervisor = %self.pid(), "order");
        match LinkMessage::of(order, descriptors) {
            Ok(message) => self.link.post(message),
            Err(error) => tracing::error!(?order, "an order cannot be encoded: {error}"),
        }
    }

    /// Receives the next report with its descriptors; `None` if the supervisor has exited.
    ///
    /// Meanwhile, sends queued orders when the socket has room. Cancel-safe.
    pub async fn report(&self) -> Option<(Report, Vec<OwnedFd>)> {
        let received = tokio::select! {
            biased;
            received = self.link.receive() => received,
            // Some kernels, like that of gVisor, do not report the end of the socket. It holds the last reports.
            () = self.hold.ended() => message::receive(self.link.socket()),
        };
        let (report, descriptors) = received.unwrap_or_else(|error| {
            if error.raw_os_error() == Some(libc::EMFILE) {
                let _ = self.deafness.set(format!("this process cannot receive its descriptors: {error}"));
            }
            None
        })?;
        tracing::trace!(?report, supervisor = %self.pid(), "report");
        Some((report, descriptors))
    }
}

/// A command that runs the supervisor's program in one of its roles, without this process's environment. Its arguments
/// must have nothing of the caller's, see [`PROGRAM_NAME`].
pub fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.arg0(PROGRAM_NAME).env_clear();
    command
}

/// A variable that is withheld from the shell's start and set when the shell is ready. A non-interactive bash reads the
/// file that it names.
pub const WITHHELD: &str = "BASH_ENV";

/// Observes the child's end, and reaps it once its pid is released. Waits with a pidfd, because the SIGCHLD handler belongs
/// to the host's runtime; without pidfds, in a thread.
fn reap(mut child: Child, pid: Pid, ended: watch::Sender<bool>, released: oneshot::Receiver<()>) {
    let watched = pidfd::open(pid).and_then(sys::watch);
    match watched {
        Ok(fd) => {
            tokio::spawn(async move {
                let _ = fd.readable().await;
                ended.send_replace(true);
                let _ = released.await;
                let _ = child.wait();
            });
        }
        Err(_) => {
            let _ = std::thread::Builder::new().name("nacre-reaper".into()).stack_size(64 * 1024).spawn(move || {
                sys::await_end(pid);
                ended.send_replace(true);
                let _ = released.blocking_recv();
                child.wait()
            });
        }
    }
}
