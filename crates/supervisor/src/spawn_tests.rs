use super::*;
use crate::testing::own_process::{in_own_process, until};
use crate::testing::{null, read_line};
use nacre_containment::proc_table::{self, Stat};
use nacre_protocol::standing::{ResourceLimits, RunAs};
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use std::collections::HashSet;
use std::os::fd::FromRawFd;

/// Everything that a plan refers to.
struct Basics {
    null: File,
    output: File,
    end: OwnedFd,
}

impl Basics {
    fn new() -> Self {
        let (output, end) = pipe().unwrap();
        Self { null: null(), output: output.into(), end }
    }

    /// A plan for bash with a script. Its descriptor 1 is a pipe.
    fn plan(&self, script: &str) -> Plan<'_> {
        Plan {
            programs: vec![c_string(b"/bin/bash")],
            argv: ["bash", "-c", script].map(|word| c_string(word.as_bytes())).to_vec(),
            variable: None,
            cwd: Path::new("/"),
            anywhere: false,
            group: None,
            standing: Standing { user: None, limits: ResourceLimits::default(), confined: None },
            descriptors: vec![self.null.as_fd(), self.end.as_fd()],
            tie: Tie::Process,
        }
    }

    /// Starts bash with a script, after `change` has changed the plan.
    fn start<'a>(&'a self, script: &str, change: impl FnOnce(&mut Plan<'a>)) -> Result<Pid, Failure> {
        let mut plan = self.plan(script);
        change(&mut plan);
        plan.start()
    }

    /// Runs a script and returns the line that it prints.
    fn printed<'a>(&'a self, script: &str, change: impl FnOnce(&mut Plan<'a>)) -> String {
        let pid = self.start(script, change).unwrap();
        let line = read_line(&self.output);
        wait(pid);
        line
    }

    fn failed<'a>(&'a self, change: impl FnOnce(&mut Plan<'a>)) -> (StartStep, i32) {
        let failure = self.start("exit", change).expect_err("the start fails");
        (failure.step, failure.errno)
    }
}

fn nix_pid(pid: Pid) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(pid.raw())
}

fn wait(pid: Pid) -> WaitStatus {
    nix::sys::wait::waitpid(nix_pid(pid), None).unwrap()
}

