//! Processes with a channel, and the system calls around them.

use super::LIMIT;
use nacre_protocol::shell::{REPLY_BUFFER, Reply, Request};
use nacre_shell_builtin as builtin;
use std::fs::File;
use std::io::{Error, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A bash process with its channel. It is killed when dropped.
pub struct Process {
    pub pid: i32,
    pub pidfd: OwnedFd,
    pub channel: OwnedFd,
    reaped: std::cell::Cell<bool>,
}

fn owned(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", Error::last_os_error());
    // SAFETY: the caller has just opened the descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// The bash under test.
pub fn bash() -> String {
    std::env::var("BASH_UNDER_TEST").unwrap_or_else(|_| "/bin/bash".into())
}

pub fn memfd(content: &[u8]) -> OwnedFd {
    // SAFETY: the name is a C string.
    let fd = owned(unsafe { libc::memfd_create(c"nacre".as_ptr(), libc::MFD_CLOEXEC) });
    let mut file = File::from(fd);
    file.write_all(content).unwrap();
    file.into()
}

pub fn seqpacket_pair() -> (OwnedFd, OwnedFd) {
    let mut pair = [-1; 2];
    // SAFETY: `pair` has room for two descriptors.
    let made =
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, pair.as_mut_ptr()) };
    assert_eq!(made, 0);
    (owned(pair[0]), owned(pair[1]))
}

pub fn abstract_listener(name: &str) -> OwnedFd {
    // SAFETY: plain system calls on a local address.
    unsafe {
        let fd = owned(libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0));
        let mut address: libc::sockaddr_un = std::mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path[1..].iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        let length = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        let bound = libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length as libc::socklen_t);
        assert!(bound == 0 && libc::listen(fd.as_raw_fd(), 4) == 0, "{}", Error::last_os_error());
        fd
    }
}

/// The process at the other end.
pub fn peer(channel: &OwnedFd) -> i32 {
    // SAFETY: the length is that of the structure.
    unsafe {
        let mut credentials: libc::ucred = std::mem::zeroed();
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let into = (&raw mut credentials).cast();
        assert_eq!(libc::getsockopt(channel.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &mut length), 0);
        credentials.pid
    }
}

/// Indexes of the descriptors that are readable or closed.
pub fn poll(fds: &[BorrowedFd<'_>], timeout: Duration) -> Vec<usize> {
    let entry = |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<libc::pollfd> = fds.iter().map(entry).collect();
    let timeout = timeout.as_millis().try_into().unwrap_or(i32::MAX);
    // SAFETY: the entries live until it returns.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) };
    entries.iter().enumerate().filter(|(_, entry)| entry.revents != 0).map(|(index, _)| index).collect()
}

/// Reads the available bytes. False at end of file.
pub fn read_available(fd: &OwnedFd, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 65536];
    while !poll(&[fd.as_fd()], Duration::ZERO).is_empty() {
        // SAFETY: the length is that of the buffer.
        let read = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(read) {
            Ok(0) | Err(_) => return false,
            Ok(read) => into.extend_from_slice(&buffer[..read]),
        }
    }
    true
}

pub fn read_until(fd: &OwnedFd, enough: impl Fn(&str) -> bool) -> String {
    let (mut bytes, begun) = (Vec::new(), Instant::now());
    loop {
        let open = read_available(fd, &mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if !open || enough(&text) {
            return text;
        }
        assert!(begun.elapsed() < LIMIT, "only {text:?}");
        poll(&[fd.as_fd()], Duration::from_millis(100));
    }
}

pub fn read_to_end(fd: &OwnedFd) -> String {
    read_until(fd, |_| false)
}

/// A command's standard streams.
pub struct Streams(Vec<OwnedFd>);

impl Streams {
    fn null() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    fn pipe() -> (OwnedFd, OwnedFd) {
        let mut pair = [-1; 2];
        // SAFETY: `pair` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe2(pair.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        (owned(pair[0]), owned(pair[1]))
    }

    pub fn piped() -> (Self, OwnedFd, OwnedFd) {
        let ((out, out_end), (err, err_end)) = (Self::pipe(), Self::pipe());
        (Self(vec![Self::null(), out_end, err_end]), out, err)
    }

    /// Output and errors share one pipe.
    pub fn joined() -> (Self, OwnedFd, ()) {
        let (out, end) = Self::pipe();
        let copy = end.try_clone().unwrap();
        (Self(vec![Self::null(), end, copy]), out, ())
    }

    pub fn of(fds: [OwnedFd; 3]) -> Self {
        Self(fds.into())
    }

    pub fn borrowed(&self) -> Vec<BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd).collect()
    }
}

impl Process {
    /// Starts a bash that loads the builtin.
    pub fn start_bash(directory: &Path, environment: &[(&str, &str)]) -> Self {
        let (ours, theirs) = seqpacket_pair();
        let object = memfd(builtin::OBJECT);
        let [zero, arguments @ ..] = builtin::ARGUMENTS;
        let mut command = Command::new(bash());
        command.arg0(zero).args(arguments).current_dir(directory);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", directory);
        command.envs(environment.iter().copied());
        let null = Streams::null();
        let [channel_fd, object_fd, null_fd] = [theirs.as_raw_fd(), object.as_raw_fd(), null.as_raw_fd()];
        // SAFETY: only system calls that are safe after fork(). The descriptors are moved up first, so that none is
        // overwritten before it has been copied.
        unsafe {
            command.pre_exec(move || {
                libc::setsid();
                let [channel, object, null] =
                    [channel_fd, object_fd, null_fd].map(|fd| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100));
                for fd in 0..3 {
                    libc::dup2(null, fd);
                }
                libc::dup2(channel, builtin::CHANNEL_FD);
                libc::dup2(object, builtin::OBJECT_FD);
                // Hides descriptors that the test process itself has inherited.
                libc::syscall(libc::SYS_close_range, 5, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
                Ok(())
            });
        }
        #[expect(clippy::zombie_processes, reason = "dropping the process waits for it")]
        let child = command.spawn().unwrap();
        Self::adopt(child.id().cast_signed(), ours)
    }

