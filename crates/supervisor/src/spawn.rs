//! Starts programs: forks this small process, sets everything up, and executes the program.
//!
//! A session's shell and its processes execute their program immediately ([`Plan::start`]). A job's command waits before
//! that ([`Plan::prepare`]): the job becomes visible in between. So problems with the directory, the user or the limits
//! are reported before that, and nothing of the command runs before the job can be found.

use crate::standing::Standing;
use nacre_containment::{cgroup::Group, fork, oom::Rank, pid::Pid};
use nacre_isolation::confined::Confined;
use nacre_protocol::message;
use nacre_protocol::socket::await_events;
use nacre_protocol::supervisor::StartStep;
use nix::poll::PollFlags;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Why a program could not start.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

    /// A confinement that cannot be made. A path that does not respond is the same failure as in a child's set-up.
    pub fn confining(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut {
            return Self::unresponsive();
        }
        Self { step: StartStep::Isolation, errno: 0, detail: error.to_string() }
    }

    /// A path that does not respond.
    fn unresponsive() -> Self {
        Self { step: StartStep::Prepare, errno: libc::ETIMEDOUT, detail: String::new() }
    }

    /// A step whose last system call failed.
    fn last(step: StartStep) -> Self {
        Self { step, errno: errno(), detail: String::new() }
    }

    /// The failure as a child reports it to this process.
    fn report(self) -> Vec<u8> {
        let detail = self.detail.chars().take(LONGEST_DETAIL).collect();
        // Without any bytes, the program would count as started.
        message::encode(&Self { detail, ..self }).unwrap_or_else(|_| vec![0])
    }
}

/// How long a child may take until it runs the program. It takes a millisecond, unless a path does not respond: a network
/// file system whose server is down, for example.
const SETUP: Duration = Duration::from_secs(5);

/// Maximum characters of the details in a child's report, which a pipe must take in one piece.
const LONGEST_DETAIL: usize = 500;

/// The report of a child that waits before it executes its program. It is shorter than that of a failure.
const READY: &[u8] = b"r";

/// How the program relates to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// The session's shell: it dies with this process, and has memory longer than its commands.
    Shell,
    /// A command of plain mode or of a job: it dies with this process.
    Dependent,
    /// A background process.
    Process,
    /// A background process whose first three descriptors are its controlling terminal.
    Terminal,
}

/// Everything that starting a program needs.
pub struct Plan<'a> {
    /// The paths to try in order, as execvp(3) does.
    pub programs: Vec<CString>,
    /// From argv\[0\] on.
    pub argv: Vec<CString>,
    /// One additional variable for its environment.
    pub variable: Option<CString>,
    /// The directory where it starts.
    pub cwd: &'a Path,
    /// Start in `/` if that directory cannot be entered.
    pub anywhere: bool,
    /// Its control group.
    pub group: Option<&'a Group>,
    /// The limits, user and confinement it runs under.
    pub standing: Standing<'a>,
    /// Its descriptors, numbered from 0 on.
    pub descriptors: Vec<BorrowedFd<'a>>,
    /// How it relates to other processes.
    pub tie: Tie,
}

/// A child that is fully set up and waits to execute its program.
pub struct Waiting {
    /// Its pid.
    pub pid: Pid,
    go: OwnedFd,
}

impl Waiting {
    /// Lets the child execute its program.
    pub fn release(self) -> Pid {
        let _ = File::from(self.go).write_all(b"1");
        self.pid
    }

    /// Ends the child: it reads end of file instead of the permission to continue.
    pub fn dismiss(self) {
        drop(self.go);
        reap(self.pid);
    }
}

/// The pipe on which a child waits: the end that it reads, and the end that only this process keeps.
struct Gate<'a> {
    wait: OwnedFd,
    go: &'a OwnedFd,
    /// Runs a program that is a script without `#!`, as in a shell.
    shell: &'a CStr,
}

/// Descriptors are moved above the numbers that they will get, and above those that scripts use.
const ASIDE: i32 = 200;

