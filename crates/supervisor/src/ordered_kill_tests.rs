use super::*;
use crate::reap::reap;
use crate::testing::own_process::{in_own_process, until, without_descriptors};
use crate::testing::{Session, Started, is_running, process};
use nacre_containment::tree::Tree;
use nacre_protocol::supervisor::{Asked, Report, Role};
use std::time::Instant;

const LONG: Duration = Duration::from_secs(600);
/// The time between two looks while the shell may start more.
const OFTEN: Duration = Duration::from_millis(5);
/// How long a kill looks often in any case.
const YOUNG: Duration = Duration::from_millis(60);

fn foreground(session: &mut Session, grace: Duration) -> OrderedKill {
    let target = Target::Foreground { command: Some(1), spare: Vec::new() };
    OrderedKill::start(5, target, libc::SIGTERM, grace, &mut session.table, || false)
}

fn of_process(session: &mut Session, key: u64, grace: Duration) -> OrderedKill {
    let target = Target::Process { key };
    OrderedKill::start(6, target, libc::SIGTERM, grace, &mut session.table, || false)
}

/// Steps until the kill is finished, and reaps like the event loop.
fn finish(kill: &mut OrderedKill, session: &mut Session) -> (bool, bool) {
    let mut outcome = None;
    until("the kill is finished", || {
        outcome = kill.step(&mut session.table, || false);
        reap(&mut session.table, &session.setting);
        outcome.is_some()
    });
    outcome.map(|outcome| (outcome.found, outcome.escalated)).unwrap()
}

/// Makes the shell start a program that prints a line on SIGTERM but does not exit.
fn stubborn(shell: &mut Started) -> Pid {
    // A signal just before a `read` without a limit would be handled only when it returns.
    shell.write(r#"bash -c 'trap "echo asked" TERM; echo $$; while :; do read -t 0.1 line; done'"#);
    shell.pid_line()
}

#[test]
fn a_foreground_kill_ends_every_program_and_waits_until_the_shell_has_settled() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let programs = [shell.background(), shell.background()];
            let mut kill = foreground(&mut session, LONG);
            assert_eq!((kill.id(), kill.is_foreground(), kill.watched().len()), (5, true, 2));
            until("the programs end", || programs.iter().all(|pid| !is_running(*pid)));
            for _ in 0..3 {
                assert!(kill.step(&mut session.table, || false).is_none(), "the shell may still start something");
                assert!(kill.next_look() <= OFTEN);
            }
            kill.settle();
            assert!(kill.next_look().is_zero());
            assert_eq!(finish(&mut kill, &mut session), (true, false));
            shell.write("echo alive");
            assert_eq!(shell.line(), "alive");
        }
    });
}

/// A command can take the descriptors of its supervisor away (prlimit(2)).
#[test]
fn a_kill_that_cannot_look_is_not_finished() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = stubborn(&mut shell);
            let process = session.start(process(1), "trap '' TERM; echo; while :; do read line; done");
            process.line();
            let kills = [foreground(&mut session, LONG), of_process(&mut session, 1, LONG)];
            for (mut kill, victim) in kills.into_iter().zip([program, process.pid()]) {
                kill.settle();
                without_descriptors(|| {
                    assert!(kill.step(&mut session.table, || false).is_none());
                    assert!((Duration::from_millis(1)..=OFTEN).contains(&kill.next_look()), "{:?}", kill.next_look());
                    assert!(kill.watched().is_empty());
                });
                kill.insist();
                without_descriptors(|| assert!(kill.step(&mut session.table, || false).is_none()));
                assert_eq!(finish(&mut kill, &mut session), (true, true));
                assert!(!is_running(victim));
            }
        }
    });
}

#[test]
fn a_foreground_kill_without_a_program_finds_nothing() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let _shell = session.start_shell();
            let mut kill = foreground(&mut session, LONG);
            kill.settle();
            assert_eq!(finish(&mut kill, &mut session), (false, false));
        }
    });
}

#[test]
fn a_foreground_kill_interrupts_a_stopped_shell_first() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        // This shell does not handle the signal, so the signal kills it.
        let shell = session.start(Role::Shell, "read line");
        nacre_containment::signal::send_to_child(shell.pid(), libc::SIGSTOP).unwrap();
        until("the shell stops", || Stat::read(shell.pid()).unwrap().state == b'T');
        let target = Target::Foreground { command: None, spare: Vec::new() };
        OrderedKill::start(5, target, libc::SIGTERM, LONG, &mut session.table, || false);
        let signal = Some(nacre_containment::signal::INTERRUPT);
        assert_eq!(session.next_reports(), [Report::ShellEnded { pid: shell.pid(), code: None, signal }]);
    });
}

