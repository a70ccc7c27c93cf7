//! Commands that become processes while they run: with real shells and programs.

use crate::place::{KILL, Kind, Place, is_pending, is_running, pid_of, request, run, until, wait};
use nacre_core::error::{Code, Error};
use nacre_core::exec::{By, Chunk, ExecRequest, InputWriter, Outcome, OutputStream};
use nacre_core::process::{DetachedProcess, Exit, Process, Reason};
use nacre_protocol::confinement::Filesystem;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The grace time of a sandbox that is destroyed.
const FAREWELL: Duration = Duration::from_millis(500);

fn new_process(id: &str) -> DetachedProcess {
    let shown = "command".into();
    DetachedProcess {
        id: id.into(),
        shown,
        writer: None,
        log_limit: 1 << 20,
        keeps_log: false,
        auto_cleanup: false,
        request: 0,
    }
}

fn detaching(place: &Place, id: &str) -> Receiver<Result<Arc<Process>, Error>> {
    detaching_as(place, new_process(id), false)
}

fn detaching_as(place: &Place, new: DetachedProcess, ends_call: bool) -> Receiver<Result<Arc<Process>, Error>> {
    let (sender, detached) = channel();
    let process = place.sandbox.command("default", new).unwrap();
    place.sandbox.detach("default", 0, process, ends_call, move |process| drop(sender.send(process)));
    detached
}

fn detach(place: &Place) -> Arc<Process> {
    wait(&detaching(place, "detached")).unwrap()
}

fn ended(process: &Arc<Process>) -> Exit {
    let waiting = Arc::clone(process);
    run(async move { waiting.wait().await });
    process.life().end.unwrap().0
}

fn exited(code: i32) -> Exit {
    Exit { code: Some(code), signal: None, reason: Reason::Exit }
}

/// One of the streams in the log.
fn logged(process: &Process, stream: OutputStream) -> String {
    let log = process.log.clone();
    let slice = run(async move { log.read(0, usize::MAX).await });
    let bytes: Vec<u8> =
        slice.pieces.into_iter().filter(|piece| piece.stream == stream).flat_map(|piece| piece.bytes).collect();
    String::from_utf8(bytes).unwrap()
}

/// Starts a command, and detaches it as soon as that is possible.
fn begin(place: &Place, text: &str) -> (Receiver<Result<Outcome, Error>>, Arc<Process>) {
    let running = place.start_exec(text);
    loop {
        match wait(&detaching(place, "detached")) {
            Ok(process) => return (running, process),
            Err(error) => assert!(error.message.contains("has not begun"), "{error}"),
        }
    }
}

/// Detaches the running command and ends its call, as soon as that is possible.
fn end_call(place: &Place, writer: Option<InputWriter>) -> Result<Arc<Process>, Error> {
    loop {
        let new = DetachedProcess { writer: writer.clone(), ..new_process("detached") };
        let detached = wait(&detaching_as(place, new, true));
        if !detached.as_ref().is_err_and(|error| error.message.contains("has not begun")) {
            return detached;
        }
    }
}

/// A file outside of the workspace, which programs make to report.
fn outside(place: &Place, name: &str) -> String {
    place.directory.path().join(name).display().to_string()
}

fn await_file(path: &str) {
    until("the command has come this far", || Path::new(path).exists());
}

/// All programs may write in their workspace.
fn place_of(kind: Kind) -> Place {
    Place::with_files(kind, |real| {
        fs::set_permissions(real, fs::Permissions::from_mode(0o777)).unwrap();
        kind.is_isolated.then(|| Filesystem { write: vec![real.into()], ..Filesystem::default() })
    })
}

fn kinds() -> impl Iterator<Item = Kind> {
    let is_root = nix::unistd::geteuid().is_root();
    let kind = Kind::default();
    let kinds = [
        kind,
        Kind { without_groups: true, ..kind },
        Kind { without_builtin: true, ..kind },
        Kind { without_groups: true, without_builtin: true, ..kind },
        Kind { is_isolated: true, ..kind },
        Kind { is_another_user: true, ..kind },
    ];
    kinds.into_iter().filter(move |kind| is_root || !kind.is_another_user)
}

