//! Starts a program: forks this small process, sets everything up, and executes the program.

use crate::standing::Standing;
use nacre_containment::{cgroup::Group, pid::Pid};
use nacre_isolation::confined::Confined;
use nacre_protocol::supervisor::StartStep;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why a program could not start.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The step that failed.
    pub step: StartStep,
    /// The system's reason.
    pub errno: i32,
    /// Details that errno lacks; may be empty.
    pub detail: String,
}

impl Failure {
    /// A step that failed in this process.
    pub fn new(step: StartStep, error: &io::Error) -> Self {
        let errno = error.raw_os_error();
        Self { step, errno: errno.unwrap_or(0), detail: errno.map_or_else(|| error.to_string(), |_| String::new()) }
    }
}

/// Maximum bytes of a child's report: the step, its errno, and a sentence.
const LONGEST_REPORT: usize = 512;

/// How the program relates to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The session's shell: it dies with this process.
    Shell,
    /// A background process.
    Process,
    /// A background process whose first three descriptors are its controlling terminal.
    Terminal,
}

/// Everything that starting a program needs.
pub struct Plan<'a> {
    /// Absolute path.
    pub program: &'a OsString,
    /// From argv\[0\] on.
    pub argv: Vec<CString>,
    /// One additional variable for its environment.
    pub variable: Option<CString>,
    /// The directory where it starts.
    pub cwd: &'a Path,
    /// Its control group.
    pub group: Option<&'a Group>,
    /// The limits, user and confinement it runs under.
    pub standing: Standing<'a>,
    /// Its descriptors, numbered from `first_descriptor` on.
    pub descriptors: &'a [OwnedFd],
    /// The number of the first of `descriptors`; lower numbers are `null`.
    pub first_descriptor: i32,
    /// `/dev/null`.
    pub null: &'a File,
    /// How it relates to other processes.
    pub tie: Tie,
}

/// Descriptors are moved above the numbers that they will get, and above those that scripts use.
const ASIDE: i32 = 200;

