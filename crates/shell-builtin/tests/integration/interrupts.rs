//! The interrupt ends a command whatever it does, and keeps the changes it has made.

use crate::host::{self, Ran, Session};
use nacre_protocol::shell::{DoneFlags, Request};
use std::time::Duration;

const AFTER: Duration = Duration::from_millis(60);

/// Interrupts each text in its own session, which must continue with the variable and directory that the text set.
fn check(texts: &[&str]) {
    let mut failures = Vec::new();
    for text in texts {
        let mut session = Session::start();
        session.run("mkfifo fifo; exec 9<>fifo; v=8; sleep 1000 & bg=$!");
        session.renew_standby();
        let ran = session.run_interrupted(&format!("v=9; cd /usr; {text}"), AFTER);
        let state = session.output("trap - EXIT DEBUG; echo $v $PWD ${z-} ${#FUNCNAME[@]} $-");
        let interrupted = ran.has(DoneFlags::EXITED | DoneFlags::INTERRUPTED) && ran.code == 143 && !ran.promoted;
        if !interrupted || !state.starts_with("9 /usr 0 ") || ran.err.contains("Terminated") {
            failures.push(format!("{text}: {ran:?}, then {state:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn programs_and_pipelines() {
    check(&[
        "sleep 100",
        "sleep 100 | cat | cat",
        "while :; do /bin/true; done",
        "sleep 100; echo NEXT",
        "( while :; do :; done )",
        "x=$(sleep 100)",
        "cat <(sleep 100)",
        "set -e; sleep 100",
    ]);
}

#[test]
fn loops_of_builtins() {
    check(&[
        "while :; do :; done",
        "for((;;)); do :; done",
        "until false; do false; done",
        "f(){ g; }; g(){ local z; while :; do :; done; }; f",
        "eval \"eval 'while :; do :; done'\"",
        "echo {1..50000000} >/dev/null",
        "f(){ f; }; f",
    ]);
}

#[test]
fn waiting_for_files() {
    check(&[
        "read x <&9",
        "cat <&9",
        "exec 8<new; mkfifo $OLDPWD/new; exec 8<$OLDPWD/new",
        "mkfifo $OLDPWD/new; { echo a; } <$OLDPWD/new",
        "read -t 100 x <&9",
        "select i in a b; do :; done <&9",
        "mapfile a <&9",
        "read x < <(sleep 100)",
    ]);
}

#[test]
fn waiting_for_jobs() {
    check(&[
        "sleep 100 & wait",
        "f(){ local v=3; sleep 100 & wait; }; f",
        "sleep 100 & sleep 200 & wait -n",
        "coproc cat; wait",
    ]);
}

#[test]
fn traps() {
    check(&[
        "trap '' INT TERM; while :; do :; done",
        "trap '' {1..64} 2>/dev/null; while :; do :; done",
        "trap 'sleep 100' USR1; kill -USR1 $$; echo",
        "trap 'while :; do :; done' USR1; kill -USR1 $$; echo",
        "trap '[[ $y ]] || { y=1; while :; do :; done; }' DEBUG; echo",
        "trap 'sleep 100' EXIT; exit 3",
    ]);
}

#[test]
fn the_exit_trap_runs() {
    let mut session = Session::start();
    session.run("trap 'echo bye' EXIT");
    let ran = session.run_interrupted("sleep 100", AFTER);
    assert_eq!((ran.code, ran.out.as_str()), (143, "bye\n"));
    assert_eq!(session.run("exit 3").out, "bye\n");
}

#[test]
fn a_child_that_ignores_sigterm_is_killed() {
    let mut session = Session::start();
    let ran = session.run_interrupted("v=9; bash -c 'trap \"\" TERM; while :; do sleep 1; done'", AFTER);
    assert_eq!((ran.code, ran.promoted), (143, false));
    assert_eq!(session.output("echo $v"), "9\n");
}

#[test]
fn a_shell_that_cannot_be_interrupted_is_replaced() {
    let mut session = Session::start();
    session.run("v=8");
    session.renew_standby();
    let Ran { code, promoted, .. } =
        session.run_interrupted("v=9; printf -v q '%0*d' 900000000 1; while :; do :; done", AFTER);
    assert!(code == 137 && promoted || code == 143);
    assert_eq!(session.output("echo $v"), if promoted { "8\n" } else { "9\n" });
}

#[test]
fn an_interrupt_between_commands_does_nothing() {
    let mut session = Session::start();
    for _ in 0..200 {
        session.shell.signal(33);
        session.shell.signal(libc::SIGTERM);
        assert_eq!(session.output("echo a; /bin/echo b"), "a\nb\n");
        std::thread::sleep(Duration::from_micros(200));
        session.shell.signal(33);
    }
}

#[test]
fn an_interrupt_at_any_moment_leaves_a_whole_shell() {
    let mut session = Session::start();
    session.run(
        "v=1; set -- a b; f(){ local i; for i in {1..50}; do g $i; done; }; g(){ local a=($1 $1); : \"${a[@]}\"; }",
    );
    let texts = [
        "while :; do f; done",
        "while :; do x=$(echo hi); done",
        "while :; do : | :; done",
        "while :; do { :; } >/dev/null 7>&1; done",
    ];
    for round in 0..120 {
        let running = session.begin(Request::run(0, texts[round % texts.len()].as_bytes()));
        let delay = Duration::from_micros(37 * (round as u64 % 40));
        let mut step = 0;
        let interrupt = |shell: &host::process::Process| {
            shell.signal(33);
            step += 1;
            if step > 20 {
                shell.signal_children(libc::SIGKILL, &[]);
            }
            Duration::from_millis(5)
        };
        let ran = session.finish(running, interrupt, delay);
        assert!(!ran.promoted, "round {round}");
        let state = session.run("echo $v $# ${#FUNCNAME[@]}");
        assert_eq!(state.out, "1 2 0\n", "round {round}: {ran:?} {state:?}");
        // bash 5.0 itself leaves the pipe of an interrupted substitution open.
        assert!(session.is_version("5.0") || session.shell.has_open(&[240]), "round {round}");
    }
}

/// `cd` changes the directory before the two variables that name it.
#[test]
fn cd_leaves_directory_and_names_in_agreement() {
    let mut session = Session::start();
    session.run("mkdir one two; root=$PWD");
    for round in 0..200 {
        let delay = Duration::from_micros(300 + round * 7 % 1000);
        // On a busy machine the interrupt may arrive before the first `cd` of the loop.
        session.run("cd $root/one; cd $root/two");
        session.run_interrupted("while :; do cd ../one; cd ../two; done", delay);
        let found = session.output("echo ${PWD##*/} ${OLDPWD##*/}; /bin/pwd -P | sed 's:.*/::'");
        assert!(found == "one two\none\n" || found == "two one\ntwo\n", "round {round}: {found:?}");
    }
}

#[test]
fn text_for_a_file_never_reaches_the_output() {
    let mut session = Session::start();
    for round in 0..300 {
        let delay = Duration::from_micros(300 + round * 7 % 1000);
        let ran = session.run_interrupted("while :; do echo text >>file; printf '%s' text >>file; done", delay);
        assert_eq!(ran.out, "", "round {round}");
    }
}
