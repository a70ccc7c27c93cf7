//! Background processes are separate shells, forked from a standby.

use crate::host::process::{Streams, read_until};
use crate::host::{self, Session, process};
use nacre_protocol::shell::{Refusal, Reply, Request, RequestFlags};

fn session() -> Session {
    let mut session = Session::start();
    session.run(
        "f(){ echo \"F:$v ${a[2]} $PWD $1\"; return 5; }; v=1; a=(1 2 '3 4'); cd /usr; alias al='echo AL'; shopt -s expand_aliases
         set -- p q; umask 027; trap 'echo U' USR1; trap 'echo bye' EXIT; sleep 1000 &",
    );
    session.renew_standby();
    session
}

#[test]
fn they_have_the_state_of_the_session() {
    let mut session = session();
    let (code, output) = session.run_background("f x; al; echo $? $# $2; umask; jobs; trap -p; exit 4");
    assert_eq!((code, output.as_str()), (4, "F:1 3 4 /usr x\nAL\n0 2 q\n0027\n"));
}

#[test]
fn they_are_shells_of_their_own() {
    let mut session = session();
    let own = "[[ $$ == $BASHPID && $PPID == $(ps -o ppid= -p $$ | tr -d ' ') ]] && echo own; echo $BASH_SUBSHELL $-
        [[ $(ps -o pgid= -p $$ | tr -d ' ') == $$ ]] && echo group; x=(/proc/$$/fd/*); echo ${#x[@]}";
    assert_eq!(session.run_background(own), (0, "own\n0 hBc\ngroup\n4\n".into()));
    let (first, second) = (session.run_background("echo $RANDOM"), session.run_background("echo $RANDOM"));
    assert!(first != second || session.is_version("5.0"));
}

#[test]
fn they_end_as_bash_c_does() {
    let mut session = session();
    for text in [
        "set -e; false; echo no",
        ": ${x:?}; echo no",
        "echo $((1/0)); echo no",
        "exec /proc/nonexistent",
        "if then",
        "exec ls -d /",
        "trap 'echo bye' EXIT; g(){ local q=1; exit 3; }; g",
        "wait; sleep .01 & wait $!; (exit 3); echo $?; kill -9 $$",
        "kill $$",
        "trap 'echo bye' EXIT; echo a",
        "trap 'echo bye' EXIT; /bin/echo a",
        "f() { eval \"trap 'echo bye' EXIT\"; }; f && /bin/echo a",
        "trap 'echo error' ERR; echo a; /bin/false",
        "trap - EXIT; x=$(trap); echo $BASHPID >/dev/null; /bin/echo a $x",
        "f(){ return 3; }; f",
    ] {
        let output = std::process::Command::new(process::bash()).args(["-c", text, "bash"]).output().unwrap();
        let plain = [output.stdout, output.stderr].concat();
        let code = output
            .status
            .code()
            .unwrap_or_else(|| 128 + std::os::unix::process::ExitStatusExt::signal(&output.status).unwrap());
        let (own_code, own) = session.run_background(text);
        // In messages of `-c`, bash 5.0 names no line, or line 0.
        let mut texts = [own, String::from_utf8(plain).unwrap()];
        if session.is_version("5.0") {
            texts = texts.map(|text| text.replace("line 1: ", "").replace("line 0: ", ""));
        }
        let [own, plain] = texts;
        assert_eq!((own_code, own), (code, plain), "{text}");
    }
}

#[test]
fn signals_end_them_unless_trapped() {
    let mut session = session();
    for (text, signal, status, output) in [
        ("echo r; sleep 100", libc::SIGTERM, libc::SIGTERM, "r\n"),
        ("echo r; sleep 100", libc::SIGINT, libc::SIGINT, "r\n"),
        ("trap 'echo bye2' EXIT; echo r; while :; do sleep .01; done", libc::SIGTERM, libc::SIGTERM, "r\nbye2\n"),
        ("trap 'echo t; exit 9' TERM; echo r; while :; do sleep .01; done", libc::SIGTERM, 9 << 8, "r\nt\n"),
        ("trap 'echo t; exit 9' INT; echo r; sleep 100", libc::SIGINT, 9 << 8, "r\nt\n"),
        ("trap : INT; trap - INT; echo r; sleep 100", libc::SIGINT, libc::SIGINT, "r\n"),
        ("trap : TERM; trap - TERM; echo r; while :; do :; done", libc::SIGTERM, libc::SIGTERM, "r\n"),
        ("echo r; while :; do :; done", libc::SIGHUP, libc::SIGHUP, "r\n"),
        ("echo r; while :; do :; done", libc::SIGUSR1, libc::SIGUSR1, "r\n"),
    ] {
        let (process, out) = session.background(Request::run(1, text.as_bytes()), RequestFlags::empty());
        let mut seen = read_until(&out, |text| text.contains('\n'));
        if text.ends_with("sleep 100") {
            // A signal before the fork would only reach the shell, which then waits for the program.
            while !sleeps(process.pid) {
                std::thread::yield_now();
            }
            // SAFETY: plain system call.
            unsafe { libc::kill(-process.pid, signal) };
        } else {
            process.signal(signal);
        }
        let ended = process.wait_status();
        // A child that bash was just forking may have missed the signal.
        process.kill_group();
        seen.push_str(&process::read_to_end(&out));
        assert_eq!((ended, seen.as_str()), (status, output), "{text}");
    }
}

/// True if the process or a child of it is the program `sleep`.
fn sleeps(pid: i32) -> bool {
    let is_sleep = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    is_sleep(pid) || process::children(pid).into_iter().any(is_sleep)
}

#[test]
fn they_keep_their_scope() {
    let mut session = session();
    let request = Request {
        cwd: b"lib",
        env: b"A=7\0v\0",
        open_files: Some(77),
        ..Request::run(3, b"pwd; echo $A ${v-unset}; ulimit -n; exit 5")
    };
    let (process, out) = session.background(request, RequestFlags::empty());
    assert_eq!(process::read_to_end(&out), "/usr/lib\n7 unset\n77\n");
    assert_eq!(process.wait(), 5);
    let (refused, _out) =
        session.background(Request { cwd: b"/proc/nonexistent", ..Request::run(3, b"") }, RequestFlags::empty());
    assert!(matches!(refused.receive(), Some(Reply::Refused { id: 3, reason: Refusal::Cwd, errno: libc::ENOENT, .. })));
    assert_eq!(refused.wait(), 126);
}

#[test]
fn they_run_while_the_shell_is_busy_and_after_it_has_died() {
    let mut session = session();
    let running = session.begin(Request::run(0, b"while :; do :; done"));
    assert_eq!(session.run_background("f y").1, "F:1 3 4 /usr y\n");
    let (process, out) = session.background(Request::run(1, b"sleep .3; echo still; exit 3"), RequestFlags::empty());
    session.shell.signal(libc::SIGKILL);
    assert!(session.finish(running, |_| host::LIMIT, host::LIMIT).promoted);
    assert_eq!((process::read_to_end(&out).as_str(), process.wait()), ("still\n", 3));
    assert_eq!(session.output("f z; trap -p EXIT"), "F:1 3 4 /usr z\ntrap -- 'echo bye' EXIT\n");
}

#[test]
fn one_without_a_command_ends_with_its_channel() {
    let mut session = session();
    session.fork(true, RequestFlags::BACKGROUND, &[]).end();
}

#[test]
fn a_terminal_becomes_its_controlling_terminal() {
    let mut session = session();
    let (ours, theirs) = process::terminal();
    let child = session.fork(true, RequestFlags::BACKGROUND | RequestFlags::TERMINAL, &[]);
    let text = "[[ -t 0 ]] && echo tty; echo hi >/dev/tty; read x; echo got $x; trap 'echo INT; exit 7' INT; echo ready; while :; do sleep .01; done";
    let streams = Streams::of([theirs.try_clone().unwrap(), theirs.try_clone().unwrap(), theirs]);
    child.send(
        &Request { flags: RequestFlags::TERMINAL_STREAMS, ..Request::run(1, text.as_bytes()) },
        &streams.borrowed(),
    );
    drop(streams);
    let mut file = std::fs::File::from(ours.try_clone().unwrap());
    read_until(&ours, |text| text.contains("hi"));
    std::io::Write::write_all(&mut file, b"line\n").unwrap();
    read_until(&ours, |text| text.contains("ready"));
    std::io::Write::write_all(&mut file, b"\x03").unwrap();
    assert!(read_until(&ours, |text| text.contains("INT\r\n")).contains("INT"));
    assert_eq!(child.wait(), 7);
}
