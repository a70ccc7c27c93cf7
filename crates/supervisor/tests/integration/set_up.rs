//! The set-up of a container: once, with no more rights than others, and never longer than its lifeline.

use nacre_containment::proc_table;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Starts a client. Its input is open until the child is dropped, or waited for.
fn start(place: &Path, command: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_nacre-supervisor"))
        .args(["--set-up".as_ref(), place.join("state").as_os_str(), place.as_os_str()])
        .env("NACRE_SETUP", command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The exit code and what was printed, with an open input.
fn end(mut client: Child) -> (Option<i32>, String) {
    let lifeline = client.stdin.take();
    let Output { status, stdout, stderr } = client.wait_with_output().unwrap();
    drop(lifeline);
    assert_eq!(stdout, b"");
    (status.code(), String::from_utf8(stderr).unwrap())
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn runs_once_for_all_clients() {
    let place = tempfile::tempdir().unwrap();
    let command = "echo $PWD $HOME >>ran; sleep 0.2; echo done >>ran; cat; echo printed";
    let clients = [(); 3].map(|()| start(place.path(), command));
    for client in clients {
        assert_eq!(end(client), (Some(0), String::new()));
    }
    assert_eq!(read(&place.path().join("ran")), format!("{} /root\ndone\n", place.path().display()));
    assert_eq!(read(&place.path().join("state/log")), "printed\n");
}

#[test]
fn a_failure_shows_the_last_of_the_output_to_all_clients() {
    let place = tempfile::tempdir().unwrap();
    let clients = [(); 2].map(|()| start(place.path(), "seq 10000; echo last >&2; exit 3"));
    for client in clients {
        let (code, text) = end(client);
        assert_eq!(code, Some(74));
        assert!(
            text.starts_with("exit code 3\n") && text.ends_with("\n9999\n10000\nlast\n") && text.len() < 2100,
            "{text}"
        );
    }
    let (code, text) = end(start(tempfile::tempdir().unwrap().path(), "kill -9 $$"));
    assert_eq!((code, &*text), (Some(74), "exit code 137\n"));
}

#[test]
fn no_command_line_has_the_text_and_no_daemon_the_variable() {
    let place = tempfile::tempdir().unwrap();
    let command = "cat /proc/$$/cmdline /proc/$PPID/cmdline >lines; env >variables; : secret";
    assert_eq!(end(start(place.path(), command)).0, Some(0));
    let lines = read(&place.path().join("lines"));
    assert!(lines.contains("eval") && lines.contains("--set-up") && !lines.contains("secret"), "{lines}");
    let variables = read(&place.path().join("variables"));
    assert!(variables.contains("PWD=") && !variables.contains("secret"), "{variables}");
}

#[test]
fn has_none_of_the_rights_of_the_server() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(end(start(place.path(), "cat /proc/self/status >status")).0, Some(0));
    let status = read(&place.path().join("status"));
    let own = read(Path::new("/proc/self/status"));
    let sets = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        u64::from_str_radix(line.split_ascii_whitespace().last().unwrap(), 16).unwrap()
    };
    let rights = (1 << 12) | (1 << 19) | (1 << 21);
    for name in ["CapEff", "CapPrm", "CapBnd"] {
        let had = sets(&own, name);
        let expected = if nix::unistd::geteuid().is_root() { had & !rights } else { had };
        assert_eq!(sets(&status, name), expected, "{name}");
    }
}

#[test]
fn ends_with_its_input_and_stays_interrupted() {
    let place = tempfile::tempdir().unwrap();
    let mut first = start(place.path(), "setsid sleep 600 & (setsid sh -c 'sleep 600; :' &); echo $! >pid; sleep 600");
    let pid = || read(&place.path().join("pid"));
    while !pid().ends_with('\n') {
        thread::sleep(Duration::from_millis(10));
    }
    let second = start(place.path(), "echo again >again");
    let all = || descendants(first.id());
    while all().len() < 5 {
        thread::sleep(Duration::from_millis(10));
    }
    let before = all();
    drop(first.stdin.take());
    let mut printed = String::new();
    first.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!((first.wait().unwrap().code(), printed), (Some(75), String::new()));
    for process in before {
        assert!(!proc_table::is_alive(process).unwrap(), "{process:?}");
    }
    assert_eq!(end(second).0, Some(75));
    assert!(!place.path().join("again").exists());
}

fn descendants(root: u32) -> Vec<nacre_containment::pid::Identity> {
    let all = proc_table::scan().unwrap();
    let mut parents = vec![root.cast_signed()];
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent && process.is_running()) {
            parents.push(process.identity.pid.raw());
            found.push(process.identity);
        }
    }
    found
}
