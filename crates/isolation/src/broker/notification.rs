//! The kernel's side: notifications of a filter (seccomp_unotify(2)).

use super::kind::{Kind, Place, with_64_bits};
use crate::filter::is_of_32_bits;
use crate::privileges::no_new_privileges;
use nacre_containment::fork::{fork, wait};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const NEW_LISTENER: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
/// A non-fatal signal waits for the reply (Linux 5.19): otherwise the call would be repeated.
const WAIT_KILLABLE: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// Whether connections can be redirected: a call that a signal repeats would find a connection with the proxy's answer in it.
///
/// # Errors
/// The reason why not.
pub fn can_redirect() -> Result<(), String> {
    let (flags, nothing) = (NEW_LISTENER | WAIT_KILLABLE, std::ptr::null::<libc::sock_fprog>());
    // SAFETY: the kernel looks at the flags before the program, which it cannot read here.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, nothing) };
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EFAULT) if done < 0 => Ok(()),
        _ => Err("signals interrupt connections that the kernel lets others make (before Linux 5.19)".into()),
    }
}

/// Whether a filter can have a listener here: the kernel allows one for a process and all that it has been started by.
///
/// # Errors
/// The reason why not.
pub fn try_out() -> Result<(), String> {
    let tried = || {
        let (child, _) = fork(0, None)?;
        if child == 0 {
            let nothing = [libc::sock_filter { code: libc::BPF_RET as u16, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }];
            let done = no_new_privileges().and_then(|()| install_with_listener(&nothing).map(drop));
            let code = done.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EPERM), |()| 0);
            // SAFETY: leaves without running destructors, which belong to the parent.
            unsafe { libc::_exit(code) };
        }
        Ok::<_, io::Error>(wait(child))
    };
    match tried().map_err(|error| error.to_string())? {
        Some(0) => Ok(()),
        Some(libc::EBUSY) => Err("another program looks at the system calls of this one".into()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno).to_string()),
        None => Err("the process that tries it was killed".into()),
    }
}

/// Installs a filter for this process, and returns its listener.
///
/// # Errors
/// Those of seccomp(2).
pub fn install_with_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    for flags in [NEW_LISTENER | WAIT_KILLABLE, NEW_LISTENER] {
        // SAFETY: the kernel copies the program, which outlives the call. The result is a new descriptor.
        unsafe {
            let fd = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter);
            if fd >= 0 {
                return Ok(OwnedFd::from_raw_fd(fd as i32));
            }
        }
    }
    Err(io::Error::last_os_error())
}

/// A call that waits for its reply.
pub struct Call {
    id: u64,
    /// The calling thread.
    pub thread: i32,
    /// The number of the system call on this architecture.
    pub number: libc::c_long,
    /// What the broker does with it.
    pub kind: Kind,
    /// Its arguments.
    pub arguments: [u64; 6],
}

impl Call {
    /// The kernel's id of the call.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The descriptor of the directory where a path starts, if that is relative, and the memory address of the path.
    pub fn path(&self, (directory, path): Place) -> (i32, u64) {
        (directory.map_or(libc::AT_FDCWD, |index| self.arguments[index] as i32), self.arguments[path])
    }

    /// The socket's descriptor number, the memory address of the socket address, and its length, of connect(2).
    pub fn connection(&self) -> (i32, u64, usize) {
        let [socket, address, length, ..] = self.arguments;
        (socket as i32, address, length as u32 as usize)
    }
}

/// True while the caller waits. Only makes a system call, so that signal handlers can use it.
pub fn is_waiting(listener: i32, id: u64) -> bool {
    // SAFETY: the kernel reads one number through the pointer.
    unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
}

/// The listener of one filter.
pub struct Listener {
    descriptor: OwnedFd,
    /// A program under the filter has restricted itself further, in a way that what it starts does not show.
    pub has_restricted: Cell<bool>,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Listener {
    /// Takes the descriptor of a listener.
    pub fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, has_restricted: Cell::new(false) }
    }

    /// Lets the caller of a quick answer run next on the same processor (Linux 6.6), so that it does not wait for its turn again.
    pub fn answer_quickly(&self) {
        /// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
        const SYNC_WAKE_UP: u64 = 1;
        // SAFETY: the flags are a number. An older kernel refuses them.
        unsafe { libc::ioctl(self.descriptor.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
    }

    /// Receives the next call.
    ///
    /// # Errors
    /// `ENOENT` if the caller was killed meanwhile.
    pub fn receive(&self) -> io::Result<Call> {
        // SAFETY: the kernel requires all zeroes in the structure, which outlives the call.
        let notification = unsafe {
            let mut notification: libc::seccomp_notif = std::mem::zeroed();
            if libc::ioctl(self.descriptor.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notification) != 0 {
                return Err(io::Error::last_os_error());
            }
            notification
        };
        let libc::seccomp_data { nr, arch, args: arguments, .. } = notification.data;
        let number = if is_of_32_bits(arch) { with_64_bits(nr.into()) } else { nr.into() };
        let (id, thread) = (notification.id, notification.pid as i32);
        Ok(Call { id, thread, number, kind: Kind::of(number), arguments })
    }

    /// True while the caller waits: then everything read from its process before is its own.
    pub fn is_waiting(&self, call: &Call) -> bool {
        is_waiting(self.descriptor.as_raw_fd(), call.id)
    }

    /// Ends the call with a result.
    pub fn answer(&self, call: &Call, result: io::Result<()>) {
        let error = result.err().map_or(0, |error| -error.raw_os_error().unwrap_or(libc::EPERM));
        self.reply(libc::seccomp_notif_resp { id: call.id, val: 0, error, flags: 0 });
    }

    /// Lets the kernel carry the call out.
    pub fn pass(&self, call: &Call) {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        self.reply(libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags });
    }

    fn reply(&self, response: libc::seccomp_notif_resp) {
        // SAFETY: the structure outlives the call. A dead caller needs no reply.
        unsafe { libc::ioctl(self.descriptor.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const response) };
    }

    /// Replaces the caller's socket by a descriptor.
    ///
    /// # Errors
    /// The caller has exited.
    pub fn replace_socket(&self, call: &Call, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let replacement = libc::seccomp_notif_addfd {
            id: call.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SETFD as u32,
            srcfd: descriptor.as_raw_fd() as u32,
            newfd: call.connection().0 as u32,
            newfd_flags: libc::O_CLOEXEC as u32,
        };
        // SAFETY: the structure outlives the call.
        let done = unsafe {
            libc::ioctl(self.descriptor.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw const replacement)
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}