#[test]
fn a_foreground_kill_asks_a_program_that_has_replaced_the_shell() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            // It does not handle the interrupt either.
            let program =
                session.start(Role::Shell, "trap 'echo asked' TERM; echo ready; while :; do sleep 0.01; done");
            assert_eq!(program.line(), "ready");
            let mut kill = foreground(&mut session, LONG);
            assert_eq!(program.line(), "asked");
            assert!(kill.step(&mut session.table, || false).is_none(), "it still runs");
            kill.insist();
            until("the program ends", || {
                let _ = kill.step(&mut session.table, || false);
                !is_running(program.pid())
            });
            let signal = Some(libc::SIGKILL);
            assert_eq!(session.next_reports(), [Report::ShellEnded { pid: program.pid(), code: None, signal }]);
            kill.settle();
            assert_eq!(finish(&mut kill, &mut session), (true, true));
        }
    });
}

#[test]
fn a_program_is_asked_once_and_killed_when_the_caller_insists() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = stubborn(&mut shell);
            let mut kill = foreground(&mut session, LONG);
            assert_eq!(shell.line(), "asked");
            kill.settle();
            let begun = Instant::now();
            until("a fork has had time to become a program", || {
                assert!(kill.step(&mut session.table, || false).is_none());
                begun.elapsed() > YOUNG && kill.next_look() > YOUNG
            });
            assert!(!shell.has_output() && is_running(program), "it is asked once");
            kill.insist();
            assert!(kill.next_look().is_zero());
            assert_eq!(finish(&mut kill, &mut session), (true, true));
            shell.write("echo alive");
            assert_eq!(shell.line(), "alive");
        }
    });
}

/// A child of this process that is a fork of the shell, as that of a standby is.
fn fork_of_a_standby(shell: &mut Started) -> Pid {
    shell.write("( (echo $BASHPID; while :; do read -t 1 <> <(:); done) & )");
    let fork = shell.pid_line();
    let own = std::process::id() as i32;
    until("its parent has ended", || Stat::read(fork).is_some_and(|stat| stat.parent == own));
    fork
}

/// Whether the end of the session gives a process time to end.
fn is_asked(session: &Session, pid: Pid) -> bool {
    session.table.workload().unwrap().iter().any(|stat| stat.identity.pid == pid)
}

#[test]
fn a_fork_that_the_host_has_announced_is_spared_until_it_is_named() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let fork = fork_of_a_standby(&mut shell);
            // The announcement has not been read yet.
            let mut kill = OrderedKill::start(
                5,
                Target::Foreground { command: Some(1), spare: Vec::new() },
                libc::SIGTERM,
                LONG,
                &mut session.table,
                || true,
            );
            assert!(kill.step(&mut session.table, || true).is_none());
            assert!(is_asked(&session, fork));
            session.table.expects_forks = true;
            assert!(!is_asked(&session, fork), "an expected fork needs no grace time at the end");
            kill.settle();
            for insists in [false, true] {
                if insists {
                    kill.insist();
                }
                assert!(kill.step(&mut session.table, || false).is_none(), "the host has not named it");
                assert!(is_running(fork));
            }
            session.table.expects_forks = false;
            let (_, escalated) = finish(&mut kill, &mut session);
            assert!(escalated && !is_running(fork));
        }
    });
}

#[test]
fn a_process_is_asked_to_end_while_the_host_expects_forks() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let fork = fork_of_a_standby(&mut shell);
            session.table.expects_forks = true;
            assert!(!is_asked(&session, fork));
            let root = Stat::read(fork).unwrap().identity;
            let guardian = Pid::new(std::process::id() as i32).unwrap();
            let tree = Tree { root, group: None, mark: "test-1".into(), guardian, spare: Vec::new() };
            session.table.processes.add(1, tree, None);
            assert!(is_asked(&session, fork), "the host has named it");
        }
    });
}

#[test]
fn a_stopped_program_acts_on_the_request() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = shell.background();
            nacre_containment::signal::send_to(Stat::read(program).unwrap().identity, libc::SIGSTOP).unwrap();
            until("it stops", || Stat::read(program).unwrap().state == b'T');
            let mut kill = foreground(&mut session, LONG);
            kill.settle();
            assert_eq!(finish(&mut kill, &mut session), (true, false));
        }
    });
}

