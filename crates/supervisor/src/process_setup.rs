//! The supervisor's own setup before it starts anything: session, subreaper, signals, descriptors, lifelines.

use crate::own_limits::Limits;
use nacre_containment::pidfd;
use nacre_protocol::message;
use nacre_protocol::supervisor::Report;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The descriptors that the supervisor keeps. All close on exec.
pub struct Setting {
    /// The socket to the host; end of file means that the host has died.
    pub control: OwnedFd,
    /// The second lifeline: a pidfd of the host. A child that the host forked without exec could hold a copy of the
    /// socket open; the pidfd is reliable. `None` without pidfds.
    pub host: Option<OwnedFd>,
    /// The host's pid.
    pub host_pid: i32,
    /// Readable when a child has changed its state.
    pub children: SignalFd,
    /// `/dev/null`.
    pub null: File,
    /// The limits of this process.
    pub limits: Limits,
}

impl Setting {
    /// Whether the host lives. Without a pidfd, an adopter of this process is another one.
    pub fn host_lives(&self) -> bool {
        let Some(host) = &self.host else { return std::os::unix::process::parent_id() as i32 == self.host_pid };
        let mut ended = [PollFd::new(host.as_fd(), PollFlags::POLLIN)];
        poll(&mut ended, PollTimeout::ZERO).is_ok_and(|count| count == 0)
    }

    /// Waits for the end of the host, whose files the kernel closes before.
    pub fn host_ends_within(&self, longest: Duration) -> bool {
        let give_up = Instant::now() + longest;
        while self.host_lives() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(1));
        }
        !self.host_lives()
    }

    /// Sends a report to the host. The lifelines detect a dead host.
    ///
    /// With a limit that a program has just changed, the report may be wrong: what cannot be opened looks like a process
    /// that has ended. So this process exits instead, and the host replaces it, as it replaces a killed one.
    pub fn report(&self, report: &Report) {
        self.report_with(report, &[]);
    }

    /// Sends a report with descriptors to the host.
    pub fn report_with(&self, report: &Report, descriptors: &[BorrowedFd<'_>]) {
        if self.limits.have_changed() {
            std::process::exit(1);
        }
        let _ = message::send(self.control.as_fd(), report, descriptors);
    }
}

/// Makes this process a session leader and subreaper with a clean signal state. Moves its inherited descriptors out
/// of the standard numbers: 0 is the control socket. `kept`: other descriptors that it has opened.
pub fn prepare(host: i32, kept: &[i32]) -> io::Result<Setting> {
    let children = lead(&[libc::SIGCHLD])?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let control = take(0, &null)?;
    close_inherited(&[&[control.as_raw_fd(), null.as_raw_fd(), children.as_raw_fd()], kept].concat());
    std::env::set_current_dir("/")?;
    let host_fd = pidfd::open_to_watch(host).ok();
    // If the host died before the pidfd was opened, this process already has another parent.
    if nix::unistd::getppid().as_raw() != host {
        return Err(io::Error::other("the host has ended"));
    }
    // Until here, standard error was the host's, to report a failure. Nothing else may reach it.
    drop(take(2, &null)?);
    Ok(Setting { control, host: host_fd, host_pid: host, children, null, limits: Limits::current() })
}

/// Makes this process a session leader that reads these signals, and no other.
pub fn lead(signals: &[i32]) -> io::Result<SignalFd> {
    nix::unistd::setsid()?;
    block_signals(signals)
}

/// Blocks every signal. Relevant signals are read from a descriptor, and no stray SIGTERM, SIGHUP or SIGINT (a user's
/// `kill $PPID`, a closing terminal) may end the process that has to clean up. Dispositions are set to default:
/// children inherit ignored signals, and with SIGCHLD ignored, the kernel itself would reap children.
fn block_signals(read: &[i32]) -> io::Result<SignalFd> {
    reset_signals()?;
    // The C library would leave out the signals that it reserves for itself, which would end this process, too.
    let all = u64::MAX;
    // SAFETY: the mask has the size that the kernel reads; nothing is written back.
    let blocked = unsafe {
        let none = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const all, none, size_of::<u64>())
    };
    if blocked != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the set is initialised before it is used; invalid signal numbers are refused without effect.
    let read = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in read {
            libc::sigaddset(&mut set, *signal);
        }
        SigSet::from_sigset_t_unchecked(set)
    };
    Ok(SignalFd::with_flags(&read, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Sets every signal to its default action.
pub fn reset_signals() -> io::Result<()> {
    for signal in Signal::iterator() {
        if !matches!(signal, Signal::SIGKILL | Signal::SIGSTOP) {
            // SAFETY: sets a default disposition; no handler of this program runs.
            unsafe { nix::sys::signal::signal(signal, nix::sys::signal::SigHandler::SigDfl) }?;
        }
    }
    default_internal_signals();
    Ok(())
}

/// The two signals that the C library reserves for itself (32 and 33): its posix_spawn leaves them ignored in the
/// child, and its own functions refuse to change them.
fn default_internal_signals() {
    // The kernel's struct sigaction: handler, flags, restorer, mask. All zeroes is the default action.
    let default = [0usize; 4];
    for signal in [32, 33] {
        // SAFETY: the structure has the size and layout that the kernel reads; nothing is written back.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), std::ptr::null_mut::<usize>(), 8) };
    }
}

/// Moves a standard descriptor to a high close-on-exec number and leaves `/dev/null` in its place.
pub fn take(number: i32, null: &File) -> io::Result<OwnedFd> {
    // SAFETY: fcntl and dup2 on open descriptors; the duplicate is new and owned only here.
    unsafe {
        let moved = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 10);
        if moved < 0 || libc::dup2(null.as_raw_fd(), number) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(moved))
    }
}

/// Closes descriptors inherited from a host that opened them without close-on-exec.
pub fn close_inherited(keep: &[i32]) {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && !keep.contains(fd)) {
        // SAFETY: nothing in this process owns the descriptor: it was inherited, or it was the listing's own (EBADF).
        unsafe { libc::close(fd) };
    }
}
