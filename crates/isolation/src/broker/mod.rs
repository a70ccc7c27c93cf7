//! The broker: connects sockets on behalf of confined programs.
//!
//! Neither read-only mounts nor Landlock prevent connections to a Unix socket that another program listens on (a
//! container engine, an SSH agent, a message bus), since connecting needs no write. A seccomp filter only sees
//! numbers, and a program could replace the address before the kernel reads it. So the filter passes every connect(2)
//! to this process. It copies the socket and the address, judges them, and connects the socket itself. Later changes
//! by the program have no effect.
//!
//! Programs that ignore the session's proxy reach it this way, too: the broker connects them to it.
//!
//! The filter also passes most calls that it refuses by their numbers. The broker reports them, and refuses them.
//!
//! If the session explains refusals, the filter also passes the calls that use files by path. The broker lets the kernel carry
//! out each of them, and only reports those that the rules refuse.
//!
//! If programs have hosts of their own, the broker connects each of them to a port of the proxy that it lets nothing else reach. The
//! filter also passes the calls that load libraries, so that these programs load none that the session could have written.
//!
//! In the copy-on-write workspace of an ordinary user, the filter passes the calls that rename: the broker renames directories that
//! the kernel refuses to rename.
//!
//! The broker is a single-threaded fork of the supervisor, outside the confinement. Each connection, and each rename of a
//! directory, has its own fork, since it may take minutes, and since paths are looked up inside the namespaces.

mod attempt;
mod judge;
mod kind;
mod libraries;
mod notification;
mod observer;
mod peer;
mod redirect;
mod rename;
mod reports;
mod request;

use crate::explain::Ran;
use crate::namespaces::Handles;
use kind::Kind;
use libraries::Libraries;
use nacre_containment::fork::{fork, kill};
use nacre_protocol::confinement::Confinement;
use nacre_protocol::socket;
use nacre_protocol::standing::RunAs;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use notification::Listener;
use observer::Observer;
use reports::Reports;
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal, wait};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

pub use kind::{SYS_FCHMODAT2, observed_calls, renaming_calls, renaming_calls_of_32_bits};
pub use notification::{can_redirect, install_with_listener, try_out as try_out_listener};
pub use rename::is_wanted as renames_directories;

/// Maximum concurrent connection attempts and renames. Further attempts fail with EAGAIN, and the kernel gets further renames.
const MAX_HELPERS: usize = 64;

/// The settings that the broker judges by.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The abstract address where a shell reopens a lost channel, without its leading NUL.
    pub channel_name: Vec<u8>,
    /// The abstract address of the host's commands, in the same form.
    pub command_name: Option<Vec<u8>>,
    /// The pid of the supervisor, the ancestor of all programs.
    pub supervisor: u32,
    /// The user that programs run as: user, group, all groups.
    pub user: Option<RunAs>,
    /// Receives [reports](nacre_protocol::connections) of connections. It must not block.
    pub reports: Option<Arc<OwnedFd>>,
}

/// The confinement that the broker judges by, and the namespaces where it looks paths up.
pub struct Inside<'a> {
    /// The rules.
    pub confinement: &'a Confinement,
    /// The namespaces, if there are any.
    pub handles: Option<&'a Handles>,
}

/// A connection of a program to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The new channel of a shell, whose pid this is.
    Channel(i32),
    /// The call of a command of the host.
    Command,
}

/// Receives the host's end of a connection.
pub type Connected = Box<dyn Fn(Connection, OwnedFd)>;

/// A broker, running or not yet started. Its inbox holds listeners that it has not received yet.
pub struct Broker {
    policy: Policy,
    connected: Connected,
    outbox: OwnedFd,
    inbox: OwnedFd,
    /// An unreaped child of this process.
    pid: Option<i32>,
}

impl Broker {
    /// Creates a broker's inbox. [`Broker::ensure`] starts the broker.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn new(policy: Policy, connected: Connected) -> io::Result<Self> {
        let (outbox, inbox) = socket::pair()?;
        Ok(Self { policy, connected, outbox, inbox, pid: None })
    }

    /// Forks the broker if it is not running. It inherits all descriptors but those in `open`, so no other descriptor may be
    /// open that should close when a program exits.
    ///
    /// # Errors
    /// Those of fork(2).
    pub fn ensure(&mut self, inside: &Inside, open: &[OwnedFd]) -> io::Result<()> {
        if self.pid.is_some() {
            return Ok(());
        }
        let parent = std::process::id();
        let (child, _) = fork(0, None)?;
        if child == 0 {
            for descriptor in open {
                // SAFETY: a number only. This process exits without dropping its owner.
                unsafe { libc::close(descriptor.as_raw_fd()) };
            }
            // The broker is useless without the supervisor.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            if std::os::unix::process::parent_id() == parent {
                serve(&self.inbox, inside, &self.policy, &self.connected);
            }
            std::process::exit(0);
        }
        self.pid = Some(child);
        Ok(())
    }

    /// The running broker.
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// Records that a child has been reaped. From now on, connections of running programs are refused; the next
    /// broker serves later programs.
    pub fn reaped(&mut self, pid: i32) {
        self.pid.take_if(|broker| *broker == pid);
    }

    /// Passes the listener of a new filter to the broker.
    ///
    /// # Errors
    /// Those of sendmsg(2).
    pub fn hand_over(&self, listener: OwnedFd) -> io::Result<()> {
        socket::send(self.outbox.as_fd(), b"l", &[listener.as_fd()])
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.pid.into_iter().for_each(kill);
    }
}

