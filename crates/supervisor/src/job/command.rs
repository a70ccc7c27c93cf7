//! Starts a job's command in two steps: first a child that is fully set up, then its program.
//!
//! The job becomes visible in between. So problems with the directory, the user or the limits are reported before
//! that, and nothing of the command runs before the job can be found.

use super::failure::{Failed, JOIN};
use crate::spawn::{c_string, child_pid, errno, pipe};
use crate::standing::become_user;
use nacre_containment::cgroup::Group;
use nacre_containment::fork::fork;
use nacre_containment::job::request::{Program, Request};
use nacre_containment::pid::Pid;
use nacre_isolation::confined::Confined;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// A child that waits to execute its program.
pub struct Waiting {
    /// Its pid.
    pub pid: Pid,
    go: OwnedFd,
}

/// The standard streams.
pub struct Streams<'a> {
    /// Descriptor 0.
    pub input: &'a OwnedFd,
    /// Descriptors 1 and 2.
    pub output: &'a File,
}

/// Linux allows 128 KiB for one argument (MAX_ARG_STRLEN); longer text goes through a memory file.
const LONGEST_ARGUMENT: usize = 100 * 1024;

/// The descriptor of the long text.
const TEXT_DESCRIPTOR: i32 = 9;

/// The shell's script in that case. It closes the descriptor before the text runs; line numbers start at 1.
const RUN_TEXT: &str = r#"builtin eval -- "exec 9<&-;$(</proc/self/fd/9)""#;

const READY: u8 = 255;

/// Forks the child in its control group, and waits until it is ready.
pub fn prepare(
    request: &Request,
    group: Option<&Group>,
    confined: Option<&Confined>,
    streams: &Streams,
) -> Result<Waiting, Failed> {
    let spawn = Failed::prepare;
    let image = Image::of(request).map_err(spawn)?;
    let argv: Vec<*const libc::c_char> =
        image.argv.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
    let cwd = c_string(request.cwd.as_os_str().as_bytes());
    let directory = group.map(|group| File::open(group.path())).transpose().map_err(Failed::open_group)?;
    let directory = directory.map(|file| high(&file)).transpose().map_err(spawn)?;
    let (report_read, report) = pipe().and_then(|(read, write)| Ok((read, high(&write)?))).map_err(spawn)?;
    let (go_read, go) = pipe().and_then(|(read, write)| Ok((high(&read)?, write))).map_err(spawn)?;
    let (input, output) = (high(streams.input).map_err(spawn)?, high(streams.output).map_err(spawn)?);
    let plan = Plan {
        request,
        image: &image,
        argv: &argv,
        cwd: &cwd,
        group: directory.as_ref().map(AsRawFd::as_raw_fd),
        confined,
    };
    let (child, joined) = match confined {
        Some(confined) => confined.fork(plan.group).map_err(Failed::isolate)?,
        None => fork(0, plan.group).map_err(spawn)?,
    };
    if child == 0 {
        // SAFETY: this is the child: system calls only, with descriptors and memory created before the fork.
        unsafe {
            libc::close(go.as_raw_fd());
            plan.run(joined, [input.as_raw_fd(), output.as_raw_fd()], report.as_raw_fd(), go_read.as_raw_fd());
        }
    }
    drop(report);
    let mut message = [0; 2];
    match File::from(report_read).read_exact(&mut message) {
        Ok(()) if message[0] == READY => Ok(Waiting { pid: child_pid(child), go }),
        outcome => {
            let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(child), None);
            Err(Failed::of_child(outcome.ok().map(|()| message), &request.cwd))
        }
    }
}

impl Waiting {
    /// Lets the child execute its command.
    pub fn release(self) -> Pid {
        let _ = File::from(self.go).write_all(b"1");
        self.pid
    }

    /// Ends the child: it reads end of file instead of the permission to continue.
    pub fn dismiss(self) {
        drop(self.go);
        let _ = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(self.pid.raw()), None);
    }
}

/// The program to execute.
struct Image {
    /// The paths to try in order, as execvp does.
    programs: Vec<CString>,
    argv: Vec<CString>,
    /// The error message if there is no such program.
    missing: Vec<u8>,
    text: Option<OwnedFd>,
}