/// Opens a new terminal and returns its two ends.
fn terminal() -> (File, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let (name, settings, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: the two numbers are stored through the pointers; the others are optional. The descriptors are new.
    unsafe {
        assert_eq!(libc::openpty(&raw mut master, &raw mut slave, name, settings, size), 0);
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

#[test]
fn descriptors_get_their_numbers_and_others_are_closed() {
    in_own_process(|| {
        let basics = Basics::new();
        let (three, three_end) = pipe().unwrap();
        let (four, four_end) = pipe().unwrap();
        let script = "echo 3 >&3; for n in 0 1 2; do to=$(readlink /proc/$$/fd/$n); echo $to >&4; done; [ -e /proc/$$/fd/200 ] || echo none >&4";
        let null = basics.null.as_fd();
        let mut plan = basics.plan(script);
        plan.descriptors = vec![null, null, null, three_end.as_fd(), four_end.as_fd()];
        let pid = plan.start().unwrap();
        drop((three_end, four_end));
        let (three, four) = (File::from(three), File::from(four));
        assert_eq!(read_line(&three), "3");
        assert_eq!([(); 4].map(|()| read_line(&four)), ["/dev/null", "/dev/null", "/dev/null", "none"]);
        wait(pid);
    });
}

#[test]
fn a_program_leads_a_process_group_and_sees_the_added_variable_and_directory() {
    in_own_process(|| {
        let basics = Basics::new();
        let script = "echo \"$ADDED $PWD\"; kill -STOP $$";
        let change = |plan: &mut Plan| (plan.variable, plan.cwd) = (Some(c_string(b"ADDED=a b")), Path::new("/usr"));
        let pid = basics.start(script, change).unwrap();
        assert_eq!(read_line(&basics.output), "a b /usr");
        assert_eq!(Stat::read(pid).unwrap().group, pid.raw());
        nacre_containment::signal::send_to_child(pid, libc::SIGKILL).unwrap();
        wait(pid);
    });
}

#[test]
fn limits_are_in_force() {
    in_own_process(|| {
        let basics = Basics::new();
        let limits = ResourceLimits { open_files: Some(64), processes: Some(1000) };
        assert_eq!(basics.printed("echo $(ulimit -n) $(ulimit -u)", |plan| plan.standing.limits = limits), "64 1000");
    });
}

#[test]
fn a_failure_names_its_step_and_reason() {
    in_own_process(|| {
        let basics = Basics::new();
        let user = RunAs { uid: 1, gid: 1, groups: vec![u32::MAX] };
        let missing = Group::at("/missing");
        assert_eq!(basics.failed(|plan| plan.cwd = Path::new("/missing")), (StartStep::Cwd, libc::ENOENT));
        assert_eq!(basics.failed(|plan| plan.programs = vec![c_string(b"/missing")]), (StartStep::Exec, libc::ENOENT));
        assert_eq!(basics.failed(|plan| plan.group = Some(&missing)), (StartStep::Group, libc::ENOENT));
        // More than the kernel allows even root.
        let limits = ResourceLimits { open_files: Some(u64::MAX), processes: None };
        assert_eq!(basics.failed(|plan| plan.standing.limits = limits), (StartStep::Limits, libc::EPERM));
        assert_eq!(basics.failed(|plan| plan.standing.user = Some(&user)).0, StartStep::User);
        assert_eq!(basics.failed(|plan| plan.tie = Tie::Terminal), (StartStep::Prepare, libc::ENOTTY));
        assert!(nix::sys::wait::waitpid(None, None).is_err(), "every failed child is reaped");
    });
}

#[test]
fn a_report_keeps_what_a_pipe_takes_in_one_piece() {
    let failure = Failure { step: StartStep::Isolation, errno: -1, detail: "\u{10ffff}".repeat(10_000) };
    let report = failure.clone().report();
    assert!(report.len() <= libc::PIPE_BUF, "{} bytes", report.len());
    let read: Failure = message::decode(&report).unwrap();
    assert_eq!((read.step, read.errno), (failure.step, failure.errno));
    assert!(failure.detail.starts_with(&read.detail) && read.detail.chars().count() == LONGEST_DETAIL);
}

#[test]
fn a_program_that_cannot_be_born_in_its_group_joins_it() {
    in_own_process(|| {
        let basics = Basics::new();
        // Not a control group, so the kernel refuses to fork into it.
        let directory = tempfile::tempdir().unwrap();
        let group = Group::at(directory.path());
        assert_eq!(basics.failed(|plan| plan.group = Some(&group)), (StartStep::Group, libc::ENOENT));
        let list = directory.path().join("cgroup.procs");
        std::fs::write(&list, "").unwrap();
        assert_eq!(basics.printed("echo here", |plan| plan.group = Some(&group)), "here");
        assert_eq!(std::fs::read_to_string(list).unwrap(), "0");
    });
}

#[test]
fn a_program_runs_as_its_user_without_new_privileges() {
    in_own_process(|| {
        let basics = Basics::new();
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let user = RunAs { uid: 65534, gid: 65533, groups: vec![65533, 65532] };
        let script = "echo $UID ${GROUPS[*]} $(grep NoNewPrivs /proc/self/status)";
        let line = basics.printed(script, |plan| plan.standing.user = Some(&user));
        assert_eq!(line, "65534 65533 65532 NoNewPrivs: 1");
    });
}

#[test]
fn a_terminal_becomes_the_controlling_terminal() {
    in_own_process(|| {
        let basics = Basics::new();
        let (mut master, slave) = terminal();
        let mut plan = basics.plan("read line < /dev/tty; echo \"$line\"");
        (plan.descriptors, plan.tie) = (vec![slave.as_fd(); 3], Tie::Terminal);
        let pid = plan.start().unwrap();
        assert_eq!(Stat::read(pid).unwrap().session, pid.raw());
        io::Write::write_all(&mut master, b"typed\n").unwrap();
        // The terminal's echo, then the program's output.
        assert_eq!([read_line(&master), read_line(&master)], ["typed", "typed"]);
        wait(pid);
    });
}

#[test]
fn a_waiting_child_executes_its_program_only_when_released() {
    in_own_process(|| {
        let basics = Basics::new();
        let waiting = basics.plan("echo early").prepare(c"/bin/bash").unwrap();
        let program = std::fs::read_link(format!("/proc/{}/exe", waiting.pid)).unwrap();
        assert_eq!(program, std::env::current_exe().unwrap());
        waiting.dismiss();
        let pid = basics.plan("echo ran; exit 7").prepare(c"/bin/bash").unwrap().release();
        assert_eq!((read_line(&basics.output).as_str(), wait(pid)), ("ran", WaitStatus::Exited(nix_pid(pid), 7)));
        assert!(nix::sys::wait::waitpid(None, None).is_err(), "the dismissed child is reaped");
    });
}

#[test]
fn a_waiting_child_tries_every_path_and_prints_why_none_can_be_executed() {
    in_own_process(|| {
        let basics = Basics::new();
        for (programs, line, code) in [
            (&["/missing", "/bin/bash"][..], "ran", 0),
            (&["/missing", "/dev/null/bash"], "nacre: bash: command not found", 127),
            (&["/etc", "/missing"], "nacre: the program cannot be executed", 126),
        ] {
            let mut plan = basics.plan("echo ran");
            plan.programs = programs.iter().map(|path| c_string(path.as_bytes())).collect();
            plan.descriptors.push(basics.end.as_fd());
            let pid = plan.prepare(c"/bin/bash").unwrap().release();
            assert_eq!((read_line(&basics.output).as_str(), wait(pid)), (line, WaitStatus::Exited(nix_pid(pid), code)));
        }
        let mut plan = basics.plan("");
        plan.cwd = Path::new("/missing");
        assert!(matches!(plan.prepare(c"/bin/bash"), Err(Failure { step: StartStep::Cwd, errno: libc::ENOENT, .. })));
    });
}

/// A group whose list of processes blocks the child that writes to it.
fn hung_group(directory: &Path) -> Group {
    nix::unistd::mkfifo(&directory.join("cgroup.procs"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    Group::at(directory)
}

#[test]
fn a_child_that_is_killed_before_it_waits_is_no_failure_of_its_group() {
    in_own_process(|| {
        let (basics, directory) = (Basics::new(), tempfile::tempdir().unwrap());
        let group = hung_group(directory.path());
        let killer = std::thread::spawn(|| {
            let own = Pid::new(std::process::id() as i32).unwrap();
            let mut child = None;
            until("the child exists", || {
                child = proc_table::descendants(&[own], &HashSet::new()).unwrap().pop();
                child.is_some()
            });
            nacre_containment::signal::send_to(child.unwrap().identity, libc::SIGKILL).unwrap();
        });
        let mut plan = basics.plan("");
        plan.group = Some(&group);
        let failure = plan.prepare(c"/bin/bash").err().unwrap();
        assert_eq!((failure.step, failure.detail.as_str()), (StartStep::Prepare, "it was killed"));
        killer.join().unwrap();
    });
}

#[test]
fn a_child_whose_set_up_hangs_is_killed() {
    in_own_process(|| {
        let (basics, directory) = (Basics::new(), tempfile::tempdir().unwrap());
        let group = hung_group(directory.path());
        assert_eq!(basics.failed(|plan| plan.group = Some(&group)), (StartStep::Prepare, libc::ETIMEDOUT));
        let killed = nix::sys::wait::waitpid(None, None).unwrap();
        assert!(matches!(killed, WaitStatus::Signaled(_, Signal::SIGKILL, _)), "{killed:?}");
    });
}

#[test]
fn a_word_ends_at_nul() {
    assert_eq!(c_string(b"a\0b").as_bytes(), b"a");
    assert_eq!(c_string(b"").as_bytes(), b"");
}
