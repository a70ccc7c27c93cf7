//! The host's side of a session's supervisor: starting it, talking to it, reaping it.

use crate::driver::Launch;
use crate::session::Config;
use nacre_containment::pid::Pid;
use nacre_containment::pidfd;
use nacre_containment::wire::{self, Order, Report};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tokio::io::unix::AsyncFd;

/// A running supervisor. Dropping it closes the socket, which makes it end everything it guards; a task of its own then
/// reaps it.
pub struct Supervisor {
    socket: AsyncFd<OwnedFd>,
    pid: Pid,
}

/// Where the session's control group is to be made.
#[derive(Clone, Debug)]
pub struct GroupPlan {
    /// The host's own group, or one it may use.
    pub parent: PathBuf,
    /// A name that nobody else uses.
    pub name: String,
}

impl Supervisor {
    /// Starts the supervisor, which starts the shell and reports it.
    ///
    /// The standard library spawns with `posix_spawn` as long as nothing is asked that needs a fork (`pre_exec`, `uid`,
    /// a relative program with another PATH): a fork would copy the page tables of a host with gigabytes of memory. So
    /// the working directory, the session, signals and groups are all left to the supervisor.
    pub fn start(config: &Config, launch: Launch, group: Option<&GroupPlan>) -> io::Result<Self> {
        let (ours, theirs) = wire::pair()?;
        let mut command = Command::new(&config.supervisor);
        let host = OsString::from(std::process::id().to_string());
        command.args(["--host".into(), host, "--cwd".into(), OsString::from(&config.cwd)]);
        if let Some(group) = group {
            command.args([
                "--group-parent".as_ref(),
                group.parent.as_os_str(),
                "--group-name".as_ref(),
                group.name.as_ref(),
            ]);
        }
        if let Some(scratch) = &launch.scratch {
            command.args(["--scratch".as_ref(), scratch.as_os_str()]);
        }
        if let Some(user) = &config.user {
            command.args(["--user", &user.argument()]);
        }
        command.arg("--").arg(&launch.program).args(&launch.argv);
        command.env_clear().envs(
            config.env.iter().filter(|(name, _)| !launch.withheld.contains(name)).map(|(name, value)| (name, value)),
        );
        let (stdout, stderr) = launch.output;
        command.stdin(theirs).stdout(stdout).stderr(Stdio::from(stderr));
        let child = command.spawn()?;
        drop(command);
        crate::sys::set_nonblocking(&ours)?;
        let pid =
            Pid::new(child.id() as i32).ok_or_else(|| io::Error::other("the supervisor has an impossible pid"))?;
        reap(child, pid);
        Ok(Self { socket: crate::sys::watch(ours)?, pid })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Tells it something. A supervisor that is gone is noticed by [`Supervisor::report`].
    pub fn order(&self, order: &Order) {
        let _ = wire::send(self.socket.get_ref().as_fd(), order);
    }

    /// The next report; `None` when the supervisor is gone. Cancel-safe.
    pub async fn report(&self) -> Option<Report> {
        loop {
            let mut guard = self.socket.readable().await.ok()?;
            match guard.try_io(|socket| wire::receive::<Report>(socket.get_ref().as_fd())) {
                Ok(Ok(report)) => return report,
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(_)) => return None,
                Err(_would_block) => {}
            }
        }
    }
}

/// Waits for the child's end with a pidfd of its own, since a SIGCHLD handler belongs to the host's runtime; where pidfds
/// are missing, in a thread.
fn reap(mut child: Child, pid: Pid) {
    let watched = pidfd::open(pid).and_then(crate::sys::watch);
    match watched {
        Ok(fd) => {
            tokio::spawn(async move {
                let _ = fd.readable().await;
                let _ = child.wait();
            });
        }
        Err(_) => {
            let _ = std::thread::Builder::new()
                .name("nacre-reaper".into())
                .stack_size(64 * 1024)
                .spawn(move || child.wait());
        }
    }
}