impl Image {
    fn of(request: &Request) -> io::Result<Self> {
        let words = |list: &[&str]| list.iter().map(|word| c_string(word.as_bytes())).collect::<Vec<CString>>();
        let shell = c_string(request.shell.as_os_str().as_bytes());
        let (programs, argv, text, name) = match &request.program {
            Program::Text(text) if text.len() <= LONGEST_ARGUMENT => {
                (vec![shell], words(&["bash", "-c", text]), None, "bash")
            }
            Program::Text(text) => {
                // SAFETY: the name is a C string; the result is a new descriptor, owned only here.
                let mut file = unsafe {
                    let fd = libc::memfd_create(c"command".as_ptr(), libc::MFD_CLOEXEC);
                    if fd < 0 {
                        return Err(io::Error::last_os_error());
                    }
                    File::from_raw_fd(fd)
                };
                file.write_all(text.as_bytes())?;
                (vec![shell], words(&["bash", "-c", RUN_TEXT]), Some(high(&file)?), "bash")
            }
            Program::Argv(list) => {
                let name = list.first().map_or("", String::as_str);
                let list: Vec<&str> = list.iter().map(String::as_str).collect();
                (candidates(name), words(&list), None, name)
            }
        };
        let missing = format!("nacre: {name}: command not found\n").into_bytes();
        Ok(Self { programs, argv, missing, text })
    }
}

/// The possible paths of a program: its own, or those in the directories of PATH.
fn candidates(name: &str) -> Vec<CString> {
    if name.contains('/') {
        return vec![c_string(name.as_bytes())];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|directory| c_string(directory.join(name).as_os_str().as_bytes())).collect()
}

/// A duplicate above the numbers of the standard streams and the long text.
fn high(fd: &impl AsRawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl on an open descriptor; the duplicate is new and owned only here.
    unsafe {
        match libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, TEXT_DESCRIPTOR + 1) {
            number if number < 0 => Err(io::Error::last_os_error()),
            number => Ok(OwnedFd::from_raw_fd(number)),
        }
    }
}

struct Plan<'a> {
    request: &'a Request,
    image: &'a Image,
    argv: &'a [*const libc::c_char],
    cwd: &'a CString,
    group: Option<i32>,
    confined: Option<&'a Confined>,
}

impl Plan<'_> {
    /// Runs the child until its exec.
    ///
    /// # Safety
    /// Must be called in the child of a single-threaded process.
    unsafe fn run(&self, joined: bool, streams: [i32; 2], report: i32, go: i32) -> ! {
        // SAFETY: only system calls, and every pointer was created before the fork.
        unsafe {
            let failed = self.prepare(joined, streams);
            let message = failed.map_or([READY, 0], |(step, errno)| [step, errno as u8]);
            let reported = libc::write(report, message.as_ptr().cast(), 2) == 2;
            let mut byte = 0u8;
            // End of file: the supervisor was killed, or has cancelled the start.
            if failed.is_some() || !reported || libc::read(go, (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(127);
            }
            let mut reason = libc::ENOENT;
            for program in &self.image.programs {
                libc::execv(program.as_ptr(), self.argv.as_ptr());
                let errno = errno();
                // A PATH directory that this user cannot enter cannot provide the program.
                if !matches!(errno, libc::ENOENT | libc::ENOTDIR) && libc::access(program.as_ptr(), libc::F_OK) == 0 {
                    reason = errno;
                }
            }
            if reason == libc::ENOENT {
                libc::write(2, self.image.missing.as_ptr().cast(), self.image.missing.len());
                libc::_exit(127);
            }
            let text = b"nacre: the program cannot be executed\n";
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::_exit(126);
        }
    }

    /// Runs every step before the program. Returns the failed step, with its errno.
    unsafe fn prepare(&self, joined: bool, [input, output]: [i32; 2]) -> Option<(u8, i32)> {
        // SAFETY: as above.
        unsafe {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            let text = self.image.text.as_ref().map(AsRawFd::as_raw_fd);
            let ready = libc::setpgid(0, 0) == 0
                && libc::dup2(input, 0) == 0
                && libc::dup2(output, 1) == 1
                && libc::dup2(output, 2) == 2
                && text.is_none_or(|text| libc::dup2(text, TEXT_DESCRIPTOR) == TEXT_DESCRIPTOR)
                && libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) == 0;
            if !ready {
                return Some((0, errno()));
            }
            if let Some(group) = self.group.filter(|_| !joined) {
                let procs = libc::openat(group, c"cgroup.procs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if procs < 0 || libc::write(procs, c"0".as_ptr().cast(), 1) != 1 {
                    return Some((JOIN, errno()));
                }
            }
            let limit = |resource, value: Option<u64>| {
                let Some(value) = value else { return true };
                let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
                libc::setrlimit(resource, &limit) == 0
            };
            if !(limit(libc::RLIMIT_NOFILE, self.request.open_files)
                && limit(libc::RLIMIT_NPROC, self.request.processes))
            {
                return Some((2, errno()));
            }
            let user = self.request.user.as_ref();
            if !user.is_none_or(|user| become_user(user.uid, user.gid, &user.groups)) {
                return Some((3, errno()));
            }
            // After the change of user, which resets the setting (prctl(2)).
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Some((0, errno()));
            }
            if libc::chdir(self.cwd.as_ptr()) != 0 {
                return Some((4, errno()));
            }
            self.confined
                .and_then(|confined| confined.restrict().err())
                .map(|error| (5, error.raw_os_error().unwrap_or(0)))
        }
    }
}
