//! Shared by the unit tests: a session with a real shell and real processes, but no host.

pub mod own_process;

use crate::adopter::Adopter;
use crate::own_limits;
use crate::process_setup::Setting;
use crate::process_table::{ProcessTable, Program};
use crate::reap::reap;
use crate::spawn::{Failure, Plan, Tie, c_string, pipe};
use crate::standing::Standing;
use nacre_containment::cgroup::{self, Group};
use nacre_containment::limits::Limits;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_protocol::message;
use nacre_protocol::standing::ResourceLimits;
use nacre_protocol::supervisor::{Order, Report, Role, Setup};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use own_process::{PATIENCE, group_name, until};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The role of a background process with a pipe for its output.
pub fn process(key: u64) -> Role {
    Role::Process { key, mark: format!("test-{key}"), limits: Limits::default(), terminal: false }
}

/// A session without a host: its tables, and the reports that the host would receive.
pub struct Session {
    pub table: ProcessTable,
    pub setup: Setup,
    pub setting: Setting,
    host: OwnedFd,
}

impl Session {
    /// Sessions without control groups and, where the system supports them, with groups.
    pub fn kinds() -> impl Iterator<Item = Self> {
        std::iter::once(Self::without_groups as fn() -> Option<Self>)
            .chain([Self::with_groups as fn() -> Option<Self>])
            .filter_map(|make| make())
    }

    pub fn without_groups() -> Option<Self> {
        Some(Self::new(None))
    }

    /// `None` if control groups cannot be used.
    pub fn with_groups() -> Option<Self> {
        let session = Self::new(Some(cgroup::probe().ok()?.join(group_name(std::process::id()))));
        session.table.group_directory()?;
        Some(session)
    }

    /// With this group of its own.
    pub fn in_group(group: PathBuf) -> Self {
        Self::new(Some(group))
    }

    fn new(group: Option<PathBuf>) -> Self {
        let setup = Setup {
            mark: None,
            commands: None,
            kept_as: None,
            host: 1,
            cwd: "/".into(),
            shell: OsString::from("/bin/bash"),
            group: group.map(Into::into),
            user: None,
            limits: ResourceLimits::default(),
        };
        let (control, host) = nacre_protocol::socket::pair().unwrap();
        let set = SigSet::from_iter([Signal::SIGCHLD]);
        let children = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).unwrap();
        let setting =
            Setting { control, host: None, host_pid: 0, children, null: null(), limits: own_limits::Limits::current() };
        Self { table: ProcessTable::new(&setup, Adopter::default()), setup, setting, host }
    }

    /// Starts bash with a script, or with its input as the script. Its descriptors 0 and 1 are pipes.
    pub fn try_start(&mut self, role: Role, script: Option<&str>) -> Result<Started, Failure> {
        let ((input_end, input), (output, output_end)) = (pipe().unwrap(), pipe().unwrap());
        let program = Program {
            role,
            arguments: script.into_iter().flat_map(|script| ["-c".into(), script.into()]).collect(),
            descriptors: vec![input_end, output_end],
            first_descriptor: 0,
            anywhere: false,
        };
        let (identity, group) = self.table.start(&program, &self.setup, &self.setting)?;
        Ok(Started { identity, group, input: input.into(), output: output.into() })
    }

    pub fn start(&mut self, role: Role, script: &str) -> Started {
        self.try_start(role, Some(script)).unwrap()
    }

    /// Starts a shell that runs its input and ignores the signal that interrupts a command: only the shell's own
    /// builtins handle that signal.
    pub fn start_shell(&mut self) -> Started {
        ignore_interrupt(true);
        let shell = self.try_start(Role::Shell, None).unwrap();
        ignore_interrupt(false);
        shell
    }

    /// The directory of the session's group.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(self.table.group_directory().unwrap()).parent().unwrap().to_path_buf()
    }

    /// Sends an order like the host.
    pub fn order(&self, order: &Order) {
        message::send(self.host.as_fd(), order, &[]).unwrap();
    }

    /// The reports so far.
    pub fn reports(&self) -> Vec<Report> {
        let mut reports = Vec::new();
        while is_readable(self.host.as_fd(), 0) {
            reports.push(message::receive(self.host.as_fd()).unwrap().unwrap().0);
        }
        reports
    }

    /// Reaps children until a report arrives.
    pub fn next_reports(&mut self) -> Vec<Report> {
        let mut reports = Vec::new();
        until("a report arrives", || {
            reap(&mut self.table, &self.setting);
            reports.extend(self.reports());
            !reports.is_empty()
        });
        reports
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            self.table.kill_all();
            let childless = reap(&mut self.table, &self.setting);
            let over = childless && self.table.remove_groups(true);
            if over || Instant::now() > give_up {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A started bash with its pipes.
pub struct Started {
    pub identity: Identity,
    pub group: Option<String>,
    input: File,
    output: File,
}

impl Started {
    pub fn pid(&self) -> Pid {
        self.identity.pid
    }

    /// Writes a line to its input.
    pub fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Reads a line of its output.
    pub fn line(&self) -> String {
        read_line(&self.output)
    }

    /// Reads a pid from its output.
    pub fn pid_line(&self) -> Pid {
        Pid::new(self.line().parse().unwrap()).unwrap()
    }

    /// Makes the shell start a program in the background, and waits until its exec.
    pub fn background(&mut self) -> Pid {
        self.write("sleep 600 & echo $!");
        let pid = self.pid_line();
        until("the program runs", || Stat::read(pid).is_some_and(|stat| stat.name.starts_with(b"sleep\0")));
        pid
    }

    /// True if output is waiting to be read.
    pub fn has_output(&self) -> bool {
        is_readable(self.output.as_fd(), 0)
    }
}

/// Reads one line without its end; at end of file, what was read so far.
pub fn read_line(mut file: &File) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        assert!(is_readable(file.as_fd(), PATIENCE.as_millis() as u16), "no line arrives");
        match file.read(&mut byte) {
            Ok(1) if byte != *b"\n" => line.push(byte[0]),
            _ => return String::from_utf8(line).unwrap().trim_end().to_owned(),
        }
    }
}

