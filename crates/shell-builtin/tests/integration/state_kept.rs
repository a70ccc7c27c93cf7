//! STATE_KEPT is set only for commands that are known to change nothing.

use crate::host::Session;
use nacre_protocol::shell::{DoneFlags, RequestFlags};

fn keeps(session: &mut Session, text: &str) -> bool {
    session.run(text).has(DoneFlags::STATE_KEPT)
}

fn check(expected: bool, texts: &[&str]) {
    let mut session = Session::start();
    for text in texts {
        assert_eq!(keeps(&mut session, text), expected, "{text}");
    }
}

#[test]
fn programs_and_harmless_builtins_keep_it() {
    check(
        true,
        &[
            "true",
            "ls -d / >/dev/null 2>&1",
            "exit 3",
            "echo hi | cat",
            "ls | while read x; do v=1; done",
            "! false",
            "echo a && echo b || echo c; false",
            "awk '{print $1}' </dev/null",
            "printf '%s\\n' x",
            "echo \"a b\" >/dev/null",
            "( cd /; x=1 )",
            "no-such-command CC=gcc",
            "cat <<E\nabc\nE",
            "echo *",
            "echo {a,b}",
            "time /bin/true",
            "pwd",
            "cat <<<abc",
            "/bin/echo ~",
            ":",
            "printf %d 5",
            "echo '$x `y`'",
            "/bin/true 2>&- <&-",
        ],
    );
}

#[test]
fn anything_else_changes_it() {
    check(
        false,
        &[
            "x=1",
            "cd /",
            "echo $x",
            "echo `ls`",
            "{eval,x=5}",
            "'eval' x=1",
            "\\eval x=1",
            "printf -v x a",
            "printf '%n' x",
            "printf '%5ln' x",
            "printf \"%\"\"n\" x",
            "printf \"-v\" x a",
            "printf \\-v x",
            "printf '%'n x",
            "printf {-v,x} a",
            "echo \"${x:=1}\"",
            "echo $((i++))",
            "sleep 0 &",
            "f(){ :; }",
            "if true; then x=1; fi",
            "exec 5>/dev/null",
            ". /dev/null",
            "read x </etc/passwd",
            "echo a {q}>/dev/null",
            "cat <(ls)",
            "kill -USR1 $$",
            "if then",
            "A=1 ls",
            "umask 022",
            "true; x=1",
            "cat <<<$((i++))",
            "cat <<E\n$((i++))\nE",
            "{ x=1; }",
            "builtin cd /",
            "command cd /",
            "printf * x",
            "[ -v 'a[1]' ]",
            "wait",
            "coproc cat",
            "ulimit -c 0",
            "shopt -s extglob",
            "for x in 1; do :; done",
            "((i=1))",
            "[[ a =~ a ]]",
        ],
    );
}

#[test]
fn what_the_session_defines_counts() {
    let mut session = Session::start();
    let mut check = |setup: &str, text: &str, expected: bool, undo: &str| {
        session.run(setup);
        assert_eq!(keeps(&mut session, text), expected, "{setup} | {text}");
        session.run(undo);
    };
    check("shopt -s lastpipe", "echo | read x", false, "shopt -u lastpipe");
    check("f(){ x=1; }", "f", false, "unset -f f");
    check("echo(){ x=1; }", "echo", false, "unset -f echo");
    check("shopt -s expand_aliases; alias q='x=1'", "q", false, "unalias q");
    check("trap : USR1", "true", false, "trap - USR1");
    check("trap : EXIT", "exit 3", false, "trap - EXIT");
    check("trap : DEBUG", "true", false, "trap - DEBUG");
    check("set -x; PS4='$((i++))'", "true", false, "set +x");
    check("set -k", "echo a=1", false, "set +k");
    check("set -m", "true", false, "set +m");
    check("set -e", "false", false, "set +e");
    check("enable -n echo", "echo a", true, "enable echo");
    check("", "true", true, "");
}

#[test]
fn a_scope_that_is_undone_exactly_keeps_it() {
    let mut session = Session::start();
    assert!(session.run_in("/usr", "A=1\0PATH=/bin\0", "/bin/true").has(DoneFlags::STATE_KEPT));
    assert!(!session.run_in("", "LC_ALL=C\0", "true").has(DoneFlags::STATE_KEPT));
    assert!(!session.run_in("", "POSIXLY_CORRECT=1\0", "true").has(DoneFlags::STATE_KEPT));
}

#[test]
fn words_are_judged_like_texts() {
    let mut session = Session::start();
    let mut keeps = |words: &[u8]| session.run_with(RequestFlags::ARGV, words).has(DoneFlags::STATE_KEPT);
    assert!(keeps(b"echo\0$x\0`y`\0"));
    assert!(keeps(b"/bin/true\0"));
    assert!(!keeps(b"cd\0/\0"));
    assert!(!keeps(b"printf\0-v\0x\0a\0"));
    assert!(!keeps(b"printf\0%n\0x\0"));
}

#[test]
fn a_trap_that_ran_between_commands_changes_it() {
    let mut session = Session::start();
    session.run("trap 'trap - USR1; x=1' USR1");
    session.shell.signal(libc::SIGUSR1);
    assert!(!keeps(&mut session, "true"));
    assert_eq!(session.output("echo $x"), "1\n");
    assert!(keeps(&mut session, "true"));
}
