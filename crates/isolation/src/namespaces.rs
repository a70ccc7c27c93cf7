//! Creates the namespaces of a session, and enters them.
//!
//! A child is born in the new namespaces, sets up the view and reports. With a pid namespace it stays as its init.
//! Otherwise it exits, and the descriptors keep the namespaces. The supervisor itself stays outside, where it can
//! reap and kill. A child that enters the namespaces starts a program: it forks once more with CLONE_PARENT. So the
//! program is the supervisor's child, and is born inside.

use crate::init::{self, Guards};
use crate::{mounts, network};
use nacre_containment::fork::{fork, kill, wait};
use nacre_containment::mount_table;
use nacre_containment::user_namespace::{map_ids, own_ids};
use nacre_protocol::confinement::{Confinement, Namespaces, Network};
use nacre_protocol::socket;
use nix::poll::PollFlags;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// The namespaces of a session, kept alive by descriptors.
pub struct Handles {
    /// In the order of entering: the user namespace gives the right to enter the others.
    entries: Vec<(OwnedFd, libc::c_int)>,
    /// The init of the pid namespace, a child of this process.
    pub init: Option<i32>,
    /// A message tells the init to exit once no other process is left in its namespace.
    pub control: Option<OwnedFd>,
    /// Sockets of the network namespace: one for diagnosis, the listeners of the session's proxy, and that of its resolver, as far
    /// as there are any. Among them are the descriptors of the [copies](crate::git_config) and of the [masks](crate::masks).
    pub sockets: Vec<OwnedFd>,
    /// The table of the mounts, and another for the host: see [`crate::masks`].
    pub(crate) tables: Option<[File; 2]>,
}

const MESSAGE_BYTES: usize = 1024;

/// How long the child may take for the set-up. It takes some milliseconds, unless a path does not respond: a network file
/// system whose server is down, for example.
const SETUP: Duration = Duration::from_secs(10);

/// The names of the namespaces in `/proc`, and their flags.
fn kinds(wanted: Namespaces) -> Vec<(&'static str, libc::c_int)> {
    let kinds = [
        (wanted.user, "user", libc::CLONE_NEWUSER),
        (true, "mnt", libc::CLONE_NEWNS),
        (wanted.ipc, "ipc", libc::CLONE_NEWIPC),
        (wanted.network, "net", libc::CLONE_NEWNET),
        (wanted.processes, "pid", libc::CLONE_NEWPID),
    ];
    kinds.into_iter().filter(|(used, ..)| *used).map(|(_, name, flag)| (name, flag)).collect()
}

/// Creates the namespaces of a confinement and applies its view. `group` is a control group for the init; `guards`
/// are the processes that it watches; `workspace` is the mount of [`Confinement::workspace`].
///
/// # Errors
/// The step that failed. Nothing is left behind. `TimedOut` if a path does not respond: the child was killed then, and
/// the ordinary reaping collects it, since it may not die at once.
pub fn create(
    confinement: &Confinement,
    group: Option<BorrowedFd<'_>>,
    guards: &[i32],
    workspace: Option<&OwnedFd>,
) -> io::Result<Option<Handles>> {
    let Some(wanted) = confinement.namespaces else { return Ok(None) };
    mount_table::has_namespaces()?;
    let (ours, theirs) = socket::pair()?;
    let guards = Guards::watch(guards);
    let kinds = kinds(wanted);
    let flags = kinds.iter().fold(0, |flags, (_, flag)| flags | flag);
    let (child, _) = fork(flags, group.map(|group| group.as_raw_fd()))?;
    if child == 0 {
        drop(ours);
        let group = group.and_then(|group| group.try_clone_to_owned().ok());
        let keep: Vec<i32> = [&theirs].into_iter().chain(&group).chain(workspace).map(AsRawFd::as_raw_fd).collect();
        close_others(&keep, &guards);
        let made = set_up(confinement, &theirs, workspace);
        let (message, sockets) = match made {
            Ok(sockets) => (String::new(), sockets),
            Err(error) => (error.to_string(), Vec::new()),
        };
        let descriptors: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        let sent = socket::send(theirs.as_fd(), format!("={message}").as_bytes(), &descriptors);
        // The other side replies once it has opened the namespaces; end of file means that it does not need them.
        let kept = socket::receive(theirs.as_fd(), &mut [0; 1]);
        if sent.is_ok() && message.is_empty() && wanted.processes && kept.is_ok_and(|length| length > 0) {
            drop(sockets);
            // The workspace's mount, too, which it would keep alive.
            let keep: Vec<i32> = [&theirs].into_iter().chain(&group).map(AsRawFd::as_raw_fd).collect();
            close_others(&keep, &guards);
            init::run(guards, theirs, group);
        }
        std::process::exit(0);
    }
    drop((theirs, guards));
    let mut made = receive(&ours, child, wanted, &kinds);
    match &mut made {
        Ok(handles) if wanted.processes => {
            let _ = socket::send(ours.as_fd(), b"+", &[]);
            handles.control = Some(ours);
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            kill(child);
        }
        _ => {
            drop(ours);
            wait(child);
        }
    }
    made.map(Some)
}

