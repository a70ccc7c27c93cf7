use super::*;
use crate::fixture::{Session, Started, is_running, process};
use crate::own_process::{in_own_process, until};
use crate::reap::reap;
use nacre_protocol::supervisor::{Report, Role};

const LONG: Duration = Duration::from_secs(600);

fn foreground(session: &mut Session, grace: Duration) -> Ladder {
    let target = Target::Foreground { command: 1, spare: Vec::new() };
    Ladder::start(Plan { id: 5, target, signal: libc::SIGTERM, grace }, &mut session.table)
}

fn of_process(session: &mut Session, key: u64, grace: Duration) -> Ladder {
    let target = Target::Process { key };
    Ladder::start(Plan { id: 6, target, signal: libc::SIGTERM, grace }, &mut session.table)
}

/// Steps until the ladder is finished, and reaps like the event loop.
fn finish(ladder: &mut Ladder, session: &mut Session) -> (bool, bool) {
    let mut outcome = None;
    until("the ladder is finished", || {
        outcome = ladder.step(&mut session.table);
        reap(&mut session.table, &session.setting);
        outcome.is_some()
    });
    outcome.map(|outcome| (outcome.found, outcome.escalated)).unwrap()
}

/// Makes the shell start a program that prints a line on SIGTERM but does not exit.
fn stubborn(shell: &mut Started) -> Pid {
    shell.write(r#"bash -c 'trap "echo asked" TERM; echo $$; while :; do read line; done'"#);
    shell.pid_line()
}

#[test]
fn a_foreground_ladder_ends_every_program_and_waits_until_the_shell_has_settled() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let programs = [shell.background(), shell.background()];
            let mut ladder = foreground(&mut session, LONG);
            assert_eq!((ladder.id(), ladder.is_foreground(), ladder.watched().len()), (5, true, 2));
            until("the programs end", || programs.iter().all(|pid| !is_running(*pid)));
            for _ in 0..3 {
                assert!(ladder.step(&mut session.table).is_none(), "the shell may still start something");
                assert!(ladder.next_look() <= UNSETTLED_LOOK);
            }
            ladder.settle();
            assert!(ladder.next_look().is_zero());
            assert_eq!(finish(&mut ladder, &mut session), (true, false));
            shell.write("echo alive");
            assert_eq!(shell.line(), "alive");
        }
    });
}

#[test]
fn a_foreground_ladder_without_a_program_finds_nothing() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let _shell = session.start_shell();
            let mut ladder = foreground(&mut session, LONG);
            ladder.settle();
            assert_eq!(finish(&mut ladder, &mut session), (false, false));
        }
    });
}

#[test]
fn a_foreground_ladder_interrupts_a_stopped_shell_first() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        // This shell does not handle the signal, so the signal kills it.
        let shell = session.start(Role::Shell, "read line");
        nacre_containment::signal::send_to_child(shell.pid(), libc::SIGSTOP).unwrap();
        until("the shell stops", || Stat::read(shell.pid()).unwrap().state == b'T');
        foreground(&mut session, LONG);
        let signal = Some(nacre_containment::signal::INTERRUPT);
        assert_eq!(session.next_reports(), [Report::ShellEnded { pid: shell.pid(), code: None, signal }]);
    });
}

#[test]
fn a_program_is_asked_once_and_killed_when_the_caller_insists() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = stubborn(&mut shell);
            let mut ladder = foreground(&mut session, LONG);
            assert_eq!(shell.line(), "asked");
            ladder.settle();
            let begun = Instant::now();
            until("a fork has had time to become a program", || {
                assert!(ladder.step(&mut session.table).is_none());
                begun.elapsed() > UNSETTLED_TIME && ladder.next_look() > UNSURE_LOOK
            });
            assert!(!shell.has_output() && is_running(program), "it is asked once");
            ladder.insist();
            assert!(ladder.next_look().is_zero());
            assert_eq!(finish(&mut ladder, &mut session), (true, true));
            shell.write("echo alive");
            assert_eq!(shell.line(), "alive");
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
            let mut ladder = foreground(&mut session, LONG);
            ladder.settle();
            assert_eq!(finish(&mut ladder, &mut session), (true, false));
        }
    });
}

#[test]
fn sigkill_follows_the_grace_time() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = stubborn(&mut shell);
            let mut ladder = foreground(&mut session, Duration::from_millis(100));
            assert_eq!(shell.line(), "asked");
            until("the grace time is over", || ladder.deadline <= Instant::now());
            assert!(is_running(program) && !ladder.killing);
            ladder.settle();
            assert_eq!(finish(&mut ladder, &mut session), (true, true));
            assert!(!is_running(program));
        }
    });
}

