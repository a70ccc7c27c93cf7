//! Memory and descriptors stay flat over many commands.

use crate::host::Session;

fn growth_kib(setup: &str, command: &str, rounds: usize) -> i64 {
    let mut session = Session::start();
    session.run(setup);
    (0..500).for_each(|_| drop(session.run(command)));
    let before = session.shell.resident_kib();
    (0..rounds).for_each(|_| drop(session.run(command)));
    assert!(session.shell.has_open(&[240]), "{command}");
    session.shell.resident_kib() - before
}

#[test]
fn exits_in_nested_functions_leak_nothing() {
    let setup = "f(){ local a=1 IFS=:; g 1 2; }; g(){ { exit 3; } 7>/dev/null; }";
    assert!(growth_kib(setup, "f", 10_000) < 200);
}

#[test]
fn scopes_leak_nothing() {
    let mut session = Session::start();
    let run = |session: &mut Session, times: usize| {
        (0..times).for_each(|_| drop(session.run_in("/usr", "A=1\0PATH=/bin\0", ":")))
    };
    run(&mut session, 500);
    let before = session.shell.resident_kib();
    run(&mut session, 5_000);
    assert!(session.shell.resident_kib() - before < 200);
}

#[test]
fn other_ends_leak_little() {
    for (setup, command) in
        [("f(){ local a=1; : $((1/0)); }", "f"), ("", "kill $$; echo"), ("trap : EXIT", "exit 3"), ("", "if then")]
    {
        assert!(growth_kib(setup, command, 2_000) < 400, "{command}");
    }
}

#[test]
fn standbys_leave_nothing_behind() {
    let mut session = Session::start();
    session.run("v=1");
    (0..50).for_each(|_| session.renew_standby());
    let before = session.shell.resident_kib();
    (0..300).for_each(|_| session.renew_standby());
    assert!(session.shell.resident_kib() - before < 200);
    assert!(session.shell.has_open(&[240]));
}