#[test]
fn sigkill_follows_the_grace_time() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = stubborn(&mut shell);
            let mut kill = foreground(&mut session, Duration::from_millis(100));
            assert_eq!(shell.line(), "asked");
            until("the grace time is over", || kill.ladder.is_overdue());
            assert!(is_running(program) && !kill.ladder.is_killing());
            kill.settle();
            assert_eq!(finish(&mut kill, &mut session), (true, true));
            assert!(!is_running(program));
        }
    });
}

#[test]
fn what_the_exit_trap_starts_is_spared_until_the_shell_has_settled() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let mut kill = foreground(&mut session, LONG);
            kill.trap_runs();
            let program = shell.background();
            for _ in 0..5 {
                assert!(kill.step(&mut session.table, || false).is_none());
            }
            assert!(is_running(program) && kill.found);
            kill.settle();
            assert_eq!(finish(&mut kill, &mut session), (true, false));
            assert!(!is_running(program));
        }
    });
}

#[test]
fn without_an_exit_trap_a_new_program_is_asked_at_the_next_look() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let mut kill = foreground(&mut session, LONG);
            let program = shell.background();
            until("the program ends", || {
                assert!(kill.step(&mut session.table, || false).is_none());
                !is_running(program)
            });
        }
    });
}

#[test]
fn an_exit_trap_does_not_outlive_the_grace_time() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let mut kill = foreground(&mut session, LONG);
            kill.trap_runs();
            let program = shell.background();
            assert!(kill.step(&mut session.table, || false).is_none() && is_running(program));
            kill.insist();
            assert!(kill.step(&mut session.table, || false).is_none());
            assert!(kill.ladder.is_killing() && kill.next_look() <= Duration::from_millis(1));
            until("the program dies", || !is_running(program));
            kill.settle();
            assert_eq!(finish(&mut kill, &mut session), (true, true));
        }
    });
}

#[test]
fn a_process_kill_ends_the_whole_tree_and_nothing_else() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let root = session.start(process(1), "sleep 600 & (sleep 600 & echo $!; wait) & wait");
            let (orphan, other) = (root.pid_line(), session.start(process(2), "read line"));
            let mut kill = of_process(&mut session, 1, LONG);
            assert_eq!((kill.id(), kill.is_foreground()), (6, false));
            assert_eq!(finish(&mut kill, &mut session), (true, false));
            assert!(!is_running(root.pid()) && !is_running(orphan) && is_running(other.pid()));
            let signal = Some(libc::SIGTERM);
            let ended = Report::ProcessEnded { key: 1, code: None, signal, out_of_memory: false, asked: Asked::Alone };
            assert_eq!(session.reports(), [ended]);
        }
    });
}

#[test]
fn a_process_kill_kills_a_tree_that_ignores_the_request() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let root = session.start(process(1), "trap '' TERM; sleep 600 & echo $!; wait");
            let child = root.pid_line();
            let mut kill = of_process(&mut session, 1, LONG);
            assert!(kill.step(&mut session.table, || false).is_none());
            assert!(is_running(root.pid()) && is_running(child));
            kill.insist();
            assert_eq!(finish(&mut kill, &mut session), (true, true));
            assert!(!is_running(root.pid()) && !is_running(child));
        }
    });
}

#[test]
fn a_kill_for_an_unknown_process_finds_nothing() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut kill = of_process(&mut session, 77, Duration::ZERO);
            assert_eq!(finish(&mut kill, &mut session), (false, false));
        }
    });
}

#[test]
fn a_fork_that_may_have_missed_the_signal_is_asked_again() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let _root = session.start(process(1), "trap '' TERM; exec 8<&0; (read line <&8; :) & read line");
            until("the fork waits", || session.table.processes.tree(1).unwrap().members().unwrap().len() == 2);
            let mut kill = of_process(&mut session, 1, LONG);
            let begun = Instant::now();
            until("the kill looks less often", || {
                assert!(kill.step(&mut session.table, || false).is_none());
                begun.elapsed() > YOUNG
            });
            assert!(kill.step(&mut session.table, || false).is_none());
            assert!(kill.next_look() <= YOUNG, "it looks again long before the grace time is over");
            kill.insist();
            assert_eq!(finish(&mut kill, &mut session), (true, true));
        }
    });
}

#[test]
fn a_foreground_kill_spares_older_trees() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let (older, younger) = (shell.background(), shell.background());
            let target = Target::Foreground { command: Some(2), spare: vec![older] };
            let mut kill = OrderedKill::start(1, target, libc::SIGTERM, LONG, &mut session.table, || false);
            kill.settle();
            assert_eq!(finish(&mut kill, &mut session), (true, false));
            assert!(is_running(older) && !is_running(younger));
        }
    });
}
