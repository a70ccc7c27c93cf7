//! DONE reports which forks of a command live: those for jobs, and process substitutions.

use crate::host::Session;
use nacre_protocol::shell::DoneFlags;

fn check(text: &str, expected: DoneFlags) {
    let mut session = Session::start();
    let flags = session.run(text).flags & (DoneFlags::ONLY_JOBS | DoneFlags::SUBSTITUTED);
    assert_eq!(flags, expected, "{text}");
}

#[test]
fn jobs_that_live_are_reported_if_nothing_else_was_forked() {
    let jobs = [
        "sleep 60 >/dev/null &",
        "{ sleep 60; sleep 60; } >/dev/null & echo $!",
        "f() { sleep 60 & }; f; f",
        "sleep 60 | cat &",
        "exec sleep 60 2> >(cat) & true",
        "coproc sleep 60",
    ];
    for text in jobs {
        check(text, DoneFlags::ONLY_JOBS);
    }
    let others = [
        "sleep 0 & sleep 60 & wait %1",
        "true",
        "/bin/true",
        "sleep 60 & /bin/true",
        "sleep 0 & wait",
        "x=$(true); sleep 60 &",
    ];
    for text in others {
        check(text, DoneFlags::default());
    }
}

#[test]
fn substitutions_that_live_are_reported() {
    let living = [
        ": > >(sleep 60)",
        "sleep 60 & : > >(sleep 60); echo",
        "exec 3> >(cat)",
        "f() { : > >(sleep 60); }; f; f",
        "for i in {1..20}; do : > >(:); done",
    ];
    for text in living {
        check(text, DoneFlags::SUBSTITUTED);
    }
    // The fork that becomes the program makes the last one.
    for text in [": > >(:); wait $!", "cat <(echo a)", "/bin/true > >(sleep 60)"] {
        check(text, DoneFlags::default());
    }
}
