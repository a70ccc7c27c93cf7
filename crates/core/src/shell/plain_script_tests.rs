//! Tests of the scripts on a real bash.

use super::*;
use crate::shell::plain_state::{Report, Scope};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command as Process, Output};

/// Runs commands one after another, each in its own bash.
#[derive(Default)]
struct Session {
    state: Option<Snapshot>,
    status: i32,
}

impl Session {
    fn run(&mut self, text: &str) -> Output {
        let plan = Plan { state: self.state.as_ref(), status: self.status, ..Plan::default() };
        let directory = tempfile();
        let (script, dump) = (directory.join("script"), directory.join("dump"));
        std::fs::write(&script, command(&plan, &Command::Text(text.into()))).unwrap();
        // The shell opens the two files at the numbers where the engine passes descriptors.
        let mut arguments = arguments();
        arguments[3] = format!("exec 3<'{}' 4>'{}'; {}", script.display(), dump.display(), arguments[3]);
        let output = Process::new("bash").args(arguments).output().unwrap();
        self.status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
        if let Some(report) = Report::parse(&std::fs::read(&dump).unwrap()).filter(|report| !report.unparsed) {
            self.state = Some(Snapshot::after(report, self.state.as_ref(), &Scope::default()));
        }
        std::fs::remove_dir_all(directory).unwrap();
        output
    }

    fn prints(&mut self, text: &str) -> String {
        String::from_utf8(self.run(text).stdout).unwrap()
    }
}

fn tempfile() -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("nacre-plain-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir(&path).unwrap();
    path
}

/// In POSIX mode, bash exits then, and the state that its first line would have restored is not there.
#[test]
fn a_command_that_cannot_be_parsed_changes_nothing() {
    for mode in ["set +o posix", "set -o posix"] {
        let mut session = Session::default();
        session.run(&format!("{mode}; trap 'echo t' DEBUG; enable -n alias"));
        assert_eq!(session.run("case ( in").status.code(), Some(2), "{mode}");
        assert_eq!(session.prints("enable -n"), "t\nenable -n alias\n", "{mode}");
    }
}

#[test]
fn state_outlives_a_normal_end_and_an_exit() {
    for end in ["true", "exit 3", "f() { local x=inner; g; }; g() { exit 4; }; f", "kill $$", "set -e; false"] {
        let mut session = Session::default();
        session.run("x=\"it's\"; list=(1 '2 3'); umask 027; set -- a 'b c'; shopt -s extglob; trap 'echo t' USR1");
        session.run(&format!("y=1; {end}"));
        assert_eq!(
            session.prints("set +e; echo \"$x $y ${list[1]} $# $(umask)\"; kill -USR1 $$"),
            "it's 1 2 3 2 0027\nt\n",
            "{end}"
        );
    }
}

#[test]
fn line_numbers_and_status_are_the_commands_own() {
    let mut session = Session::default();
    assert_eq!(session.run("(exit 7)").status.code(), Some(7));
    assert_eq!(session.prints("echo $? $LINENO\necho $LINENO"), "7 1\n2\n");
    let output = session.run("echo a\nfi");
    assert_eq!(output.stdout, b"a\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2: syntax error"));
}

#[test]
fn options_that_act_on_text_act_on_the_command_alone() {
    let mut session = Session::default();
    session.run("trap 'echo d' DEBUG; set -x");
    let output = session.run("echo one");
    assert_eq!(output.stdout, b"d\none\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().last(), Some("++ echo one"));
}

#[test]
fn the_users_exit_trap_runs_once_and_sees_the_status() {
    let mut session = Session::default();
    assert_eq!(session.prints("trap 'echo bye $?' EXIT"), "");
    assert_eq!(session.prints("echo on"), "on\n");
    let output = session.run("x=1; exit 5");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"bye 5\n"[..], Some(5)));
    assert_eq!(session.prints("echo $x; exit"), "1\nbye 0\n");
}

#[test]
fn a_refused_line_changes_nothing() {
    let mut session = Session::default();
    session.run("x=1; trap 'echo d >/dev/null' DEBUG");
    assert_ne!(session.run("x=2; fi").status.code(), Some(0));
    assert_eq!(session.prints("echo $x; trap -p DEBUG"), "1\ntrap -- 'echo d >/dev/null' DEBUG\n");
}

#[test]
fn words_are_not_expanded() {
    let plan = Plan::default();
    let script = command(&plan, &Command::Argv(vec![b"echo".to_vec(), b"$HOME *'".to_vec()]));
    assert!(script.ends_with(b"\\builtin command -- 'echo' '$HOME *'\\'''\n\0"));
    assert!(std::ffi::OsStr::from_bytes(&script).len() > 100);
}
