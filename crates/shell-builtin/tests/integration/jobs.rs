//! Jobs within a command behave as with `bash -c` of the same version: listed, waited for and reported alike.

use crate::host::{self, Session};
use std::process::Command;

/// The output of `bash -c`.
fn plain(text: &str) -> (String, String) {
    let out = Command::new(host::process::bash()).args(["--norc", "--noprofile", "-c", text, "bash"]).output().unwrap();
    (comparable(&String::from_utf8_lossy(&out.stdout)), comparable(&String::from_utf8_lossy(&out.stderr)))
}

/// The text without pids. Bash pads them, so the blanks before a pid depend on its length.
fn comparable(text: &str) -> String {
    let is_pid = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        while is_pid(word) && words.last() == Some(&"") {
            words.pop();
        }
        words.push(if is_pid(word) { "PID" } else { word });
    }
    words.join(" ")
}

/// Compares the output with that of `bash -c`. A job that is to be listed must not end at once: bash marks it as the current one
/// only if it still runs when its number is given.
fn check(texts: &[&str]) {
    let mut failures = Vec::new();
    for text in texts {
        let ran = Session::start().run(text);
        let (found, expected) = ((comparable(&ran.out), comparable(&ran.err)), plain(text));
        if found != expected {
            failures.push(format!("{text}\n  {found:?}\n  instead of {expected:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_job_that_was_waited_for_counts_as_with_bash_c() {
    check(&[
        "sleep .3 & sleep .1 &\nwait; echo $?\n(exit 5) & wait -n; echo $?\nwait -n; echo $?\nwait; echo $?",
        "(sleep .1; exit 3) & p=$!; sleep .3; wait; jobs; wait -n; echo $?; wait $p; echo $?",
        "(exit 3) & sleep .1\ntrue\n(exit 5) & sleep .1\nwait -n; echo $?; wait -n; echo $?",
        "f(){ (exit 3) & sleep .1; wait -n; echo $?; }; f; wait -n; echo $?",
        "eval '(exit 3) & sleep .1'; eval 'wait -n; echo $?'; jobs",
    ]);
}

#[test]
fn ended_jobs_are_listed_as_with_bash_c() {
    check(&[
        "(sleep .1; exit 3) & sleep .3; jobs; echo; jobs",
        "(sleep .1; exit 3) & sleep .3\njobs\necho\njobs",
        "sleep .1 & sleep .2; /bin/true; jobs; echo $?",
        "{ sleep .1; exit 3; } & p=$!; sleep .2; : ; jobs; wait $p; echo $?",
        "sleep .1 | (exit 4) & sleep .2; jobs; wait $!; echo $?",
        "sh -c 'kill -SEGV $$' & sleep .2; jobs | sed 's/ (core dumped)//'; echo on",
    ]);
}

#[test]
fn notices_appear_as_with_bash_c() {
    check(&[
        "set -m; sleep .1 & sleep .2; echo a; sleep .1 & wait; echo b\necho c",
        "set -m; sleep 5 & kill -STOP %1; sleep .2; echo a\necho b; kill -KILL %1; sleep .2; echo c\necho d",
        "set -m; (sleep .1; exit 3) & sleep .3; for i in 1 2; do /bin/true; echo $i; done; jobs",
        "set -m\n{ sleep .1; exit 3; } &\nfg >/dev/null; echo $?\ntrue\njobs",
    ]);
}

#[test]
fn what_comes_last_does_not_replace_the_shell() {
    let mut session = Session::start();
    let texts = [
        "/bin/true",
        "true; /bin/true",
        "true && /bin/echo a",
        "eval /bin/true",
        "eval 'true; /bin/true'",
        "eval 'true && /bin/true'",
        "eval 'eval /bin/true'",
        "f(){ /bin/true; }; f",
        "f(){ true && /bin/true; }; eval f",
        "echo /bin/true >x.sh; . ./x.sh",
        "echo 'true && /bin/true' >x.sh; . ./x.sh",
        "trap /bin/true USR1; kill -USR1 $$; trap - USR1",
        "trap 'true && /bin/true' EXIT; exit",
        "trap 'true && /bin/true' EXIT; kill $$",
        "trap /bin/true EXIT; eval exit",
        "trap - EXIT; trap '/bin/true; /bin/true' DEBUG; /bin/true; trap - DEBUG",
        "trap /bin/true ERR; false; trap - ERR",
        "set -e; eval /bin/false",
        "set +e; : $((1/0))\neval /bin/true",
        "mapfile -C '/bin/true' -c 1 a < <(echo; echo)",
        "echo $(/bin/true) <(/bin/true) >/dev/null; (eval /bin/true)",
        "exec /proc/nonexistent",
        "eval /bin/true",
    ];
    for text in texts {
        let ran = session.run(text);
        assert!(!ran.promoted, "{text}: {ran:?}");
    }
    let pid = session.shell.pid;
    assert_eq!(session.output("echo $$"), format!("{pid}\n"));
}
