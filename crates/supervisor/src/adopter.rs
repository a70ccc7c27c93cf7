//! What adopts the orphans of a session or a job, so that they are found and killed.
//!
//! Usually this process does, as a child subreaper. Some systems have none: gVisor before July 2023, and emulators of system
//! calls. There, whatever this process starts is born in a pid namespace, whose init adopts orphans. The init is a child of this
//! process, which stays outside. So every orphan is below this process in both cases, and the pids that it sees are the host's.
//! The kernel also kills what is in the namespace when its init ends, and the init ends with this process.
//!
//! Such a system need not have mount namespaces, so `/proc` shows programs the pids of the host. Inside the namespace they have
//! others.

use crate::process_setup::{close_inherited, take};
use nacre_containment::fork::{fork, reap_all, wait};
use nacre_containment::pid::Pid;
use nacre_isolation::privileges;
use nacre_protocol::confinement::Confinement;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

/// See the module.
#[derive(Default)]
pub struct Adopter {
    state: State,
}

#[derive(Default)]
enum State {
    /// This process is a subreaper.
    #[default]
    Subreaper,
    /// It cannot be one, for this reason. Nothing has been started.
    Missing(Errno),
    /// The init of the namespace, a child of this process.
    Init { pid: Pid, control: UnixStream },
    /// The init has ended, and with it everything in its namespace.
    Lost,
}

/// The init ends as soon as no other process is in its namespace.
const CLOSE: u8 = b'c';
/// The same, and until then it outlives its parent. It answers with the same byte.
const RELEASE: u8 = b'r';

impl Adopter {
    /// Makes this process a child subreaper, if the system has them.
    pub fn of_this_process() -> Self {
        Self { state: prctl::set_child_subreaper(true).map_or_else(State::Missing, |()| State::Subreaper) }
    }

    /// Makes sure that something adopts the orphans of what is started from now on. This process must have one thread, and can
    /// start no further ones afterwards: threads of a process are in one pid namespace.
    ///
    /// # Errors
    /// There can be no namespace either; or its init has ended, after which none can be made (unshare(2)).
    pub fn ensure(&mut self) -> io::Result<()> {
        match self.state {
            State::Subreaper | State::Init { .. } => Ok(()),
            State::Lost => Err(io::Error::other("the init of the pid namespace was killed")),
            State::Missing(reason) => {
                let (pid, control) = begin().map_err(|error| explain(reason, &error))?;
                self.state = State::Init { pid, control };
                Ok(())
            }
        }
    }

    /// A confinement with namespaces also gets a pid namespace if this process cannot adopt orphans: two of them cannot be had.
    pub fn complete(&self, mut confinement: Confinement) -> Confinement {
        if !matches!(self.state, State::Subreaper)
            && let Some(namespaces) = &mut confinement.namespaces
        {
            namespaces.processes = true;
        }
        confinement
    }

    /// The init of the namespace.
    pub fn init(&self) -> Option<Pid> {
        match self.state {
            State::Init { pid, .. } => Some(pid),
            _ => None,
        }
    }

    /// Whether the init has ended before this process.
    pub fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost)
    }

    /// Records that a child has been reaped.
    pub fn reaped(&mut self, pid: Pid) {
        if self.init() == Some(pid) {
            self.state = State::Lost;
        }
    }

    /// Lets the init end once no other process is in its namespace: this process starts no further one.
    pub fn close(&mut self) {
        self.tell(CLOSE);
    }

    /// Does the same, and lets what is in the namespace outlive this process.
    pub fn release(&mut self) {
        self.tell(RELEASE);
        if let State::Init { control, .. } = &mut self.state {
            // Until then, the end of this process would end it.
            let _ = control.read(&mut [0]);
        }
    }

    fn tell(&mut self, message: u8) {
        if let State::Init { control, .. } = &mut self.state {
            // One that has ended needs no message.
            let _ = control.write_all(&[message]);
        }
    }
}

fn explain(reason: Errno, error: &io::Error) -> io::Error {
    io::Error::other(format!(
        "this system has no child subreapers (prctl PR_SET_CHILD_SUBREAPER: {}), without which orphaned processes could not be \
         found, and pid namespaces, which could replace them, cannot be created: {error}; allow them, give this container the \
         capability SYS_ADMIN, or update its runtime or the emulator (gVisor has subreapers since July 2023)",
        reason.desc()
    ))
}