fn is_readable(fd: std::os::fd::BorrowedFd<'_>, milliseconds: u16) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(milliseconds)).is_ok() && fds[0].any().unwrap_or(false)
}

/// `/dev/null`.
pub fn null() -> File {
    File::options().read(true).write(true).open("/dev/null").unwrap()
}

/// Starts a child of this process that is in no table, with or without a group.
pub fn spawn_child(script: &str, group: Option<&Group>) -> Pid {
    let null = null();
    let plan = Plan {
        programs: vec![c_string(b"/bin/bash")],
        argv: ["bash", "-c", script].map(|word| c_string(word.as_bytes())).to_vec(),
        variable: None,
        cwd: "/".as_ref(),
        anywhere: false,
        group,
        standing: Standing { user: None, limits: ResourceLimits::default(), confined: None },
        descriptors: vec![null.as_fd(); 3],
        tie: Tie::Process,
    };
    plan.start().unwrap()
}

/// Starts a child that sleeps until it is killed.
pub fn spawn_sleeper(group: Option<&Group>) -> Pid {
    spawn_child("exec sleep 600", group)
}

/// True while a process is running.
pub fn is_running(pid: Pid) -> bool {
    Stat::read(pid).is_some_and(|stat| stat.is_running())
}

/// Sets the disposition of a signal that the C library refuses to change.
fn ignore_interrupt(ignored: bool) {
    // The kernel's struct sigaction: handler, flags, restorer, mask.
    let action = [if ignored { libc::SIG_IGN } else { libc::SIG_DFL }, 0, 0, 0];
    // SAFETY: the structure has the size and layout that the kernel reads; nothing is written back.
    let outcome = unsafe {
        libc::syscall(libc::SYS_rt_sigaction, signal::INTERRUPT, action.as_ptr(), std::ptr::null_mut::<usize>(), 8)
    };
    assert_eq!(outcome, 0);
}