impl Plan<'_> {
    /// Starts the program in its group, as a process group leader (so that a `kill 0` in a command never reaches the
    /// supervisor), with all signals at their defaults and none blocked.
    ///
    /// A plain fork: this process uses a few hundred KiB and has one thread, so the fork costs no more than
    /// posix_spawn, and the child may do anything.
    pub fn start(&self) -> Result<Pid, Failure> {
        let prepare = |error: io::Error| Failure::new(StartStep::Prepare, &error);
        let program = c_string(self.program.as_bytes());
        let argv = pointers(&self.argv);
        let environment: Vec<CString> = std::env::vars_os()
            .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
            .chain(self.variable.clone())
            .collect();
        let environment = pointers(&environment);
        let directory = c_string(self.cwd.as_os_str().as_bytes());
        let group = self.group.map(|group| File::open(group.path()));
        let group = group.transpose().map_err(|error| Failure::new(StartStep::Group, &error))?;
        let (report_read, report_write) = pipe().map_err(prepare)?;
        let report = aside(&report_write).map_err(prepare)?;
        drop(report_write);
        let descriptors: Vec<OwnedFd> =
            self.descriptors.iter().map(aside).collect::<io::Result<_>>().map_err(prepare)?;
        let directory_of_group = group.as_ref().map(AsRawFd::as_raw_fd);
        let forked = self.standing.fork(directory_of_group);
        let (child, joined) = forked.map_err(|(step, error)| Failure::new(step, &error))?;
        if child == 0 {
            let group = directory_of_group.filter(|_| !joined);
            let stopped = self.set_up(&descriptors, group, &directory).err();
            let (step, detail) = stopped.unwrap_or_else(|| {
                // SAFETY: all pointers were created before the fork and outlive it.
                unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
                (StartStep::Exec, String::new())
            });
            let mut message = vec![step as u8, errno() as u8];
            message.extend(detail.bytes().take(LONGEST_REPORT - 2));
            // SAFETY: writes to an open pipe, less than its capacity, and exits without running destructors.
            unsafe {
                libc::write(report.as_raw_fd(), message.as_ptr().cast(), message.len());
                libc::_exit(127);
            }
        }
        drop(report);
        let mut message = [0; LONGEST_REPORT];
        match File::from(report_read).read(&mut message) {
            Ok(length @ 2..) => {
                let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None);
                let detail = String::from_utf8_lossy(&message[2..length]).into_owned();
                Err(Failure { step: step_of(message[0]), errno: i32::from(message[1]), detail })
            }
            // End of file: the exec closed the pipe, so the program is running.
            _ => Ok(child_pid(child)),
        }
    }

    /// Runs in the child, between fork and exec. On failure, returns the step and details that errno lacks.
    fn set_up(
        &self,
        descriptors: &[OwnedFd],
        group: Option<i32>,
        directory: &CString,
    ) -> Result<(), (StartStep, String)> {
        let ensure = |holds: bool, step: StartStep| if holds { Ok(()) } else { Err((step, String::new())) };
        // SAFETY: every call is async-signal-safe, and every pointer was created before the fork and outlives it.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            let unblocked = libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) == 0;
            let led = if self.tie == Tie::Terminal { libc::setsid() >= 0 } else { libc::setpgid(0, 0) == 0 };
            ensure(unblocked && led, StartStep::Prepare)?;
            for number in 0..self.first_descriptor.min(3) {
                ensure(libc::dup2(self.null.as_raw_fd(), number) == number, StartStep::Prepare)?;
            }
            for (number, descriptor) in (self.first_descriptor..).zip(descriptors) {
                ensure(libc::dup2(descriptor.as_raw_fd(), number) == number, StartStep::Prepare)?;
            }
            if self.tie == Tie::Terminal {
                ensure(libc::ioctl(0, libc::TIOCSCTTY, 0) == 0, StartStep::Prepare)?;
            }
            if let Some(group) = group {
                let list = libc::openat(group, c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                ensure(list >= 0 && libc::write(list, c"0".as_ptr().cast(), 1) == 1, StartStep::Group)?;
            }
            self.standing.take().map_err(|step| (step, String::new()))?;
            if self.tie == Tie::Shell {
                // After the change of user, which resets the setting (prctl(2)).
                ensure(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0, StartStep::Prepare)?;
            }
            ensure(libc::chdir(directory.as_ptr()) == 0, StartStep::Cwd)?;
        }
        let restricted = self.standing.confined.map_or(Ok(()), Confined::restrict);
        restricted.map_err(|error| (StartStep::Isolation, error.to_string()))
    }
}

fn step_of(number: u8) -> StartStep {
    use StartStep::{Cwd, Exec, Group, Isolation, Limits, Prepare, User};
    [Prepare, Group, Limits, User, Cwd, Isolation, Exec]
        .into_iter()
        .find(|step| *step as u8 == number)
        .unwrap_or(Prepare)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// A copy with a high number, which closes on exec.
fn aside(descriptor: &OwnedFd) -> io::Result<OwnedFd> {
    // SAFETY: the result is a new descriptor or -1. Where the limit is low, any number from 10 on will do.
    unsafe {
        let mut copy = libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ASIDE);
        if copy < 0 {
            copy = libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 10);
        }
        if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copy)) }
    }
}

/// The reason of the last failed system call.
pub fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A word of a command line as a C string. It contains no NUL: it came through exec, or the host checked it.
pub fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes.split(|&byte| byte == 0).next().unwrap_or_default()).expect("a part without NUL")
}

/// A pipe; both ends close on exec.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

/// The child that `waitpid` returned.
pub fn child_pid(raw: i32) -> Pid {
    Pid::new(raw).expect("waitpid gives pids of children, and no child of ours is init")
}

#[cfg(test)]
#[path = "spawn_tests.rs"]
mod tests;
