//! The supervisor's end: it accepts the connections of its own processes, at an address that the host has taken for it.

use crate::address;
use crate::directory::Directory;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, accept4, bind, getsockopt, socket, sockopt,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Maximum length of a chain of parents.
const MAX_PARENTS: usize = 10_000;
/// How often a chain is followed whose middle ends meanwhile.
const ATTEMPTS: usize = 5;
/// How many addresses are tried. Programs can take many of those that may be next.
const ADDRESSES: usize = 1000;

/// Listens at the address of the first mark for which nothing else does. `next`: the next mark, unless none is left.
///
/// # Errors
/// All addresses are taken.
pub fn listen(mut next: impl FnMut() -> Option<u64>) -> io::Result<Option<(u64, OwnedFd)>> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let listener = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    for mark in std::iter::from_fn(|| Some(next())).take(ADDRESSES) {
        let Some(mark) = mark else { return Ok(None) };
        match bind(listener.as_raw_fd(), &UnixAddr::new_abstract(address(mark).as_bytes())?) {
            Err(Errno::EADDRINUSE) => {}
            bound => {
                bound?;
                nix::sys::socket::listen(&listener, Backlog::new(64)?)?;
                return Ok(Some((mark, listener)));
            }
        }
    }
    Err(Errno::EADDRINUSE.into())
}

/// The listener, and the directory of the commands.
#[derive(Debug)]
pub struct Calls {
    directory: Directory,
    listener: OwnedFd,
    /// Where it listens.
    pub address: String,
}

impl Calls {
    /// Accepts those that [`listen`] has made this listener for.
    pub fn new(directory: Directory, mark: u64, listener: OwnedFd) -> Self {
        Self { directory, listener, address: address(mark) }
    }

    /// The numbers of its descriptors.
    pub fn descriptors(&self) -> [i32; 2] {
        [self.listener.as_raw_fd(), self.directory.lock().as_raw_fd()]
    }

    /// Accepts the next connection, if one waits. Refuses those of other programs of the machine, by closing them.
    pub fn accept(&self) -> Option<OwnedFd> {
        let number = accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).ok()?;
        // SAFETY: accept4 has just created the descriptor; nothing else owns it.
        let connection = unsafe { OwnedFd::from_raw_fd(number) };
        let peer = getsockopt(&connection, sockopt::PeerCredentials).ok()?;
        descends(peer.pid(), std::process::id().cast_signed()).then_some(connection)
    }

    /// Stops listening: callers fail from now on. The directory is to be closed.
    pub fn stop(self) -> Directory {
        self.directory
    }
}

impl AsFd for Calls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Whether a process descends from the supervisor, which adopts the orphans of its descendants. False once it has ended.
fn descends(process: i32, supervisor: i32) -> bool {
    let parent = |pid: i32| Pid::new(pid).and_then(Stat::read).map(|stat| stat.parent);
    for _ in 0..ATTEMPTS {
        let mut at = process;
        for _ in 0..MAX_PARENTS {
            match parent(at) {
                Some(above) if above == supervisor => return true,
                Some(above) if above > 1 => at = above,
                // An ancestor has ended, and its children have another parent.
                None if at != process => break,
                _ => return false,
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    use std::path::Path;
    use std::process::{Command, Stdio};

    #[test]
    fn a_descendant_is_one_as_long_as_it_runs() {
        let own = std::process::id().cast_signed();
        let mut child =
            Command::new("sh").args(["-c", "sleep 60 & echo $!; wait"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let (shell, sleep) = (child.id().cast_signed(), line.trim().parse().unwrap());
        assert!(descends(shell, own) && descends(sleep, own) && descends(sleep, shell));
        assert!(!descends(own, shell) && !descends(shell, sleep) && !descends(1, own) && !descends(0, own));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(sleep), nix::sys::signal::SIGKILL).unwrap();
        child.wait().unwrap();
        assert!(!descends(shell, own));
    }

    #[test]
    fn an_address_that_is_taken_is_left_out() {
        let first = 3 << 60 | u64::from(std::process::id()) << 8;
        let marks = |count: u64| {
            let mut marks = first..first + count;
            move || marks.next()
        };
        let taken: Vec<_> = (0..3).map(|_| listen(marks(3)).unwrap().unwrap()).collect();
        assert_eq!(taken.iter().map(|(mark, _)| mark - first).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(listen(marks(3)).unwrap().is_none(), "no mark is left");
        assert_eq!(listen(|| Some(first)).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_program_that_is_no_descendant_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::open(&root.path().join("c"), &[], Path::new("/bin/true")).unwrap();
        let mark = 1 << 61 | u64::from(std::process::id());
        let (mark, listener) = listen(|| Some(mark)).unwrap().unwrap();
        let calls = Calls::new(directory, mark, listener);
        let address = SocketAddr::from_abstract_name(address(mark)).unwrap();
        // This process is not its own descendant.
        let mut stranger = UnixStream::connect_addr(&address).unwrap();
        assert!(calls.accept().is_none());
        assert_eq!(std::io::Read::read(&mut stranger, &mut [0]).unwrap(), 0, "it is closed");
        calls.stop().close();
        assert!(UnixStream::connect_addr(&address).is_err());
    }
}