/// The parent's side: maps the user, waits for the report, opens the namespaces.
fn receive(ours: &OwnedFd, child: i32, wanted: Namespaces, kinds: &[(&str, libc::c_int)]) -> io::Result<Handles> {
    if wanted.user {
        let own = own_ids();
        map_ids(&child.to_string(), own, own)?;
    }
    socket::send(ours.as_fd(), b"+", &[])?;
    await_message(ours)?;
    let mut buffer = [0; MESSAGE_BYTES];
    let (length, sockets) = socket::receive_with(ours.as_fd(), &mut buffer)?;
    let text = String::from_utf8_lossy(&buffer[..length]);
    match text.strip_prefix('=') {
        Some("") => {}
        Some(problem) => return Err(io::Error::other(problem.to_string())),
        None => return Err(io::Error::other("the process that sets up the namespaces has ended")),
    }
    let open = |(name, flag): &(&str, libc::c_int)| {
        let path = format!("/proc/{child}/ns/{name}");
        File::open(&path)
            .map(|file| (OwnedFd::from(file), *flag))
            .map_err(|error| io::Error::other(format!("{path}: {error}")))
    };
    let entries = kinds.iter().map(open).collect::<io::Result<_>>()?;
    // Each reports changes once.
    let table = || File::open(format!("/proc/{child}/mountinfo")).ok();
    let tables = table().zip(table()).map(|(own, other)| [own, other]);
    Ok(Handles { entries, init: wanted.processes.then_some(child), control: None, sockets, tables })
}

/// Waits until a message or the end of the child is there to be received.
pub(crate) fn await_message(ours: &OwnedFd) -> io::Result<()> {
    match socket::await_events(ours.as_fd(), PollFlags::POLLIN, Instant::now() + SETUP)? {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::TimedOut, "a path of the isolation does not respond")),
    }
}

/// The child's side.
fn set_up(confinement: &Confinement, theirs: &OwnedFd, workspace: Option<&OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    if socket::receive(theirs.as_fd(), &mut [0; 1])? == 0 {
        return Err(io::Error::other("the supervisor has ended"));
    }
    // The setup must not rely on capabilities that happen to be present: every failure is reported.
    let copies = mounts::apply(confinement, workspace)?;
    if !confinement.namespaces.is_some_and(|namespaces| namespaces.network) {
        return Ok(copies);
    }
    network::start_loopback()
        .map_err(|error| io::Error::other(format!("cannot start the loopback interface: {error}")))?;
    let port = confinement.proxy_port.filter(|_| confinement.network == Network::Proxy);
    // Without it, the host reads tables in /proc. Programs inside may make none.
    let mut sockets: Vec<OwnedFd> = network::open_diagnosis().into_iter().collect();
    sockets.extend(copies);
    let Some(port) = port else { return Ok(sockets) };
    let of_programs = confinement.programs.iter().flat_map(|known| &known.programs).map(|program| program.port);
    for port in [port].into_iter().chain(of_programs) {
        sockets.push(network::listen_on_loopback(port)?);
    }
    if confinement.redirects {
        network::add_address().map_err(|error| io::Error::other(format!("cannot add an address: {error}")))?;
        match network::listen_for_names() {
            Ok(resolver) => sockets.push(resolver),
            // Without the right to use the port, as in some containers, programs that ignore the proxy find no name.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(io::Error::other(format!("cannot start the resolver: {error}"))),
        }
    }
    Ok(sockets)
}

impl Handles {
    /// Enters all namespaces. A pid namespace only applies to the next child.
    pub fn enter(&self) -> io::Result<()> {
        self.enter_each(!0)
    }

    /// Enters the mount namespace alone. The user namespace has been entered before.
    pub(crate) fn enter_mounts(&self) -> io::Result<()> {
        self.enter_each(libc::CLONE_NEWNS)
    }

