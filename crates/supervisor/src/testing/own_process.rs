//! A separate process for a unit test.
//!
//! The supervisor reaps every child of its process. Such a test would also reap the children of other tests, so it
//! runs in a second copy of the test program, which is a session leader and subreaper like the supervisor.

use crate::own_limits::Limits;
use nacre_containment::cgroup::{self, Group};
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::collections::HashSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set in the environment of the second copy.
const ALONE: &str = "NACRE_TEST_ALONE";
/// Maximum wait for a condition.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Maximum run time of the second copy.
const WATCHDOG: Duration = Duration::from_secs(300);

/// Runs the calling test in its own process. `test` must be a closure written inside the test function.
pub fn in_own_process<F: FnOnce()>(test: F) {
    if std::env::var_os(ALONE).is_some() {
        return run_alone(test);
    }
    let path = std::any::type_name::<F>();
    let name = path.split_once("::").and_then(|(_, rest)| rest.strip_suffix("::{{closure}}"));
    let copy = Command::new(std::env::current_exe().unwrap())
        .args([name.expect("a closure inside a test"), "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let group = group_name(copy.id());
    let output = copy.wait_with_output().unwrap();
    if !output.status.success()
        && let Ok(directory) = cgroup::probe()
    {
        let _ = Group::at(directory.join(group)).remove();
    }
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn run_alone(test: impl FnOnce()) {
    nix::unistd::setsid().unwrap();
    nix::sys::prctl::set_child_subreaper(true).unwrap();
    std::thread::spawn(|| {
        std::thread::sleep(WATCHDOG);
        eprintln!("the test takes too long");
        signal::kill_descendants();
        std::process::exit(1);
    });
    test();
    assert!(descendants().is_empty(), "a process is left over");
}

/// The name of a session's control group in the copy with this pid.
pub fn group_name(pid: u32) -> String {
    format!("nacre-unit-test-{pid}")
}

/// Does something while this process can open no file.
pub fn without_descriptors<T>(action: impl FnOnce() -> T) -> T {
    let limits = Limits::current();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 0, hard).unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(action));
    limits.restore();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn own_pid() -> Pid {
    Pid::new(std::process::id() as i32).unwrap()
}

fn descendants() -> Vec<Stat> {
    proc_table::descendants(&[own_pid()], &HashSet::new()).unwrap()
}

/// Waits for a condition.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
