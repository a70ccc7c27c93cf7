//! The supervisor as PID 1 of a container, in a pid namespace of its own.

use std::process::{Command, Output};

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_nacre-supervisor");
/// Against hanging.
const LIMIT: &str = "60";

/// Runs a script as PID 1, which becomes the supervisor at its end.
fn in_container(script: &str, grace: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg("unshare");
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let script = format!("{script}\nexec \"$@\"");
    command.args(["--pid", "--fork", "--mount-proc", "bash", "-c", &script, "bash", SUPERVISOR, "--init", grace]);
    command.output().unwrap()
}

#[track_caller]
fn assert_ended(output: &Output, printed: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stdout)), (Some(0), printed), "{errors}");
}

#[test]
fn exits_when_its_last_process_has_ended() {
    assert_ended(&in_container("(sleep 2; echo done) &", "500"), "done\n");
}

#[test]
fn reaps_orphans_and_counts_a_client_that_came_between_two_looks() {
    let script = r#"
        (
            while [ "$(cat /proc/1/comm)" = bash ]; do :; done
            orphan=$(sh -c 'exec sleep 0.1 >/dev/null & echo $!')
            while [ -e /proc/$orphan ]; do :; done
            kill -USR1 1
            echo reaped
        ) &
    "#;
    assert_ended(&in_container(script, "500"), "reaped\n");
}

#[test]
fn ends_everything_by_a_signal() {
    for signal in ["TERM", "INT"] {
        // Until the supervisor runs, PID 1 is bash, which ignores the signal.
        let script = format!(
            r#"
            ready=$(mktemp -u)
            (trap '' TERM; until [ -e $ready ]; do sleep 0.05; done; rm $ready; while kill -{signal} 1; do sleep 0.05; done) &
            (trap 'sleep 0.5; echo written; exit' TERM; : >$ready; while :; do sleep 0.05; done) &
            setsid sleep 600 &
            "#
        );
        // The first one does not end by itself.
        assert_ended(&in_container(&script, "60000"), "written\n");
    }
}

#[test]
fn refuses_to_be_anything_but_pid_1_and_bad_values() {
    let started = |grace: &str| Command::new(SUPERVISOR).args(["--init", grace]).output().unwrap();
    let output = started("500");
    assert_eq!(
        (output.status.code(), &*output.stderr),
        (Some(2), &b"nacre-supervisor: --init is for PID 1 of a container\n"[..])
    );
    let output = started("soon");
    assert_eq!(
        (output.status.code(), &*output.stderr),
        (Some(2), &b"nacre-supervisor: --init needs a number of milliseconds\n"[..])
    );
}