/// Makes children be born in a new namespace, and starts its init.
fn begin() -> io::Result<(Pid, UnixStream)> {
    let (control, wait) = UnixStream::pair()?;
    unshare_pids()?;
    let (child, _) = fork(0, None)?;
    if child == 0 {
        drop(control);
        run(wait);
    }
    let pid = Pid::new(child).ok_or(io::ErrorKind::InvalidData)?;
    Ok((pid, control))
}

/// Without the right to make a pid namespace, this process first enters a user namespace, which has it.
fn unshare_pids() -> io::Result<()> {
    if unshare(CloneFlags::CLONE_NEWPID).is_ok() {
        return Ok(());
    }
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let (mut ours, mut theirs) = UnixStream::pair()?;
    let own = std::process::id();
    // A process outside of the user namespace gives root all users, if it may.
    let (helper, _) = fork(0, None)?;
    if helper == 0 {
        drop(ours);
        if user.is_root() && theirs.read(&mut [0]).is_ok_and(|length| length > 0) {
            for kind in ["uid", "gid"] {
                let all = fs::read_to_string(map("self", kind)).map(|text| same_ids(&text)).unwrap_or_default();
                let _ = fs::write(map(&own.to_string(), kind), all);
            }
        }
        // SAFETY: exits without running destructors, which belong to the parent.
        unsafe { libc::_exit(0) };
    }
    drop(theirs);
    let unshared = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID);
    let _ = unshared.is_ok().then(|| ours.write_all(b"+"));
    drop(ours);
    wait(helper);
    unshared?;
    // Others have theirs alone, and cannot change their groups.
    for (kind, id) in [("uid", user.as_raw()), ("gid", group.as_raw())] {
        if fs::read_to_string(map("self", kind))?.trim().is_empty() {
            let _ = fs::write("/proc/self/setgroups", "deny");
            fs::write(map("self", kind), format!("{id} {id} 1"))?;
        }
    }
    Ok(())
}

fn map(process: &str, kind: &str) -> String {
    format!("/proc/{process}/{kind}_map")
}

/// Maps the same ids to themselves, in the form of user_namespaces(7): first id inside, first id outside, number.
fn same_ids(text: &str) -> String {
    let fields = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter_map(|fields| Some(format!("{} {} {}\n", fields.first()?, fields.first()?, fields.get(2)?))).collect()
}

/// The init: reaps orphans until its parent ends, or until no process is left after [`CLOSE`].
///
/// It ends by the death signal of its parent. The end of the socket covers the time before it has asked for that; later, other
/// forks of the parent may keep the socket open.
fn run(control: UnixStream) -> ! {
    // It needs none.
    let _ = privileges::drop_capabilities(false);
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let _ = SigSet::all().thread_block();
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else { std::process::exit(1) };
    for number in 0..=2 {
        drop(take(number, &null));
    }
    close_inherited(&[control.as_raw_fd()]);
    let _ = std::env::set_current_dir("/");
    // Programs run as the same user, and must not trace it.
    let _ = prctl::set_dumpable(false);
    let signals = SigSet::from_iter([Signal::SIGCHLD]);
    let Ok(children) = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else {
        std::process::exit(1)
    };
    let mut control = Some(control);
    loop {
        let is_childless = reap_all();
        if control.is_none() && is_childless {
            std::process::exit(0);
        }
        let fds = control.iter().map(AsFd::as_fd).chain([children.as_fd()]);
        let mut fds: Vec<PollFd> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut fds, PollTimeout::NONE);
        let is_told = control.is_some() && fds[0].any().unwrap_or(false);
        drop(fds);
        if let Some(mut control) = control.take_if(|_| is_told) {
            let mut message = [0];
            match control.read(&mut message) {
                Ok(1) if message[0] == RELEASE => {
                    let _ = prctl::set_pdeathsig(None);
                    let _ = control.write_all(&message);
                }
                Ok(1) => {}
                // The parent has ended.
                _ => std::process::exit(0),
            }
        }
        while let Ok(Some(_)) = children.read_signal() {}
    }
}

#[cfg(test)]
#[path = "adopter_tests.rs"]
mod tests;