#[test]
fn what_the_exit_trap_starts_is_spared_until_the_shell_has_settled() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let mut ladder = foreground(&mut session, LONG);
            ladder.trap_runs();
            let program = shell.background();
            for _ in 0..5 {
                assert!(ladder.step(&mut session.table).is_none());
            }
            assert!(is_running(program) && ladder.signalled.is_empty() && ladder.found);
            ladder.settle();
            assert_eq!(finish(&mut ladder, &mut session), (true, false));
            assert!(!is_running(program));
        }
    });
}

#[test]
fn without_an_exit_trap_a_new_program_is_asked_at_the_next_look() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let mut ladder = foreground(&mut session, LONG);
            let program = shell.background();
            until("the program ends", || {
                assert!(ladder.step(&mut session.table).is_none());
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
            let mut ladder = foreground(&mut session, LONG);
            ladder.trap_runs();
            let program = shell.background();
            assert!(ladder.step(&mut session.table).is_none() && is_running(program));
            ladder.insist();
            assert!(ladder.step(&mut session.table).is_none());
            assert!(ladder.killing && ladder.next_look() <= Duration::from_millis(1));
            until("the program dies", || !is_running(program));
            ladder.settle();
            assert_eq!(finish(&mut ladder, &mut session), (true, true));
        }
    });
}

#[test]
fn a_process_ladder_ends_the_whole_tree_and_nothing_else() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let root = session.start(process(1), "sleep 600 & (sleep 600 & echo $!; wait) & wait");
            let (orphan, other) = (root.pid_line(), session.start(process(2), "read line"));
            let mut ladder = of_process(&mut session, 1, LONG);
            assert_eq!((ladder.id(), ladder.is_foreground()), (6, false));
            assert_eq!(finish(&mut ladder, &mut session), (true, false));
            assert!(!is_running(root.pid()) && !is_running(orphan) && is_running(other.pid()));
            let signal = Some(libc::SIGTERM);
            let ended = Report::ProcessEnded { key: 1, code: None, signal, out_of_memory: false, alone: true };
            assert_eq!(session.reports(), [ended]);
        }
    });
}

#[test]
fn a_process_ladder_kills_a_tree_that_ignores_the_request() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let root = session.start(process(1), "trap '' TERM; sleep 600 & echo $!; wait");
            let child = root.pid_line();
            let mut ladder = of_process(&mut session, 1, LONG);
            assert!(ladder.step(&mut session.table).is_none());
            assert!(is_running(root.pid()) && is_running(child));
            ladder.insist();
            assert_eq!(finish(&mut ladder, &mut session), (true, true));
            assert!(!is_running(root.pid()) && !is_running(child));
        }
    });
}

#[test]
fn a_ladder_for_an_unknown_process_finds_nothing() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut ladder = of_process(&mut session, 77, Duration::ZERO);
            assert_eq!(finish(&mut ladder, &mut session), (false, false));
        }
    });
}

#[test]
fn a_fork_that_may_have_missed_the_signal_is_asked_again() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let _root = session.start(process(1), "trap '' TERM; exec 8<&0; (read line <&8; :) & read line");
            until("the fork waits", || session.table.processes.tree(1).unwrap().members().len() == 2);
            let mut ladder = of_process(&mut session, 1, LONG);
            until("the ladder looks less often", || {
                assert!(ladder.step(&mut session.table).is_none());
                ladder.begun.elapsed() > UNSETTLED_TIME
            });
            assert!(ladder.step(&mut session.table).is_none());
            assert!(ladder.unsure && ladder.next_look() <= UNSURE_LOOK && ladder.signalled.len() == 1);
            ladder.insist();
            assert_eq!(finish(&mut ladder, &mut session), (true, true));
        }
    });
}

#[test]
fn a_foreground_ladder_spares_older_trees() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let (older, younger) = (shell.background(), shell.background());
            let target = Target::Foreground { command: 2, spare: vec![older] };
            let plan = Plan { id: 1, target, signal: libc::SIGTERM, grace: LONG };
            let mut ladder = Ladder::start(plan, &mut session.table);
            ladder.settle();
            assert_eq!(finish(&mut ladder, &mut session), (true, false));
            assert!(is_running(older) && !is_running(younger));
        }
    });
}
