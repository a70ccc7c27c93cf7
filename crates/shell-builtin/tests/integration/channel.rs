//! The channel survives what scripts do to descriptors and limits.

use crate::host::{self, Session, process};
use nacre_protocol::shell::{DoneFlags, Refusal, Request, RequestFlags, RequestKind};
use nacre_protocol::socket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

#[test]
fn a_closed_channel_is_opened_anew() {
    let mut session = Session::start();
    assert_eq!(session.output("for ((i=3;i<1024;i++)); do eval \"exec $i>&-\"; done; echo a"), "a\n");
    assert_eq!(session.reconnects, 1);
    assert_eq!(session.output("echo ok"), "ok\n");
    assert_eq!(session.run("exit 3").code, 3);
    assert_eq!(session.reconnects, 1);
}

#[test]
fn another_file_on_its_number_is_left_alone() {
    let mut session = Session::start();
    let ran = session.run("exec 240>f240; echo a; exit 3");
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (3, "a\n", ""));
    assert_eq!(session.output("echo ok; cat f240"), "ok\n");
}

#[test]
fn another_socket_on_its_number_is_recognized() {
    let mut session = Session::start();
    assert_eq!(session.output("exec 240<>/dev/udp/127.0.0.1/9; echo a"), "a\n");
    assert_eq!(session.output("echo ok"), "ok\n");
}

#[test]
fn a_fork_works_after_a_reconnect() {
    let mut session = Session::start();
    session.run("exec {x}>&-; for ((i=3;i<256;i++)); do eval \"exec $i>&-\"; done; v=3");
    session.renew_standby();
    assert_eq!(session.run("kill -9 $$").code, 137);
    assert_eq!(session.output("echo $v"), "3\n");
}

#[test]
fn commands_run_with_few_descriptors() {
    let mut session = Session::start();
    session.run("ulimit -n 5");
    assert_eq!(session.output("echo a; cat /dev/null; echo b"), "a\nb\n");
    session.renew_standby();
    assert_eq!(session.run("kill -9 $$").code, 137);
    assert_eq!(session.output("ulimit -n"), "5\n");
}

#[test]
fn commands_that_keep_the_state_run_one_after_another_with_few_descriptors() {
    let mut session = Session::start();
    session.run("ulimit -S -n 3");
    for _ in 0..3 {
        assert_eq!(session.output("echo a"), "a\n");
    }
    session.run("ulimit -S -n 64");
    assert_eq!(session.output("ulimit -n"), "64\n");
}

#[test]
fn a_limit_that_another_process_sets_costs_one_command_at_most() {
    let mut session = Session::start();
    assert!(session.run("true").has(DoneFlags::STATE_KEPT));
    let few = libc::rlimit { rlim_cur: 2, rlim_max: 64 };
    // SAFETY: reads one valid struct.
    let set = unsafe { libc::prlimit(session.shell.pid, libc::RLIMIT_NOFILE, &raw const few, std::ptr::null_mut()) };
    assert_eq!(set, 0);
    let refused = session.run("echo a").refused;
    assert!(refused.is_none_or(|(reason, _)| reason == Refusal::Streams));
    for _ in 0..3 {
        assert_eq!(session.output("echo b"), "b\n");
    }
}

#[test]
fn subshells_do_not_show_it() {
    let mut session = Session::start();
    let seen = session.output("( exec 3</dev/null; echo /proc/$BASHPID/fd/* )");
    assert!(!seen.contains("/240"), "{seen}");
}

#[test]
fn the_shell_ends_with_its_channel() {
    let session = Session::start();
    let (ours, _theirs) = process::seqpacket_pair();
    let shell = &session.shell;
    // SAFETY: replaces an owned descriptor by another, whose owner is dropped with the test.
    unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&ours), std::os::fd::AsRawFd::as_raw_fd(&shell.channel)) };
    assert_eq!(process::poll(&[shell.pidfd.as_fd()], host::LIMIT), [0]);
}

/// The processes that have sent SIGCONT to this one.
static SENDERS: [AtomicI32; 4] = [const { AtomicI32::new(0) }; 4];

extern "C" fn note_sender(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the information about a signal of kill(2).
    let sender = unsafe { (*info).si_pid() };
    let _ = SENDERS.iter().find(|place| place.compare_exchange(0, sender, Ordering::SeqCst, Ordering::SeqCst).is_ok());
}

