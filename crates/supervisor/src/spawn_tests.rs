use super::*;
use crate::fixture::{null, read_line};
use crate::own_process::in_own_process;
use crate::standing::ResourceLimits;
use nacre_containment::proc_table::Stat;

/// Everything that a plan refers to.
struct Basics {
    null: File,
    program: OsString,
    output: File,
    descriptors: [OwnedFd; 1],
}

impl Basics {
    fn new() -> Self {
        let (output, end) = pipe().unwrap();
        Self { null: null(), program: "/bin/bash".into(), output: output.into(), descriptors: [end] }
    }

    /// Starts bash with a script, after `change` has changed the plan. Its descriptor 1 is a pipe unless `change`
    /// replaces it.
    fn start<'a>(&'a self, script: &str, change: impl FnOnce(&mut Plan<'a>)) -> Result<Pid, Failure> {
        let mut plan = Plan {
            program: &self.program,
            argv: ["bash", "-c", script].map(|word| c_string(word.as_bytes())).to_vec(),
            variable: None,
            cwd: Path::new("/"),
            group: None,
            standing: Standing { user: None, limits: ResourceLimits::default(), confined: None },
            descriptors: &self.descriptors,
            first_descriptor: 1,
            null: &self.null,
            tie: Tie::Process,
        };
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

fn wait(pid: Pid) {
    nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid.raw()), None).unwrap();
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
fn descriptors_get_their_numbers_and_lower_ones_are_null() {
    in_own_process(|| {
        let basics = Basics::new();
        let (three, three_end) = pipe().unwrap();
        let (four, four_end) = pipe().unwrap();
        let descriptors = [three_end, four_end];
        let script = "echo 3 >&3; for n in 0 1 2; do to=$(readlink /proc/$$/fd/$n); echo $to >&4; done; [ -e /proc/$$/fd/200 ] || echo none >&4";
        let pid = basics.start(script, |plan| (plan.descriptors, plan.first_descriptor) = (&descriptors, 3)).unwrap();
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
        let user = (1, 1, vec![u32::MAX]);
        let (missing, program) = (Group::at("/missing"), OsString::from("/missing"));
        assert_eq!(basics.failed(|plan| plan.cwd = Path::new("/missing")), (StartStep::Cwd, libc::ENOENT));
        assert_eq!(basics.failed(|plan| plan.program = &program), (StartStep::Exec, libc::ENOENT));
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
fn every_step_has_a_number() {
    use StartStep::{Cwd, Exec, Group, Limits, Prepare, User};
    for step in [Prepare, Group, Limits, User, Cwd, Exec] {
        assert_eq!(step_of(step as u8), step);
    }
    assert_eq!(step_of(200), Prepare);
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
        let user = (65534, 65533, vec![65533, 65532]);
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
        let descriptors = [0, 1, 2].map(|_| slave.try_clone().unwrap());
        let script = "read line < /dev/tty; echo \"$line\"";
        let pid = basics
            .start(script, |plan| {
                (plan.descriptors, plan.first_descriptor, plan.tie) = (&descriptors, 0, Tie::Terminal);
            })
            .unwrap();
        assert_eq!(Stat::read(pid).unwrap().session, pid.raw());
        io::Write::write_all(&mut master, b"typed\n").unwrap();
        // The terminal's echo, then the program's output.
        assert_eq!([read_line(&master), read_line(&master)], ["typed", "typed"]);
        wait(pid);
    });
}

#[test]
fn a_word_ends_at_nul() {
    assert_eq!(c_string(b"a\0b").as_bytes(), b"a");
    assert_eq!(c_string(b"").as_bytes(), b"");
}