fn serve(inbox: &OwnedFd, inside: &Inside, policy: &Policy, connected: &Connected) {
    let mut listeners: Vec<Listener> = Vec::new();
    let mut helpers = 0;
    let own = RunAs::own();
    let ran = Ran::as_user(policy.user.as_ref().unwrap_or(&own));
    let mut refused = policy.reports.as_deref().map(|reports| Reports::new(reports, usize::MAX));
    let mut observer = Observer::new(inside.confinement, policy.reports.as_deref(), &ran);
    let known = inside.confinement.programs.as_ref();
    let moves = renames_directories(inside.confinement);
    let mut libraries = known.map(|known| Libraries::new(known, &ran, policy.reports.as_deref()));
    loop {
        let mut fds = vec![PollFd::new(inbox.as_fd(), PollFlags::POLLIN)];
        fds.extend(listeners.iter().map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        if poll(&mut fds, PollTimeout::NONE).is_err() {
            continue;
        }
        let ready: Vec<PollFlags> = fds.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        while helpers > 0 && matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {
            helpers -= 1;
        }
        for (listener, _) in listeners.iter().zip(&ready[1..]).filter(|(_, ready)| ready.contains(PollFlags::POLLIN)) {
            let Ok(call) = listener.receive() else { continue };
            match call.kind {
                Kind::Load => match libraries.as_mut().is_none_or(|libraries| libraries.admit(listener, &call)) {
                    true => listener.pass(&call),
                    false => listener.answer(&call, Err(io::Error::from_raw_os_error(libc::EACCES))),
                },
                Kind::Restrict => {
                    listener.has_restricted.set(!rename::shows_restrictions(inside.confinement));
                    listener.pass(&call);
                }
                Kind::Use(paths) => {
                    observer.iter_mut().for_each(|observer| observer.look(&call, paths));
                    let may_rename = moves && !listener.has_restricted.get() && helpers < MAX_HELPERS;
                    let forked = may_rename
                        && rename::is_of_directory(&call)
                        && in_fork(|| rename::carry_out(listener, &call, inside, policy)).is_ok();
                    if forked { helpers += 1 } else { listener.pass(&call) }
                }
                Kind::Connect => {
                    let forked = match helpers < MAX_HELPERS {
                        true => in_fork(|| request::carry_out(listener, &call, inside, policy, connected)),
                        false => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
                    };
                    match forked {
                        Ok(()) => helpers += 1,
                        Err(error) => listener.answer(&call, Err(error)),
                    }
                }
                Kind::Refuse => {
                    refused.iter_mut().for_each(|reports| reports.send_refused(&call));
                    listener.answer(&call, Err(io::Error::from_raw_os_error(libc::EPERM)));
                }
            }
        }
        // The last program under a filter has ended.
        let mut ended = ready[1..].iter().map(|ready| ready.intersects(PollFlags::POLLHUP | PollFlags::POLLERR));
        listeners.retain(|_| !ended.next().unwrap_or(false));
        if !ready[0].is_empty() {
            match socket::receive_with(inbox.as_fd(), &mut [0; 1]) {
                Ok((1.., descriptors)) => {
                    let new = descriptors.into_iter().map(Listener::new);
                    listeners.extend(new.inspect(|listener| {
                        if observer.is_some() || known.is_some() || moves {
                            listener.answer_quickly()
                        }
                    }));
                }
                _ => return,
            }
        }
    }
}

/// Answers a call in a process of its own.
fn in_fork(answer: impl FnOnce()) -> io::Result<()> {
    let (child, _) = fork(0, None)?;
    if child == 0 {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        answer();
        std::process::exit(0);
    }
    Ok(())
}

/// connect(2) with an encoded address.
fn connect(socket: &OwnedFd, address: &[u8]) -> io::Result<()> {
    // SAFETY: the address outlives the call, and the length is its own.
    let done = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), address.len() as libc::socklen_t) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
