//! A command that would end an ordinary shell ends only itself: its state persists, but none of its frames.

use crate::host::{self, Ran, Session};
use nacre_protocol::shell::DoneFlags;

const LIBRARY: &str = "lf(){ local q=1; false; echo no; }\nlx(){ exit 6; }\nlf2(){ lf; } 9>nine\n";

/// Prints everything that a frame left behind would change.
const STATE: &str = r#"set +u; echo "v=$v q=${q-unset} # $# args $* fn ${#FUNCNAME[@]} src ${#BASH_SOURCE[@]} ln ${#BASH_LINENO[@]} IFS ${#IFS}"
for fd in /proc/$$/fd/*; do [[ -e $fd ]] && printf "%s " "${fd##*/}"; done"#;
const CLEAN: &str = "v=2 q=unset # 2 args a b c fn 0 src 0 ln 0 IFS 3\n0 1 2 240 ";

struct Case {
    setup: &'static str,
    command: &'static str,
    code: i32,
    output: Option<&'static str>,
}

fn case(setup: &'static str, command: &'static str, code: i32) -> Case {
    Case { setup, command, code, output: None }
}

fn with_output(setup: &'static str, command: &'static str, code: i32, output: &'static str) -> Case {
    Case { setup, command, code, output: Some(output) }
}

