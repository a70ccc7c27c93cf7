//! A pause of a sandbox, and the commit and discard that need one: with real shells, programs and workspaces.

use crate::place::{
    KILL, Kind, Place, is_pending, is_running, never_given_up, pid_of, request, run, spawn_session, start, until, wait,
};
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_core::error::Code;
use nacre_core::exec::{By, KillPolicy};
use nacre_core::process::Process;
use nacre_core::sandbox::NewSession;
use nacre_protocol::workspace::Chosen;
use std::fs;
use std::future::pending;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Whether a process lives and uses the processor. A busy loop uses a tick each 10 ms.
fn is_active(pid: Pid) -> bool {
    let ticks = || Stat::read(pid).filter(Stat::is_running).map(|stat| stat.cpu_ticks);
    let before = ticks();
    std::thread::sleep(Duration::from_millis(50));
    before.is_some() && ticks() != before
}

#[test]
fn a_commit_waits_for_the_running_command_and_goes_before_the_next() {
    let place = Place::new();
    let fifo = place.fifo();
    let running = place.start_exec(&format!("echo one > file; read < {}; echo two > file", fifo.display()));
    let commit = place.commit();
    let next = place.start_exec("echo three > file; cat file");
    // Opens when the command reads.
    let go = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    assert!(is_pending(&commit) && is_pending(&next));
    assert_eq!(place.real("file"), None);
    drop(go);
    assert_eq!(wait(&commit).unwrap().applied, 1);
    assert_eq!(place.real("file").unwrap(), "two\n");
    assert!(wait(&running).is_ok());
    assert_eq!(wait(&next).unwrap().stdout, b"three\n");
    assert_eq!(run(never_given_up(place.sandbox.discard(Chosen::default(), pending()))).unwrap(), 1);
    assert_eq!(place.exec("cat file"), "two");
}

#[test]
fn a_commit_sees_what_a_background_process_writes_at_one_moment() {
    let Some(place) = Place::with_groups() else { return };
    let process = place.process("i=0; while :; do i=$((i + 1)); echo $i >> first; echo $i >> second; done");
    let pid = pid_of(&process);
    let mut last = 0;
    for _ in 0..8 {
        until("it has written", || place.exec("wc -l < second 2> /dev/null").parse::<usize>().unwrap_or(0) > last);
        wait(&place.commit()).unwrap();
        let [first, second] = ["first", "second"].map(|name| place.real(name).unwrap_or_default().lines().count());
        assert!(first == second || first == second + 1, "{first} lines and {second}");
        last = second;
    }
    assert_eq!((pid_of(&process), process.life().end), (pid, None));
}

/// Checks that a process, and a job of the shell, stop during a pause and go on after it.
fn check_that_programs_stop(place: &Place) {
    let process = place.process("while :; do :; done");
    // Of the shell itself, with no group of its own.
    let job = Pid::new(place.exec("while :; do :; done & echo $!").parse().unwrap()).unwrap();
    let pause = place.pause();
    assert!(!is_active(pid_of(&process)) && !is_active(job));
    drop(pause);
    until("both go on", || is_active(pid_of(&process)) && is_active(job));
}

#[test]
fn a_process_stops_during_a_pause_and_goes_on_after_it() {
    let Some(place) = Place::with_groups() else { return };
    check_that_programs_stop(&place);
    assert_eq!(place.exec("echo shell; kill $!; wait; echo $?"), "shell\n0");
}

#[test]
fn the_programs_of_an_isolated_session_stop_and_its_own_processes_do_not() {
    let isolated = Place::of(Kind { is_isolated: true, ..Kind::default() });
    let Some(place) = isolated.if_it_has_groups() else { return };
    // The subshell ends, so that the init of the namespace adopts the loop.
    place.exec("(while :; do :; done &)");
    let process = place.process("while :; do :; done");
    let pause = place.pause();
    assert!(!is_active(pid_of(&process)));
    drop(pause);
    until("it goes on", || is_active(pid_of(&process)));
    // Idle, it is no program.
    let idle = Place::of(Kind { is_isolated: true, without_groups: true, ..Kind::default() });
    assert_eq!(idle.exec("echo idle; ls > /dev/null"), "idle");
    drop(idle.pause());
}

