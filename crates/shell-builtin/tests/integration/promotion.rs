//! A standby replaces a dead shell, with the state from the moment when it was forked.

use crate::host::process::Process;
use crate::host::{self, Session};
use nacre_containment::descent_mark;
use nacre_containment::pid::Pid;
use nacre_protocol::shell::RequestFlags;

#[test]
fn a_promoted_standby_is_the_shell() {
    let mut session = Session::start();
    session.always_standby = true;
    session.run("v=1; f(){ echo F; }; trap 'echo U' USR1; exec 6>p6; alias x=y; set -- 1 2 3");
    let died = session.run("kill -9 $$");
    assert_eq!((died.code, died.promoted), (137, true));
    let seen = session.run(
        "[[ $$ == $BASHPID ]] && echo same; [[ $PPID == $(ps -o ppid= -p $$ | tr -d ' ') ]] && echo ppid; f; kill -USR1 $$
         echo $v $# $BASH_SUBSHELL; echo z >&6; cat p6; sleep .05 & wait $!; echo w $?; jobs; exit 3",
    );
    assert_eq!((seen.code, seen.err.as_str()), (3, ""));
    assert_eq!(seen.out, "same\nppid\nF\nU\n1 3 0\nz\nw 0\n");
    assert_eq!(session.run("kill $$").code, 143);
    assert_eq!(session.run("kill -9 $$").code, 137);
    assert_eq!(session.output("echo $v"), "1\n");
}

/// The name of a process, and its arguments.
fn names(pid: i32) -> [String; 2] {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    [read("comm").trim().into(), read("cmdline").trim_end_matches('\0').replace('\0', " ")]
}

#[test]
fn only_a_standby_has_a_name_of_its_own() {
    let mut session = Session::start();
    let shell = names(session.shell.pid);
    assert!(shell[1].starts_with("bash --norc --noprofile -c "), "{shell:?}");
    for _ in 0..2 {
        session.renew_standby();
        let standby = session.standby.as_ref().unwrap().pid;
        assert_eq!(names(standby), ["nacre-standby", "nacre-standby"]);
        assert_eq!(names(session.shell.pid), shell);
        let own = "cat /proc/$$/comm; tr '\\0' ' ' </proc/$$/cmdline; :";
        assert_eq!(session.run_background(own), (0, format!("{}\n{} ", shell[0], shell[1])));
        assert!(session.run("kill -9 $$").promoted);
        // What has killed the shell may still run.
        session.renew_standby();
        assert_eq!(names(session.shell.pid), ["nacre-standby", "nacre-standby"]);
        assert_eq!(session.run_background(own), (0, format!("{}\n{} ", shell[0], shell[1])));
        session.run(":");
        assert_eq!(names(session.shell.pid), shell);
    }
    // A command may name its shell, as root.
    session.run("echo mine 2>/dev/null >/proc/$$/comm");
    let named = names(session.shell.pid);
    session.renew_standby();
    session.run("kill -9 $$");
    session.run(":");
    assert_eq!(names(session.shell.pid), named);
}

#[test]
fn job_control_goes_on_after_a_promotion() {
    let mut session = Session::start();
    session.run("set -m; v=1");
    session.renew_standby();
    session.run("kill -9 $$");
    assert_eq!(
        session.output("sleep .01 & wait $!; echo $? $v; jobs; (exit 4); echo $?; true | false; echo $?"),
        "0 1\n4\n1\n"
    );
}

#[test]
fn exec_of_a_program_ends_the_shell_with_its_status() {
    let mut session = Session::start();
    session.run("v=1");
    session.renew_standby();
    let ran = session.run("v=2; exec sh -c 'echo ran; exit 5'");
    assert_eq!((ran.code, ran.out.as_str(), ran.promoted), (5, "ran\n", true));
    assert_eq!(session.output("echo $v"), "1\n");
}

#[test]
fn a_standby_is_not_disturbed_by_signals() {
    let mut session = Session::start();
    session.run("v=1; trap 'v=trapped' USR1; trap 'v=ended; exit 9' TERM");
    session.renew_standby();
    let standby = session.standby.as_ref().unwrap();
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, 33] {
        standby.signal(signal);
    }
    assert_eq!(session.run("kill -9 $$").code, 137);
    // bash 5.0 cannot forget a trapped signal.
    assert!(session.is_version("5.0") || session.output("echo $v") == "1\n");
}

#[test]
fn a_stopped_shell_can_be_replaced() {
    let mut session = Session::start();
    session.renew_standby();
    let running = session.begin(nacre_protocol::shell::Request::run(0, b"kill -STOP $$; echo on"));
    let ran = session.finish(
        running,
        |shell| {
            shell.signal(libc::SIGKILL);
            host::LIMIT
        },
        std::time::Duration::from_millis(100),
    );
    assert_eq!((ran.code, ran.promoted), (137, true));
    assert_eq!(session.output("echo on"), "on\n");
}

#[test]
fn many_promotions_in_a_row_keep_state_and_descriptors() {
    let mut session = Session::start();
    session.run("v=0; f(){ echo F; }; set -- 1 2");
    for round in 1..=60 {
        session.run("((v++)); :");
        session.renew_standby();
        assert_eq!(session.run("kill -9 $$").code, 137);
        assert_eq!(session.output("echo $v $# $BASH_SUBSHELL; f"), format!("{round} 2 0\nF\n"));
        assert!(session.shell.has_open(&[240]));
    }
}

#[test]
fn a_standby_ends_with_its_channel() {
    let mut session = Session::start();
    session.renew_standby();
    session.standby.take().unwrap().end();
}

#[test]
fn a_standby_holds_no_end_of_a_pipe() {
    let mut session = Session::start();
    session.run("exec 7> >(cat >/dev/null); exec 8>/dev/null");
    session.renew_standby();
    let begun = std::time::Instant::now();
    while !session.standby.as_ref().unwrap().has_open(&[8, 240]) {
        assert!(begun.elapsed() < host::LIMIT);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn each_standby_has_a_mark_of_its_own_of_the_same_supervisor() {
    let mut session = Session::start();
    let pid = |raw| Pid::new(raw).unwrap();
    let (supervisor, shell) = (pid(std::process::id().cast_signed()), pid(session.shell.pid));
    descent_mark::give(shell, descent_mark::fresh(supervisor)).unwrap();
    let mark = |pid| descent_mark::of(pid, supervisor).unwrap();
    let standbys = [(); 2].map(|()| session.fork(false, RequestFlags::STANDBY, &[]));
    standbys.iter().for_each(Process::wait_until_asleep);
    let [first, second] = standbys.map(|standby| (mark(pid(standby.pid)), standby.end()).0);
    assert!(first.is_some() && second.is_some() && first != second);
    assert!(mark(shell).is_some_and(|own| Some(own) != first && Some(own) != second));
}