/// In a process of its own: the shells of other tests send this signal, too.
#[test]
fn a_replaced_standby_does_not_resume_a_stopped_supervisor() {
    const ALONE: &str = "NACRE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "channel::a_replaced_standby_does_not_resume_a_stopped_supervisor";
        let mut test = std::process::Command::new(std::env::current_exe().unwrap());
        let output = test.args(["--exact", name]).env(ALONE, "").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    // SAFETY: the handler only stores a number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_sender as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGCONT, &raw const action, std::ptr::null_mut()), 0);
    }
    let mut session = Session::start();
    session.renew_standby();
    // This process is its supervisor, and its host, which lives.
    session.standby.take().unwrap().end();
    let (ours, _theirs) = process::seqpacket_pair();
    session.shell.channel = ours;
    let begun = Instant::now();
    let senders = || SENDERS.each_ref().map(|sender| sender.load(Ordering::SeqCst));
    while senders() == [0; 4] {
        assert!(begun.elapsed() < host::LIMIT, "a shell does not resume its supervisor");
        std::thread::yield_now();
    }
    assert_eq!(senders(), [session.shell.pid, 0, 0, 0]);
}

#[test]
fn an_unknown_bash_refuses_the_builtin() {
    let directory = tempfile::tempdir().unwrap();
    let object = directory.path().join("object");
    std::fs::write(&object, nacre_shell_builtin::OBJECT).unwrap();
    // Without `-c`, the shell's input does not have the form that the builtin expects.
    let script = format!("enable -f {} nacre && nacre 3 4; echo $?", object.display());
    let path = directory.path().join("script");
    std::fs::write(&path, script).unwrap();
    let output = std::process::Command::new(process::bash()).arg(&path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
}

#[test]
fn fifty_thousand_variables_fit_into_a_request() {
    let mut session = Session::start();
    let env: String = (0..50_000).map(|number| format!("V{number}=1\0")).collect();
    assert_eq!(session.run_in("", &env, "declare -p V0 V49999").out, "declare -x V0=\"1\"\ndeclare -x V49999=\"1\"\n");
    assert_eq!(session.output("compgen -v V; echo none"), "none\n");
}

#[test]
fn an_unusable_cgroup_does_not_prevent_a_fork() {
    let mut session = Session::start();
    let (_, group) = process::seqpacket_pair();
    let standby = session.fork(false, RequestFlags::STANDBY | RequestFlags::GROUP, &[group.as_fd()]);
    standby.end();
}

#[test]
fn a_shell_waits_for_another_mount_and_stays_in_its_directory_without_one() {
    let mut session = Session::start();
    session.run("mkdir d; cd d; ulimit -S -n 4");
    let (ours, theirs) = process::seqpacket_pair();
    session.shell.send(&Request::new(RequestKind::Reenter, 0), &[theirs.as_fd()]);
    drop(theirs);
    // It is ready.
    nacre_protocol::socket::receive(ours.as_fd(), &mut [0; 1]).unwrap();
    drop(ours);
    let own = session.path().canonicalize().unwrap().join("d").display().to_string();
    assert_eq!(session.output("ulimit -n; ulimit -S -n 64; /bin/pwd; pwd"), format!("4\n{own}\n{own}\n"));
}

#[test]
fn a_process_that_is_killed_while_it_waits_takes_no_request() {
    let mut session = Session::start();
    let promote = Request::new(RequestKind::Promote, 0).encode().unwrap().message;
    let mut sent = 0;
    for _ in 0..100 {
        let standby = session.fork(false, RequestFlags::STANDBY, &[]);
        standby.wait_until_asleep();
        standby.signal(libc::SIGKILL);
        // It may be dead already.
        if socket::send(standby.channel.as_fd(), &promote, &[]).is_err() {
            continue;
        }
        sent += 1;
        standby.wait_status();
        let end = socket::receive(standby.channel.as_fd(), &mut [0; 1]);
        assert_eq!(end.unwrap_err().raw_os_error(), Some(libc::ECONNRESET), "the kernel reports an unread request");
    }
    assert!(sent > 0);
}

#[test]
fn a_trap_runs_between_commands_even_if_its_signal_arrives_during_a_fork() {
    let mut session = Session::start();
    session.run("trap 'exec 3>>ran; echo >&3; exec 3>&-' USR1");
    for round in 1..=50 {
        let standby = session.fork_while(false, RequestFlags::STANDBY, &[], |shell| shell.signal(libc::SIGUSR1));
        let ran = session.path().join("ran");
        let begun = Instant::now();
        while std::fs::read(&ran).map_or(0, |text| text.len()) < round {
            assert!(begun.elapsed() < host::LIMIT, "the trap does not run in round {round}");
            std::thread::yield_now();
        }
        standby.end();
    }
}

#[test]
fn a_trap_for_children_runs_in_the_next_command() {
    let mut session = Session::start();
    session.run("trap 'echo C' CHLD; sleep 1000 &");
    session.shell.signal_children(libc::SIGKILL, &[]);
    let begun = Instant::now();
    while !process::children(session.shell.pid).is_empty() {
        assert!(begun.elapsed() < host::LIMIT, "the child is not reaped");
        std::thread::yield_now();
    }
    assert_eq!(session.output(":"), "C\n");
}