#[test]
fn the_session_goes_on_with_the_state_before_the_command() {
    for kind in kinds() {
        let place = place_of(kind);
        place.exec("cd /usr; name=before; greet() { echo \"hello $name\"; }; alias ll='ls -l'; set -u");
        let (running, process) =
            begin(&place, "name=after; cd /; echo out; echo err >&2; read line < <(sleep 60); exit 7");
        assert_eq!(place.exec("pwd; greet; alias ll"), "/usr\nhello before\nalias ll='ls -l'", "{kind:?}");
        assert!(place.exec("echo $-").contains('u') && is_pending(&running));
        let shell = pid_of(&process);
        assert!(is_running(shell) && process.life().end.is_none());
        until("it has printed", || logged(&process, OutputStream::Stderr) == "err\n");
        let killed = Arc::clone(&process);
        assert!(run(async move { killed.kill(By::Caller.into(), KILL).await }));
        assert_eq!(ended(&process).reason, Reason::Killed);
        until("its shell ends", || !is_running(shell));
        let outcome = wait(&running).unwrap();
        assert_eq!((outcome.exit_code, outcome.signal, outcome.cancelled), (None, Some(libc::SIGTERM), false));
        assert_eq!((&outcome.stdout[..], &outcome.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert_eq!(logged(&process, OutputStream::Stdout), "out\n");
        assert_eq!(place.exec("greet"), "hello before");
        run(place.sandbox.destroy(FAREWELL));
    }
}

#[test]
fn a_process_has_the_output_and_the_status_of_its_command_and_its_shell_ends_with_it() {
    for kind in kinds() {
        let place = place_of(kind);
        let (running, process) = begin(
            &place,
            "trap 'echo trap' EXIT; printf 'a'; printf 'b' >&2; printf 'c\\n'; \
             until [ -e go ]; do sleep 0.01; done; echo d; echo e >&2; (exit 7)",
        );
        until("it has printed", || logged(&process, OutputStream::Stdout) == "ac\n");
        assert!(is_pending(&running));
        let shell = pid_of(&process);
        place.exec("touch go");
        assert_eq!(ended(&process), exited(7));
        let outcome = wait(&running).unwrap();
        assert_eq!((outcome.exit_code, outcome.signal), (Some(7), None));
        until("its shell ends", || !is_running(shell));
        // The trap of the session does not run.
        assert_eq!((&outcome.stdout[..], &outcome.stderr[..]), (&b"ac\nd\n"[..], &b"be\n"[..]));
        assert_eq!(logged(&process, OutputStream::Stdout), "ac\nd\n");
        assert_eq!(logged(&process, OutputStream::Stderr), "be\n");
        assert_eq!(place.exec("echo next"), "next");
    }
}

#[test]
fn jobs_of_earlier_commands_go_on_and_those_of_the_command_are_killed_with_it() {
    for kind in kinds() {
        let place = place_of(kind);
        place.exec("sleep 600 & echo $! > earlier");
        let (running, process) = begin(
            &place,
            "sleep 600 & echo $! > own; (setsid sh -c 'echo $$ > escaped; exec sleep 600' &); \
             until [ -s escaped ]; do sleep 0.01; done; echo ready; sleep 600",
        );
        until("all have begun", || logged(&process, OutputStream::Stdout) == "ready\n");
        place.exec("sleep 600 & echo $! > later");
        let lives = |name: &str| place.exec(&format!("kill -0 $(cat {name}) 2> /dev/null && echo yes")) == "yes";
        assert!(["earlier", "own", "escaped", "later"].into_iter().all(lives), "{kind:?}");
        let killed = Arc::clone(&process);
        assert!(run(async move { killed.kill(By::Caller.into(), KILL).await }));
        // Without groups, nothing shows whose it is. It ends with the session.
        let has_groups = !kind.without_groups && place.sandbox.capabilities().group_parent.is_some();
        assert_eq!(["earlier", "own", "escaped", "later"].map(lives), [true, false, !has_groups, true], "{kind:?}");
        assert!(wait(&running).is_ok());
    }
}

#[test]
fn a_command_that_does_not_run_is_not_detached() {
    let place = Place::new();
    let refused = |why: &str| {
        let error = wait(&detaching(&place, "detached")).err().expect("it was detached");
        assert!(error.code == Code::DetachFailed && error.message.contains(why), "{error}");
        assert!(place.sandbox.processes().all().is_empty());
    };
    refused("already ended");
    place.exec("true");
    refused("already ended");
    let go = outside(&place, "go");
    let first = place.start_exec_as(1, &format!("until [ -e {go} ]; do sleep 0.01; done"));
    let queued = place.start_exec("echo queued");
    refused("not begun");
    fs::write(&go, "").unwrap();
    assert!(wait(&first).is_ok() && wait(&queued).is_ok());
    let begun = outside(&place, "begun");
    // The shell itself ends at once: this program keeps the command.
    let killed = place.start_exec(&format!("trap '' TERM; sh -c 'touch {begun}; exec sleep 1000'"));
    await_file(&begun);
    place.sandbox.interrupt("default", 0, None, By::Caller.into());
    refused("being killed");
    place.sandbox.interrupt("default", 0, Some(libc::SIGKILL), By::Caller.into());
    assert!(wait(&killed).unwrap().cancelled);
}

#[test]
fn a_detach_at_the_end_of_a_command_gives_a_process_or_an_error() {
    for kind in [Kind::default(), Kind { without_builtin: true, ..Kind::default() }] {
        let place = place_of(kind);
        let mut detached = 0;
        for number in 0..150 {
            let text =
                ["(exit 3)", "kill -9 $$", "exec sh -c 'exit 3'", "sleep 0.00$((RANDOM % 8)); (exit 3)"][number % 4];
            let running = place.start_exec(text);
            let asked = detaching(&place, &format!("number-{number}"));
            let outcome = wait(&running).unwrap();
            match wait(&asked) {
                Ok(process) => {
                    detached += 1;
                    let exit = ended(&process);
                    assert_eq!(
                        (exit.code, exit.signal),
                        (outcome.exit_code.filter(|_| outcome.signal.is_none()), outcome.signal)
                    );
                }
                Err(error) => assert_eq!(error.code, Code::DetachFailed),
            }
            let expected = if number % 4 == 1 { (Some(libc::SIGKILL), true) } else { (None, false) };
            assert_eq!((outcome.signal, outcome.signal.is_some()), expected, "{text}");
        }
        assert!(detached > 0, "none was detached in time");
        assert_eq!(place.exec("echo works"), "works");
    }
}

#[test]
fn a_caller_can_still_kill_the_command() {
    let place = Place::new();
    let begun = outside(&place, "begun");
    let running = place.start_exec(&format!("touch {begun}; sleep 600; echo next"));
    await_file(&begun);
    let process = detach(&place);
    place.sandbox.interrupt("default", 0, Some(libc::SIGINT), By::Caller.into());
    let outcome = wait(&running).unwrap();
    assert_eq!((outcome.signal, outcome.cancelled, &outcome.stdout[..]), (Some(libc::SIGINT), true, &b""[..]));
    assert_eq!(ended(&process).reason, Reason::Killed);
}

#[test]
fn a_process_stops_during_a_pause() {
    let Some(place) = Place::with_groups() else { return };
    let begun = outside(&place, "begun");
    let _running = place
        .start_exec(&format!("echo 0 > count; touch {begun}; i=0; while :; do i=$((i + 1)); echo $i > count; done"));
    await_file(&begun);
    let process = detach(&place);
    let pause = place.pause();
    assert!(process.life().end.is_none());
    drop(pause);
    // A commit would wait for a command. A process only stops for it.
    wait(&place.commit()).unwrap();
    assert!(place.real("count").is_some());
}

#[test]
fn nothing_is_left_when_the_supervisor_is_killed_or_the_session_ends() {
    for dies in [true, false] {
        let place = Place::new();
        let begun = outside(&place, "begun");
        let running = place.start_exec(&format!("sleep 600 & touch {begun}; sleep 600"));
        await_file(&begun);
        let process = detach(&place);
        let members = process.life().birth.unwrap().tree.members().unwrap();
        assert!(members.len() >= 2, "{members:?}");
        if dies {
            assert!(wait(&place.start_exec("kill -9 $PPID; sleep 600")).is_err());
        } else {
            run(place.sandbox.destroy(FAREWELL));
        }
        let exit = ended(&process);
        assert_eq!(exit.reason, if dies { Reason::Lost } else { Reason::Killed });
        let outcome = wait(&running);
        assert_eq!(outcome.is_err(), dies);
        until("all end", || members.iter().all(|stat| !is_running(stat.identity.pid)));
    }
}

#[test]
fn the_log_has_what_was_kept_and_says_how_much_was_not() {
    let place = Place::new();
    let (begun, go) = (outside(&place, "begun"), outside(&place, "go"));
    // The request keeps 1 MiB of each stream.
    let running = place.start_exec(&format!(
        "head -c 2000000 /dev/zero | tr '\\0' a; echo b >&2; touch {begun}; until [ -e {go} ]; do sleep 0.01; done; echo c"
    ));
    await_file(&begun);
    let process = detach(&place);
    fs::write(&go, "").unwrap();
    ended(&process);
    let log = process.log.clone();
    let slice = run(async move { log.read(0, usize::MAX).await });
    let bytes: u64 = slice.pieces.iter().map(|piece| piece.bytes.len() as u64).sum();
    assert_eq!((slice.next, bytes + slice.dropped + slice.lost), (2_000_004, 2_000_004));
    assert!(slice.dropped + slice.lost >= 2_000_000 - (1 << 20));
    assert_eq!(wait(&running).unwrap().dropped.0, 2_000_002 - (1 << 20));
}

#[test]
fn a_call_can_end_with_its_output_so_far_and_its_input_goes_on() {
    for kind in kinds() {
        let place = place_of(kind);
        let (sender, running) = channel();
        let (writer, input) = InputWriter::open();
        let text = "printf out; printf err >&2; read -r line; echo $line; cat; exit 3";
        place.sandbox.exec("default", ExecRequest { input, ..request(text, sender) });
        let write = |bytes: &[u8]| writer.send(Chunk { bytes: bytes.to_vec(), taken: Box::new(|| ()) });
        write(b"one\ntwo");
        let process = end_call(&place, Some(writer.clone())).unwrap();
        let outcome = wait(&running).unwrap();
        assert_eq!((outcome.exit_code, outcome.signal, outcome.timed_out), (None, None, false), "{kind:?}");
        assert!(b"outone\ntwo".starts_with(&outcome.stdout) && b"err".starts_with(&outcome.stderr));
        assert_eq!(place.exec("echo free"), "free");
        assert!(process.takes_input());
        process.write(Chunk { bytes: b" three".to_vec(), taken: Box::new(|| ()) });
        until("it has read", || logged(&process, OutputStream::Stdout) == "outone\ntwo three");
        write(b" four");
        process.close_input();
        assert!(!writer.is_open());
        assert_eq!(ended(&process), exited(3), "{kind:?}");
        assert_eq!(logged(&process, OutputStream::Stdout), "outone\ntwo three four");
        assert_eq!(logged(&process, OutputStream::Stderr), "err");
        assert_eq!(place.exec("echo works"), "works");
    }
}

#[test]
fn the_timeout_of_a_call_that_has_ended_kills_its_process() {
    for kind in kinds() {
        let place = place_of(kind);
        // On a busy machine it may come before the detach.
        let process = loop {
            let (sender, running) = channel();
            let timeout = Some(Duration::from_millis(300));
            place.sandbox.exec("default", ExecRequest { timeout, ..request("sleep 600; echo next", sender) });
            let process = end_call(&place, None);
            assert_ne!(wait(&running).unwrap().timed_out, process.is_ok());
            if let Ok(process) = process {
                break process;
            }
        };
        let exit = ended(&process);
        assert_eq!((exit.signal, exit.reason), (Some(libc::SIGTERM), Reason::Timeout), "{kind:?}");
        assert_eq!(logged(&process, OutputStream::Stdout), "");
    }
}
