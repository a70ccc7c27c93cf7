//! Starting the shell: fork from this small process, put everything in order, exec.

use crate::arguments::{Arguments, child_pid};
use crate::hygiene::Setting;
use nacre_containment::{cgroup::Group, pid::Pid};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why the shell does not run.
pub struct Failure {
    /// What was being done, and the system's reason.
    pub message: String,
    /// The errno.
    pub errno: i32,
}

impl Failure {
    fn new(doing: &str, error: &io::Error) -> Self {
        Self { message: format!("{doing}: {error}"), errno: error.raw_os_error().unwrap_or(0) }
    }
}

const STEPS: [&str; 5] = [
    "cannot prepare the shell",
    "cannot join the control group",
    "cannot enter the working directory",
    "cannot run the shell",
    "cannot become the user of",
];

/// Starts the shell in `group`, in its own process group (so that a `kill 0` in a command never reaches us), with all
/// signals at their defaults and none blocked, and tied to this process by the parent-death signal.
///
/// A plain fork: this process has a few hundred KiB and one thread, so it costs no more than posix_spawn. The child is
/// born in its control group (clone3(2), Linux 5.7): moving it there afterwards would wait for the kernel's readers of
/// the group lock, which takes 5 to 20 ms when nobody has moved a process for a while.
pub fn start(arguments: &Arguments, setting: &Setting, group: Option<&Group>, cwd: &Path) -> Result<Pid, Failure> {
    let program = c_string(arguments.program.as_bytes());
    let argv: Vec<CString> = arguments.argv.iter().map(|word| c_string(word.as_bytes())).collect();
    let mut argv_pointers: Vec<*const libc::c_char> = argv.iter().map(|word| word.as_ptr()).collect();
    argv_pointers.push(std::ptr::null());
    let directory = c_string(cwd.as_os_str().as_bytes());
    let directory_of_group = match group.map(|group| File::open(group.path())) {
        Some(Ok(file)) => Some(file),
        Some(Err(error)) => return Err(Failure::new(STEPS[1], &error)),
        None => None,
    };
    let (report_read, report_write) = pipe().map_err(|error| Failure::new(STEPS[0], &error))?;
    let plan = Plan {
        program: &program,
        argv: &argv_pointers,
        cwd: &directory,
        group: directory_of_group.as_ref().map(|file| file.as_raw_fd()),
        user: arguments.user.as_ref(),
        input: setting.null.as_raw_fd(),
        output: setting.shell_output.0.as_raw_fd(),
        error: setting.shell_output.1.as_raw_fd(),
    };
    let (child, joined) = fork_into(plan.group);
    if child == 0 {
        let (step, errno) = plan.run(joined);
        let message = [step, errno as u8];
        // SAFETY: writes two bytes to an open pipe and leaves without running destructors.
        unsafe {
            libc::write(report_write.as_raw_fd(), message.as_ptr().cast(), 2);
            libc::_exit(127);
        }
    }
    if child < 0 {
        return Err(Failure::new(STEPS[0], &io::Error::last_os_error()));
    }
    drop(report_write);
    let mut message = [0; 2];
    match File::from(report_read).read(&mut message) {
        Ok(2) => {
            let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None);
            let error = io::Error::from_raw_os_error(i32::from(message[1]));
            let object = if message[0] == 2 { cwd } else { Path::new(&arguments.program) };
            Err(Failure::new(&format!("{} {}", STEPS[usize::from(message[0])], object.display()), &error))
        }
        // End of file: the exec closed the pipe, so the shell runs.
        _ => Ok(child_pid(child)),
    }
}

/// From linux/sched.h; the constant of the libc crate is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 1 << 33;

/// Forks, into the group where the kernel can do that; says whether it did. In the child the pid is 0.
pub fn fork_into(group: Option<i32>) -> (libc::pid_t, bool) {
    if let Some(group) = group {
        // SAFETY: all zeroes is a valid `clone_args`.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.exit_signal = libc::SIGCHLD as u64;
        arguments.cgroup = group as u64;
        // SAFETY: without CLONE_VM this is a fork. This process has one thread, so the child may do anything; it still
        // keeps to async-signal-safe calls, and needs nothing of what the C library prepares around its own fork.
        let child = unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>()) };
        if child >= 0 {
            return (child as libc::pid_t, true);
        }
    }
    // SAFETY: as above.
    (unsafe { libc::fork() }, false)
}

struct Plan<'a> {
    program: &'a CString,
    argv: &'a [*const libc::c_char],
    cwd: &'a CString,
    /// Descriptor of the control group's directory.
    group: Option<i32>,
    user: Option<&'a (u32, u32, Vec<u32>)>,
    input: i32,
    output: i32,
    error: i32,
}

impl Plan<'_> {
    /// Runs in the child; returns only on failure, with the step (an index into `STEPS`) and the errno.
    fn run(&self, joined: bool) -> (u8, i32) {
        // SAFETY: every call is async-signal-safe, and every pointer was made before the fork and outlives it.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            let ready = libc::setpgid(0, 0) == 0
                && libc::dup2(self.input, 0) == 0
                && libc::dup2(self.output, 1) == 1
                && libc::dup2(self.error, 2) == 2
                && libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) == 0;
            if !ready {
                return (0, errno());
            }
            if let Some(group) = self.group.filter(|_| !joined) {
                let procs = libc::openat(group, c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if procs < 0 || libc::write(procs, c"0".as_ptr().cast(), 1) != 1 {
                    return (1, errno());
                }
            }
            if !self.user.is_none_or(|(uid, gid, groups)| become_user(*uid, *gid, groups)) {
                return (4, errno());
            }
            // After the change of user, which takes the setting back (prctl(2)).
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return (0, errno());
            }
            if libc::chdir(self.cwd.as_ptr()) != 0 {
                return (2, errno());
            }
            libc::execv(self.program.as_ptr(), self.argv.as_ptr());
            (3, errno())
        }
    }
}

/// Gives up every privilege for good: groups first, since only root can set them, the user last; and no set-user-ID
/// program brings any back.
///
/// # Safety
/// To be called between fork and exec: system calls only.
pub unsafe fn become_user(uid: u32, gid: u32, groups: &[u32]) -> bool {
    // SAFETY: the list outlives the call, and its length is its own.
    unsafe {
        libc::setgroups(groups.len(), groups.as_ptr()) == 0
            && libc::setresgid(gid, gid, gid) == 0
            && libc::setresuid(uid, uid, uid) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    }
}

pub fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Words of a command line can not hold NUL: they came through exec.
pub fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).expect("arguments that came through exec hold no NUL")
}

pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: pipe2 fills two descriptors that nobody else owns.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}