/// The processes of another user are not born in their groups.
#[test]
fn the_programs_of_another_user_stop_too() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let Some(place) = Place::of(Kind { is_another_user: true, ..Kind::default() }).if_it_has_groups() else { return };
    check_that_programs_stop(&place);
    assert_eq!(place.exec("id -u"), "54321");
}

#[test]
fn a_process_that_is_being_started_stops_like_the_others() {
    let Some(place) = Place::with_groups() else { return };
    for number in 0..20 {
        let command = (number % 2 == 0).then(|| place.start_exec("x=1; ls > /dev/null"));
        let started = place.start_process(&number.to_string(), "while :; do :; done");
        let pause = place.pause();
        let before = started.try_recv();
        if let Ok(Ok(process)) = &before {
            assert!(!is_active(pid_of(process)), "in round {number}");
        }
        drop(pause);
        let process = before.unwrap_or_else(|_| wait(&started)).unwrap();
        assert!(run(async move { process.kill(By::Caller.into(), KILL).await }));
        assert!(command.is_none_or(|command| wait(&command).is_ok()));
    }
}

#[test]
fn a_process_can_be_killed_during_a_pause() {
    let Some(place) = Place::with_groups() else { return };
    let asked = place.process("trap 'exit 7' TERM; echo ready > ready; while :; do :; done");
    let killed = wait(&place.start_process("killed", "while :; do :; done")).unwrap();
    until("the trap is set", || place.exec("cat ready 2> /dev/null") == "ready");
    let pause = place.pause();
    let kill = |process: &Arc<Process>, policy| {
        let process = Arc::clone(process);
        run(async move { process.kill(By::Caller.into(), policy).await })
    };
    assert!(kill(&asked, KILL));
    assert!(kill(&killed, KillPolicy { signal: libc::SIGKILL, grace: Duration::ZERO }));
    let end = |process: &Process| process.life().end.map(|(exit, _)| (exit.code, exit.signal));
    until("the ends are known", || end(&asked).is_some() && end(&killed).is_some());
    assert_eq!(end(&asked), Some((Some(7), None)));
    assert_eq!(end(&killed), Some((None, Some(libc::SIGKILL))));
    drop(pause);
    assert_eq!(place.exec("echo lives"), "lives");
}

#[test]
fn a_sandbox_can_be_destroyed_during_a_pause() {
    for grace in [Duration::ZERO, KILL.grace] {
        let Some(place) = Place::with_groups() else { return };
        let process = place.process("while :; do :; done");
        let pause = place.pause();
        let queued = place.start_exec("true");
        run(place.sandbox.destroy(grace));
        assert!(!is_running(pid_of(&process)));
        assert_eq!(wait(&queued).unwrap_err().code, Code::SessionDestroyed);
        drop(pause);
        assert_eq!(run(place.sandbox.pause()).err().map(|error| error.code), Some(Code::SandboxDestroyed));
    }
}

#[test]
fn calls_wait_during_a_pause_and_follow_it() {
    let place = Place::new();
    place.exec("x=1");
    let pause = place.pause();
    let command = place.start_exec("echo $x");
    let process = place.start_process("later", "sleep 600");
    let file = start(place.sandbox.files("default", |access| async move {
        let Some(writer) = access.write(b"file".to_vec(), None, false).await? else { return Ok(None) };
        writer.write_all(b"text".to_vec()).await.map(Some)
    }));
    let change = start(place.sandbox.set_env("default", vec![("y".into(), Some("2".into()))]));
    // The pause has no effect on other sandboxes.
    let other = Place::new();
    assert_eq!(other.exec("echo other"), "other");
    assert!(is_pending(&command) && is_pending(&process) && is_pending(&file) && is_pending(&change));
    drop(pause);
    assert_eq!(wait(&command).unwrap().stdout, b"1\n");
    assert!(wait(&process).is_ok() && wait(&file).is_ok() && wait(&change).is_ok());
    assert_eq!(place.exec("cat file; echo $y"), "text2");
}