    /// Whether a thread is in the same user and mount namespaces.
    ///
    /// # Errors
    /// The thread has ended, or cannot be looked at.
    pub(crate) fn have(&self, thread: i32) -> io::Result<bool> {
        let named = [("user", libc::CLONE_NEWUSER), ("mnt", libc::CLONE_NEWNS)];
        for (namespace, flag) in &self.entries {
            let Some((name, _)) = named.iter().find(|(_, known)| known == flag) else { continue };
            let (own, its) =
                (nix::sys::stat::fstat(namespace)?, std::fs::metadata(format!("/proc/{thread}/ns/{name}"))?);
            if (own.st_dev, own.st_ino) != (its.dev(), its.ino()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn enter_each(&self, wanted: libc::c_int) -> io::Result<()> {
        for (namespace, flag) in self.entries.iter().filter(|(_, flag)| flag & wanted != 0) {
            setns(namespace, CloneFlags::from_bits_retain(*flag))?;
        }
        Ok(())
    }

    /// Forks a child of this process inside the namespaces. Returns like [`fork`]; the pid is in this process's
    /// namespace.
    ///
    /// # Errors
    /// Those of setns(2) and clone(2).
    pub fn fork_inside(&self, group: Option<i32>) -> io::Result<(libc::pid_t, bool)> {
        let (ours, theirs) = socket::pair()?;
        let (middle, _) = fork(0, None)?;
        if middle == 0 {
            let born = self.enter().and_then(|()| fork(libc::CLONE_PARENT, group));
            if let Ok((0, placed)) = born {
                return Ok((0, placed));
            }
            let (pid, placed) = born.unwrap_or_else(|error| (-error.raw_os_error().unwrap_or(libc::EIO), false));
            let mut message = pid.to_ne_bytes().to_vec();
            message.push(placed.into());
            let _ = socket::send(theirs.as_fd(), &message, &[]);
            // SAFETY: exits without running destructors, which belong to the parent.
            unsafe { libc::_exit(0) };
        }
        drop(theirs);
        let mut message = [0; 5];
        let received = socket::receive(ours.as_fd(), &mut message);
        wait(middle);
        let [a, b, c, d, placed] = message;
        match i32::from_ne_bytes([a, b, c, d]) {
            pid if received? == message.len() && pid > 0 => Ok((pid, placed != 0)),
            errno if errno < 0 => Err(io::Error::from_raw_os_error(-errno)),
            _ => Err(io::Error::other("the process that enters the namespaces was killed")),
        }
    }
}

/// Closes everything but the channel, the guards and the standard descriptors.
fn close_others(keep: &[i32], guards: &Guards) {
    let mut keep: Vec<i32> = keep.iter().copied().chain(guards.pidfds.iter().map(AsRawFd::as_raw_fd)).collect();
    keep.sort_unstable();
    let mut next = 3;
    for end in keep.into_iter().chain([i32::MAX]) {
        if end > next {
            // SAFETY: this is a fork that exits without destructors, so the owners of these descriptors never run
            // here.
            unsafe { libc::syscall(libc::SYS_close_range, next, end - 1, 0) };
        }
        next = end.saturating_add(1);
    }
}

/// Creates namespaces of these kinds with an empty view in a short-lived child.
///
/// # Errors
/// The reason why they cannot be created: one clause.
pub fn try_out(kinds: Namespaces) -> Result<(), String> {
    let rules = nacre_protocol::confinement::Filesystem { write: vec!["/".into()], ..Default::default() };
    let confinement = Confinement {
        filesystem: Some(rules),
        network: if kinds.network { Network::Closed } else { Network::Open },
        ..Confinement::open(kinds, "/".into(), "/bin/sh".into())
    };
    let made = create(&confinement, None, &[std::process::id() as i32], None).map_err(|error| error.to_string())?;
    if let Some(init) = made.as_ref().and_then(|handles| handles.init) {
        kill(init);
        wait(init);
    }
    Ok(())
}

/// Translates a pid inside a pid namespace to this process's (ioctl_nsfs(2), `NS_GET_PID_FROM_PIDNS`, Linux 6.11).
pub fn pid_from(namespace: &File, pid: i32) -> Option<i32> {
    const NS_GET_PID_FROM_PIDNS: libc::c_ulong = 0x8004_B706;
    // SAFETY: the call takes a number and returns one.
    let outside = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_PID_FROM_PIDNS as _, pid) };
    (outside > 0).then_some(outside)
}