    pub fn adopt(pid: i32, channel: OwnedFd) -> Self {
        // SAFETY: plain system call.
        let pidfd = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32);
        Self { pid, pidfd, channel, reaped: false.into() }
    }

    pub fn send(&self, request: &Request<'_>, descriptors: &[BorrowedFd<'_>]) {
        let encoded = request.encode().unwrap();
        let file = encoded.file.as_deref().map(memfd);
        let mut fds: Vec<i32> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        fds.extend(file.as_ref().map(AsRawFd::as_raw_fd));
        send_with_descriptors(&self.channel, &encoded.message, &fds);
    }

    /// The next message, or `None` at end of file.
    pub fn receive(&self) -> Option<Reply> {
        assert!(!poll(&[self.channel.as_fd()], LIMIT).is_empty(), "no message");
        self.try_receive()
    }

    pub fn try_receive(&self) -> Option<Reply> {
        let mut buffer = vec![0; REPLY_BUFFER];
        // SAFETY: the length is that of the buffer.
        let length = unsafe { libc::recv(self.channel.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
        Some(Reply::decode(&buffer[..length]).expect("a message that can be decoded"))
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: plain system call.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.pidfd.as_raw_fd(), signal, 0, 0) };
    }

    /// Signals its descendants, deepest first.
    pub fn signal_children(&self, signal: i32, spared: &[i32]) {
        fn walk(pid: i32, signal: i32, spared: &[i32]) {
            for child in children(pid).into_iter().filter(|child| !spared.contains(child)) {
                walk(child, signal, spared);
                // SAFETY: plain system call.
                unsafe { libc::kill(child, signal) };
            }
        }
        walk(self.pid, signal, spared);
    }

    /// The exit status, or 128 and the signal.
    pub fn wait(self) -> i32 {
        let status = self.wait_status();
        if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) }
    }

    pub fn wait_status(&self) -> i32 {
        assert!(!poll(&[self.pidfd.as_fd()], LIMIT).is_empty(), "{} does not end", self.pid);
        let mut status = 0;
        // SAFETY: plain system call.
        assert_eq!(unsafe { libc::waitpid(self.pid, &mut status, 0) }, self.pid);
        self.reaped.set(true);
        status
    }

    /// Closes its channel, which makes it exit.
    pub fn end(mut self) {
        self.channel = Streams::null();
        self.wait_status();
    }

    /// Kills it and the jobs in its process group.
    pub fn kill_group(&self) {
        kill_group(self.pid);
    }

    /// Waits until it sleeps, as it does when it waits for a request.
    pub fn wait_until_asleep(&self) {
        let begun = Instant::now();
        let is_asleep = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
            stat.rsplit(") ").next().unwrap().starts_with('S')
        };
        while !is_asleep() {
            assert!(begun.elapsed() < LIMIT, "{} does not sleep", self.pid);
            std::thread::yield_now();
        }
    }

    /// Whether these are its open descriptors. Of a shell, only root can look at them: otherwise true.
    pub fn has_open(&self, expected: &[i32]) -> bool {
        let entries = match std::fs::read_dir(format!("/proc/{}/fd", self.pid)) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return true,
            entries => entries.unwrap(),
        };
        let mut fds: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        fds.sort_unstable();
        fds == expected
    }

    pub fn resident_kib(&self) -> i64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.pid)).unwrap();
        pages.split(' ').nth(1).unwrap().parse::<i64>().unwrap() * 4
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped.get() {
            self.signal(libc::SIGCONT);
            self.signal(libc::SIGKILL);
            self.wait_status();
        }
    }
}

pub fn kill_group(group: i32) {
    // SAFETY: plain system call.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

pub fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn send_with_descriptors(channel: &OwnedFd, message: &[u8], fds: &[i32]) {
    let mut control = [0u64; 16];
    let bytes = size_of_val(fds) as u32;
    // SAFETY: the control buffer has room for a few descriptors, and everything lives until sendmsg() returns.
    unsafe {
        let mut part = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        if !fds.is_empty() {
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(bytes) as _;
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(bytes) as _;
            std::ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(first).cast(), fds.len());
        }
        let sent = libc::sendmsg(channel.as_raw_fd(), &header, libc::MSG_NOSIGNAL);
        assert_eq!(usize::try_from(sent).ok(), Some(message.len()), "{}", Error::last_os_error());
    }
}

/// A terminal: its controlling end and the other.
pub fn terminal() -> (OwnedFd, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    let null = std::ptr::null_mut();
    // SAFETY: openpty() fills both numbers.
    assert_eq!(unsafe { libc::openpty(&mut ours, &mut theirs, null, null.cast(), null.cast()) }, 0);
    let [ours, theirs] = [ours, theirs].map(owned);
    for fd in [&ours, &theirs] {
        // SAFETY: plain system call.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    (ours, theirs)
}