#[test]
fn a_pause_that_is_given_up_ends() {
    let place = Place::new();
    let fifo = place.fifo();
    let running = place.start_exec(&format!("read < {}", fifo.display()));
    let pausing = place.sandbox.pause();
    let next = place.start_exec("echo next");
    let go = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    drop(pausing);
    drop(go);
    assert!(wait(&running).is_ok());
    assert_eq!(wait(&next).unwrap().stdout, b"next\n");
}

#[test]
fn a_commit_whose_wait_is_given_up_applies_nothing() {
    let place = Place::new();
    let fifo = place.fifo();
    let running = place.start_exec(&format!("echo one > file; read < {}", fifo.display()));
    let (give_up, given_up) = tokio::sync::oneshot::channel::<()>();
    let commit = start(place.sandbox.commit(Chosen::default(), false, false, async { drop(given_up.await) }));
    let next = place.start_exec("echo next");
    let go = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    assert!(is_pending(&commit) && is_pending(&next));
    drop(give_up);
    assert_eq!(wait(&commit).unwrap(), None);
    drop(go);
    assert!(wait(&running).is_ok());
    assert_eq!(wait(&next).unwrap().stdout, b"next\n");
    assert_eq!(place.real("file"), None);
    assert_eq!(wait(&place.commit()).unwrap().applied, 1);
}

#[test]
fn two_commits_take_turns_in_every_session() {
    let place = Place::new();
    for id in ["a", "b"] {
        run(place.sandbox.create_session(NewSession { id: id.into(), ..NewSession::default() })).unwrap();
    }
    let results: Vec<_> = (0..6)
        .map(|number| {
            let ends =
                ["a", "b", "default"].map(|id| place.start_exec_in(id, &format!("echo {number} > {id}-{number}")));
            (ends, place.commit())
        })
        .collect();
    for (ends, commit) in results {
        assert_eq!(wait(&commit).unwrap().applied, 3);
        ends.iter().for_each(|end| assert!(wait(end).is_ok()));
    }
}

#[test]
fn a_session_that_is_created_during_a_pause_begins_after_it() {
    let place = Place::new();
    let pause = place.pause();
    let creation = start(place.sandbox.create_session(NewSession { id: "new".into(), ..NewSession::default() }));
    let first = place.start_exec_in("new", "echo first > file");
    // A commit of its own cannot pass the pause.
    let commit = place.commit();
    let second = place.start_exec_in("new", "echo second > file");
    assert!(is_pending(&creation) && is_pending(&first) && is_pending(&commit) && is_pending(&second));
    drop(pause);
    assert!(wait(&creation).is_ok() && wait(&first).is_ok());
    assert_eq!(wait(&commit).unwrap().applied, 1);
    assert_eq!(place.real("file").unwrap(), "first\n");
    assert!(wait(&second).is_ok());
}

#[test]
fn a_session_that_is_deleted_does_not_delay_a_commit() {
    let place = Place::new();
    run(place.sandbox.create_session(NewSession { id: "busy".into(), ..NewSession::default() })).unwrap();
    let running = place.start_exec_in("busy", "sleep 600");
    let commit = place.commit();
    assert!(run(place.sandbox.delete_session("busy", Duration::ZERO)).is_ok());
    assert!(wait(&commit).is_ok() && wait(&running).is_err());
}

#[test]
fn a_session_that_ends_while_it_is_held_delays_no_freeze() {
    let (sender, started) = channel();
    let session = spawn_session("ends", None);
    session.exec(request("trap '' TERM; sleep 600 & echo $!", sender));
    let output = String::from_utf8(wait(&started).unwrap().stdout).unwrap();
    let survivor = Stat::read(Pid::new(output.trim().parse().unwrap()).unwrap()).unwrap();
    let (first, second) = (session.hold(), session.hold());
    let first = run(async move { first.granted().await.then_some(first) }).unwrap();
    let closing = start(session.close(Duration::from_secs(600)));
    assert_eq!(run(first.freeze(false)).map(|frozen| frozen.is_idle), Ok(false));
    assert!(!run(async move { second.granted().await }));
    assert!(is_pending(&closing));
    nacre_containment::signal::send_to(survivor.identity, libc::SIGKILL).unwrap();
    wait(&closing);
}