impl Plan<'_> {
    /// Starts the program in its group, as a process group leader (so that a `kill 0` in a command never reaches the
    /// supervisor), with all signals at their defaults and none blocked.
    ///
    /// # Errors
    /// The step that failed. No process is left, except one that does not respond, which was killed.
    pub fn start(&self) -> Result<Pid, Failure> {
        self.fork(None)
    }

    /// Like [`Plan::start`], but the child waits before it executes the program. If it cannot execute it, it prints why
    /// and exits like a shell: 127 if there is no such program, else 126. A script without `#!` is run by `shell`.
    pub fn prepare(&self, shell: &CStr) -> Result<Waiting, Failure> {
        let pipe = pipe().and_then(|(wait, go)| Ok((aside(wait)?, go)));
        let (wait, go) = pipe.map_err(|error| Failure::new(StartStep::Prepare, &error))?;
        let pid = self.fork(Some(&Gate { wait, go: &go, shell }))?;
        Ok(Waiting { pid, go })
    }

    /// Forks the child, and waits until it executes its program or waits at the gate.
    ///
    /// A plain fork: this process uses a few hundred KiB and has one thread, so the fork costs no more than
    /// posix_spawn, and the child may do anything.
    fn fork(&self, gate: Option<&Gate>) -> Result<Pid, Failure> {
        let prepare = |error: io::Error| Failure::new(StartStep::Prepare, &error);
        let argv = pointers(&self.argv);
        let environment: Vec<CString> = std::env::vars_os()
            .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
            .chain(self.variable.clone())
            .collect();
        let environment = pointers(&environment);
        let directory = c_string(self.cwd.as_os_str().as_bytes());
        let group = self.group.map(Group::open);
        let group = group.transpose().map_err(|error| Failure::new(StartStep::Group, &error))?;
        let group = group.map(aside).transpose().map_err(prepare)?;
        let (report_read, report) = pipe().and_then(|(read, write)| Ok((read, aside(write)?))).map_err(prepare)?;
        let descriptors: Vec<OwnedFd> =
            self.descriptors.iter().map(aside).collect::<io::Result<_>>().map_err(prepare)?;
        let group = group.as_ref().map(AsRawFd::as_raw_fd);
        let (child, joined) = self.standing.fork(group).map_err(|(step, error)| Failure::new(step, &error))?;
        if child == 0 {
            // SAFETY: this is the child, and all pointers were created before the fork and outlive it.
            unsafe {
                if let Some(gate) = gate {
                    libc::close(gate.go.as_raw_fd());
                }
                let set_up = self.set_up(&descriptors, group.filter(|_| !joined), &directory);
                let failure = set_up.err().unwrap_or_else(|| self.execute(&argv, &environment, &report, gate));
                write(report.as_raw_fd(), &failure.report());
                libc::_exit(127);
            }
        }
        drop(report);
        let child = child_pid(child);
        if !await_events(report_read.as_fd(), PollFlags::POLLIN, Instant::now() + SETUP).unwrap_or(true) {
            // The ordinary reaping collects it: it may not die at once.
            let _ = nacre_containment::signal::send_to_child(child, libc::SIGKILL);
            return Err(Failure::unresponsive());
        }
        let mut bytes = [0; libc::PIPE_BUF];
        let length = File::from(report_read).read(&mut bytes).unwrap_or(0);
        // End of file without a gate: the exec closed the pipe, so the program is running.
        if length == gate.map_or(0, |_| READY.len()) {
            return Ok(child);
        }
        reap(child);
        let killed = |_| Failure { step: StartStep::Prepare, errno: 0, detail: "it was killed".into() };
        Err(message::decode(&bytes[..length]).unwrap_or_else(killed))
    }

    /// Runs in the child, between fork and exec. It may allocate: no other thread can have held the allocator's lock.
    ///
    /// # Safety
    /// Must be called in the child of a single-threaded process.
    unsafe fn set_up(&self, descriptors: &[OwnedFd], group: Option<i32>, directory: &CString) -> Result<(), Failure> {
        let ensure = |holds: bool, step: StartStep| if holds { Ok(()) } else { Err(Failure::last(step)) };
        // SAFETY: only system calls, and every pointer was created before the fork and outlives it.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            let unblocked = libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) == 0;
            let led = if self.tie == Tie::Terminal { libc::setsid() >= 0 } else { libc::setpgid(0, 0) == 0 };
            ensure(unblocked && led, StartStep::Prepare)?;
            // Before the change of user, after which the file belongs to root until the exec.
            if self.tie == Tie::Shell { Rank::Shell } else { Rank::Command }.take();
            for (number, descriptor) in (0..).zip(descriptors) {
                ensure(libc::dup2(descriptor.as_raw_fd(), number) == number, StartStep::Prepare)?;
            }
            if self.tie == Tie::Terminal {
                ensure(libc::ioctl(0, libc::TIOCSCTTY, 0) == 0, StartStep::Prepare)?;
            }
            if let Some(group) = group {
                let list = libc::openat(group, c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                ensure(list >= 0 && libc::write(list, c"0".as_ptr().cast(), 1) == 1, StartStep::Group)?;
            }
            self.standing.take().map_err(|(step, error)| Failure::new(step, &error))?;
            if matches!(self.tie, Tie::Shell | Tie::Dependent) {
                // After the change of user, which resets the setting (prctl(2)).
                ensure(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0, StartStep::Prepare)?;
            }
            let entered = libc::chdir(directory.as_ptr()) == 0 || self.anywhere && libc::chdir(c"/".as_ptr()) == 0;
            ensure(entered, StartStep::Cwd)?;
        }
        let restricted = self.standing.confined.map_or(Ok(()), Confined::restrict);
        restricted.map_err(|error| Failure { detail: error.to_string(), ..Failure::new(StartStep::Isolation, &error) })
    }

    /// Waits at the gate, if there is one, and executes the program. Returns why it could not be executed.
    ///
    /// # Safety
    /// As for [`Plan::set_up`]; both lists end with a null pointer.
    unsafe fn execute(
        &self,
        argv: &[*const libc::c_char],
        environment: &[*const libc::c_char],
        report: &OwnedFd,
        gate: Option<&Gate>,
    ) -> Failure {
        // SAFETY: only system calls, and every pointer was created before the fork.
        unsafe {
            if let Some(gate) = gate {
                let mut byte = 0u8;
                let waits = write(report.as_raw_fd(), READY) && {
                    libc::read(gate.wait.as_raw_fd(), (&raw mut byte).cast(), 1) == 1
                };
                // End of file: the supervisor was killed, or has cancelled the start.
                if !waits {
                    libc::_exit(127);
                }
            }
            let (mut reason, mut exists) = (libc::ENOENT, false);
            for program in &self.programs {
                libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr());
                let failed = errno();
                if let (libc::ENOEXEC, Some(gate)) = (failed, gate) {
                    let mut words = vec![c"bash".as_ptr(), c"--".as_ptr(), program.as_ptr()];
                    words.extend(argv.iter().skip(1));
                    libc::execve(gate.shell.as_ptr(), words.as_ptr(), environment.as_ptr());
                }
                // A PATH directory that this user cannot enter cannot provide the program.
                let provides =
                    !matches!(failed, libc::ENOENT | libc::ENOTDIR) && libc::access(program.as_ptr(), libc::F_OK) == 0;
                if provides || !exists {
                    reason = failed;
                }
                exists |= provides;
            }
            if gate.is_some() {
                if exists {
                    write(2, b"nacre: the program cannot be executed\n");
                    libc::_exit(126);
                }
                let name = self.argv.first().map_or(&b""[..], |name| name.as_bytes());
                write(2, &[b"nacre: ", name, b": command not found\n"].concat());
                libc::_exit(127);
            }
            Failure { step: StartStep::Exec, errno: reason, detail: String::new() }
        }
    }
}

/// Writes to a pipe or the command's output, in one system call. True if everything was written.
///
/// # Safety
/// The descriptor must be open.
unsafe fn write(descriptor: i32, bytes: &[u8]) -> bool {
    // SAFETY: the pointer and the length are those of the bytes.
    unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) == bytes.len().cast_signed() }
}

/// Waits for the end of a child that exits by itself or was killed.
fn reap(child: Pid) {
    let _ = fork::wait(child.raw());
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// A copy with a high number, which closes on exec.
fn aside(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    let copy = |least| rustix::io::fcntl_dupfd_cloexec(&descriptor, least);
    // Where the limit is low, any number from 10 on will do.
    Ok(copy(ASIDE).or_else(|_| copy(10))?)
}

/// The reason of the last failed system call.
fn errno() -> i32 {
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