fn check(cases: Vec<Case>) {
    let mut failures = Vec::new();
    for Case { setup, command, code, output } in cases {
        let mut session = Session::start();
        std::fs::write(session.path().join("lib.sh"), LIBRARY).unwrap();
        session.run(&format!("v=1; set -- a 'b c'; {setup}"));
        let ran = session.run(&format!("v=2;{command}"));
        let state = session.output(STATE);
        let good = ran.code == code && state == CLEAN && output.is_none_or(|output| ran.out == output);
        if !good || !session.run("exit 3").has(DoneFlags::EXITED) {
            failures.push(format!("{setup} | {command}: {ran:?}, then {state:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

const BYE: &str = "trap 'echo bye' EXIT";

#[test]
fn exit_unwinds_functions_redirections_and_loops() {
    check(vec![
        case("", "f(){ local q=3 IFS=:; g x y z; }; g(){ set -- 1 2 3 4; exit 5; }; f 1", 5),
        case("", "f(){ local q=3; { exit 5; } 8>/dev/null; }; f 1 7>/dev/null 6<&0", 5),
        case("", ". ./lib.sh; echo lx >x.sh; . ./x.sh 1 2 3", 6),
        case("", "while read x; do exit 4; done </etc/passwd", 4),
        case("", "for i in 1 2; do case $i in 1) if true; then until false; do exit 4; done; fi; esac; done", 4),
        case("shopt -s lastpipe", "echo a | while read x; do exit 4; done", 4),
        case("", "f(){ exit 4; }; q=7 IFS=: f", 4),
        case("", "q=7 eval 'exit 4'", 4),
        case("", "command exit 4", 4),
        case("", "x=$(exit 3); : ${y:=$(exit 2)}; (( 1 )) && exit 4", 4),
        case("", "cat < <(echo) >/dev/null; exit 4", 4),
        case("", "f(){ exit 4; }; mapfile -C f -c 1 arr < <(seq 5); echo no", 4),
        case("", ". /dev/stdin <<'E'\nf(){ local q=1; exit 4; }\nf\nE", 4),
        case("", "f(){ local -; set -f; local q=3; exit 4; }; f", 4),
        case("", "f(){ local OPTIND=1 q=1; getopts ab o -a -b; exit 4; }; f", 4),
    ]);
}

#[test]
fn exit_runs_the_exit_trap_and_keeps_it() {
    check(vec![
        with_output(BYE, "f(){ local q=3 IFS=:; exit 5; }; f 1 7>/dev/null", 5, "bye\n"),
        with_output(BYE, "f(){ local q=3; eval 'exit 5'; }; f 1", 5, "bye\n"),
        with_output(BYE, "f(){ local q=3 IFS=:; exit 5; }; eval 'f 1'", 5, "bye\n"),
        with_output(BYE, "f(){ local q=3; exit 5; }; eval 'f 1 8</dev/null'", 5, "bye\n"),
        with_output(BYE, ". ./lib.sh; echo lx >x.sh; f(){ local q=3; . ./x.sh 1 2 3; }; f", 6, "bye\n"),
        case("shopt -s lastpipe; trap 'echo bye' EXIT", "f(){ local q=3; exit 4; }; echo a | f 7</dev/null", 4),
        case("trap 'exit 7' EXIT", "f(){ local q=3; exit 3; }; f", 7),
    ]);
    let mut session = Session::start();
    session.run("trap 'echo bye $?; v=9' EXIT");
    let ran = session.run("echo a; exit 3");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (3, "a\nbye 3\n", ""));
    assert!(session.output("echo $v; trap -p EXIT").starts_with("9\ntrap -- 'echo bye"));
    assert_eq!(session.output("(echo sub); x=$(echo y); echo a | cat; { echo bg; } & wait"), "sub\na\nbg\n");
}

#[test]
fn exit_in_other_traps_ends_the_command() {
    check(vec![
        case("trap 'exit 4' USR1", "f(){ local q=3; kill -USR1 $$; sleep .01; echo no; }; f 1", 4),
        case(
            "",
            "trap '[[ $BASH_COMMAND == boom ]] && { trap - DEBUG; exit 4; }' DEBUG; f(){ local q=3; boom; }; set -o functrace; f",
            4,
        ),
        case("trap 'exit 4' ERR", "f(){ local q=3; false; }; set -E; f", 4),
        case("", "f(){ local q=3; trap 'trap - RETURN; exit 4' RETURN; }; f", 4),
    ]);
}

#[test]
fn errexit_unwinds_even_where_bash_drops_frames() {
    check(vec![
        case("", "set -e; f(){ local q=3; false; }; f 1; echo no", 1),
        case("", "set -e; f(){ local q=3; g 7>/dev/null; }; g(){ local IFS=:; false; } 8>/dev/null; f 1", 1),
        case("", "set -e; f(){ local q=3; false; }; eval 'f 1'", 1),
        case("", "set -e; . ./lib.sh; echo lf >x.sh; . ./x.sh", 1),
    ]);
    let mut session = Session::start();
    session.run("trap 'echo ERR' ERR; set -e");
    assert!(session.run("f(){ false; }; eval f").has(DoneFlags::FRAMES_DISCARDED));
    assert_eq!(session.output("trap -p ERR; false"), "trap -- 'echo ERR' ERR\nERR\n");
    assert!(!session.run("f(){ false; }; f").has(DoneFlags::FRAMES_DISCARDED));
    assert_eq!(session.output("trap -p ERR; false"), "trap -- 'echo ERR' ERR\nERR\n");
}

#[test]
fn expansion_errors_have_the_status_of_bash() {
    check(vec![
        case("", "f(){ local q=3; : ${nope:?}; }; f 1 7>/dev/null", 127),
        case("", "set -u; f(){ local q=3; : $nope; }; f 1 7>/dev/null", 127),
        case("", "set -u; f(){ local q=3; eval ': $nope'; }; f 1 7>/dev/null", 127),
        case("", "f(){ local q=3; : $((1/0)); }; f 1 7>/dev/null", 1),
        case("", "readonly ro=1; f(){ local q=3; ro=2; }; f 1 7>/dev/null", 1),
        case(BYE, "f(){ local q=3; : ${a b}; }; f 1 7>/dev/null", 1),
        case("", "f(){ local q=3; eval 'if then'; return 4; }; f", 4),
    ]);
}

#[test]
fn a_failing_exec_leaves_the_shell() {
    check(vec![
        case("", "exec /proc/nonexistent", 127),
        case("", "f(){ local q=3; exec /proc/nonexistent; }; f 1 8>/dev/null", 127),
        case("", "exec /tmp", 126),
        case(BYE, "f(){ local q=3; eval 'exec /proc/nonexistent'; }; f 1", 127),
    ]);
}

#[test]
fn a_failing_exec_keeps_all_traps() {
    let mut session = Session::start();
    session.run("trap 'echo bye' EXIT; trap 'echo usr1' USR1; trap 'echo \"i n t\"' INT; trap 'echo term' TERM");
    session.run("trap '' USR2 QUIT; trap : CHLD; trap 'echo no' HUP; trap - HUP; trap 'echo err' ERR; trap '' RETURN");
    let before = session.output("trap -p");
    for command in [
        "exec /proc/nonexistent",
        "f(){ trap 'echo err' ERR; exec /proc/nonexistent; }; f",
        "trap 'echo two' USR1; (trap - INT); exec /proc/nonexistent",
    ] {
        let ran = session.run(command);
        assert_eq!((ran.code, ran.out.as_str()), (127, ""), "{command}: {}", ran.err);
        let expected = if command.contains("two") { before.replace("usr1", "two") } else { before.clone() };
        assert_eq!(session.output("trap -p"), expected, "{command}");
    }
    let ran = session.run("kill -USR1 $$; kill -USR2 $$; kill -QUIT $$; kill -INT $$; kill $$; exit 3");
    assert_eq!((ran.code, ran.out.as_str()), (3, "two\ni n t\nterm\nbye\n"));
    assert_eq!(session.run("kill -HUP $$; echo no").code, 129);
    session.run("trap - EXIT USR1 INT TERM USR2 QUIT CHLD ERR RETURN");
    assert_eq!(session.run("exec /proc/nonexistent").code, 127);
    assert_eq!(session.output("trap -p"), "");
}

#[test]
fn terminating_signals_end_the_command() {
    check(vec![
        with_output("", "f(){ local q=3; kill $$; echo no; }; f 1 7>/dev/null", 143, ""),
        with_output("", "kill -HUP $$; echo no", 129, ""),
        with_output("", "kill -INT $$; echo no", 130, ""),
        with_output(BYE, "kill $$; echo no", 143, "bye\n"),
        with_output("trap : USR1; trap - USR1", "kill -USR1 $$; echo no", 138, ""),
    ]);
    let ran = Session::start().run("kill $$");
    assert_eq!((ran.signal, ran.has(DoneFlags::EXITED | DoneFlags::SIGNALED)), (15, true));
}

#[test]
fn a_line_after_an_error_still_runs_as_with_bash_c() {
    let mut session = Session::start();
    let text = "echo a $((1/0)); echo no\necho after $?";
    let plain = std::process::Command::new(host::process::bash()).args(["-c", text, "bash"]).output().unwrap();
    let Ran { code, out, err, flags, .. } = session.run(text);
    assert_eq!(flags, DoneFlags::default());
    assert_eq!((code, out.as_bytes()), (0, &plain.stdout[..]));
    assert!(session.is_version("5.0") || err.as_bytes() == plain.stderr);
    let ran = session.run("declare -i x=1-; echo no\necho no");
    assert_eq!((ran.code, ran.out.as_str(), ran.flags), (1, "", DoneFlags::default()));
    assert_eq!(session.output("echo on"), "on\n");
}