#[test]
fn a_sandbox_without_sessions_starts_none_for_a_commit() {
    let place = Place::new();
    assert_eq!(wait(&place.commit()).unwrap().applied, 0);
    assert_eq!(place.sandbox.sessions(), Vec::<String>::new());
}

#[test]
fn a_supervisor_that_is_killed_during_a_pause_leaves_no_process() {
    let Some(place) = Place::with_groups() else { return };
    let process = place.process("while :; do :; done");
    // The last command's changes would be lost.
    place.exec("x=kept");
    let supervisor = Pid::new(place.exec("echo $PPID").parse().unwrap()).unwrap();
    let pause = place.pause();
    nacre_containment::signal::send_to(Stat::read(supervisor).unwrap().identity, libc::SIGKILL).unwrap();
    let next = place.start_exec("echo $x");
    until("the process ends", || !is_running(pid_of(&process)));
    assert!(is_pending(&next));
    drop(pause);
    assert_eq!(wait(&next).unwrap().stdout, b"kept\n");
}

#[test]
fn a_host_that_is_killed_during_a_pause_leaves_no_process() {
    const REPORT: &str = "NACRE_TEST_REPORT";
    if let Some(report) = std::env::var_os(REPORT) {
        let Some(place) = Place::with_groups() else { return };
        let process = place.process("while :; do :; done");
        let _pause = place.pause();
        fs::write(report, format!("{}\n", pid_of(&process))).unwrap();
        loop {
            std::thread::park();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    let mut host = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_host_that_is_killed_during_a_pause_leaves_no_process"])
        .env(REPORT, &report)
        .env("TMPDIR", directory.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let reported = || fs::read_to_string(&report).ok()?.strip_suffix('\n')?.parse().ok();
    until("the pause is reported", || reported().is_some() || host.try_wait().unwrap().is_some());
    // Without groups, it ends.
    let Some(pid) = reported().and_then(Pid::new) else { return assert!(host.wait().unwrap().success()) };
    assert!(is_running(pid));
    host.kill().unwrap();
    host.wait().unwrap();
    until("the process ends", || !is_running(pid));
}

#[test]
fn a_shell_that_is_killed_during_a_pause_is_replaced() {
    let Some(place) = Place::with_groups() else { return };
    let process = place.process("while :; do :; done");
    let shell = Pid::new(place.exec("x=kept; echo $$").parse().unwrap()).unwrap();
    let pause = place.pause();
    nacre_containment::signal::send_to(Stat::read(shell).unwrap().identity, libc::SIGKILL).unwrap();
    until("the shell ends", || !is_running(shell));
    let next = place.start_exec("echo ${x-lost}");
    assert!(!is_active(pid_of(&process)) && is_pending(&next));
    drop(pause);
    assert!(wait(&next).is_ok());
    until("the process goes on", || is_active(pid_of(&process)));
}

#[test]
fn without_control_groups_a_commit_names_the_programs_and_changes_nothing() {
    for without_builtin in [false, true] {
        let place = Place::of(Kind { without_groups: true, without_builtin, ..Kind::default() });
        place.exec("echo text > file");
        assert_eq!(wait(&place.commit()).unwrap().applied, 1, "an idle session is no program");
        place.exec("echo more >> file");
        let process = place.process("exec sleep 600");
        let error = wait(&place.commit()).unwrap_err();
        assert_eq!(error.code, Code::WorkspaceBusy);
        let named = format!("{} (sleep 600)", pid_of(&process));
        assert!(error.message.contains(&named) && error.message.contains("without a control group"), "{error}");
        assert_eq!(place.real("file").unwrap(), "text\n");
        assert!(run(async move { process.kill(By::Caller.into(), KILL).await }));
        assert_eq!(wait(&place.commit()).unwrap().applied, 1);
        assert_eq!(place.real("file").unwrap(), "text\nmore\n");
    }
}
