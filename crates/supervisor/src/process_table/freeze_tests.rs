use super::*;
use crate::ordered_kill::{OrderedKill, Target};
use crate::testing::own_process::{in_own_process, until};
use crate::testing::{Session, Started, is_running, process};
use nacre_containment::signal;

/// Looks until the answer arrives.
fn answer(session: &mut Session) -> Report {
    let mut report = None;
    until("the freeze is answered", || {
        report = session.table.step_freeze();
        report.is_some()
    });
    report.unwrap()
}

fn is_stopped(pid: Pid) -> bool {
    let before = Stat::read(pid).unwrap().cpu_ticks;
    // A busy loop uses a tick each 10 ms.
    std::thread::sleep(Duration::from_millis(50));
    Stat::read(pid).unwrap().cpu_ticks == before
}

/// A process that uses the processor all the time, but ends on SIGTERM.
fn idle(id: u64, session: &Session) -> Report {
    Report::Frozen { id, programs: Vec::new(), count: 0, foreground: session.table.foreground_group() }
}

fn start_busy(session: &mut Session, key: u64) -> Started {
    let started = session.start(process(key), "trap 'exit 7' TERM; echo; while :; do :; done");
    started.line();
    started
}

fn kill(session: &mut Session, key: u64, signal: i32, grace: Duration) {
    session.table.spare_from_freeze(key);
    let mut kill = OrderedKill::start(1, Target::Process { key }, signal, grace, &mut session.table, || false);
    until("the kill ends", || {
        crate::reap::reap(&mut session.table, &session.setting);
        kill.step(&mut session.table, || false).is_some()
    });
}

#[test]
fn programs_stop_and_go_on_while_the_shell_and_the_standby_run() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let mut shell = session.start_shell();
        let busy = start_busy(&mut session, 1);
        shell.write("while :; do :; done & echo $!");
        let job = shell.pid_line();
        let before = session.table.foreground_group();
        session.table.freeze(5, false);
        let Report::Frozen { id: 5, programs, count, foreground } = answer(&mut session) else { panic!("not frozen") };
        assert_eq!(count as usize, programs.len());
        assert!([busy.pid(), job].iter().all(|pid| programs.iter().any(|program| program.pid == *pid)), "{programs:?}");
        assert!(foreground.directory.is_some() && foreground != before, "the shell has left the group of the job");
        assert!(is_stopped(busy.pid()) && is_stopped(job));
        shell.write("echo lives");
        assert_eq!(shell.line(), "lives");
        session.table.thaw();
        until("both go on", || !is_stopped(busy.pid()) && !is_stopped(job));
    });
}

#[test]
fn a_frozen_process_is_killed_at_once_by_sigkill_and_after_its_trap_by_another_signal() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let _shell = session.start_shell();
        let [killed, asked, other] = [1, 2, 3].map(|key| start_busy(&mut session, key));
        session.table.freeze(5, false);
        assert!(matches!(answer(&mut session), Report::Frozen { .. }));
        kill(&mut session, 1, libc::SIGKILL, Duration::ZERO);
        kill(&mut session, 2, libc::SIGTERM, Duration::from_secs(60));
        let ends: Vec<_> = session.reports();
        let is_end = |report: &Report, key, code, signal| matches!(report, Report::ProcessEnded { key: k, code: c, signal: s, .. } if (*k, *c, *s) == (key, code, signal));
        assert!(ends.iter().any(|report| is_end(report, 1, None, Some(libc::SIGKILL))), "{ends:?}");
        assert!(ends.iter().any(|report| is_end(report, 2, Some(7), None)), "{ends:?}");
        assert!(!is_running(killed.pid()) && !is_running(asked.pid()) && is_stopped(other.pid()));
        // The end of the session kills frozen processes, too.
        session.table.kill_all();
        until("it ends", || !is_running(other.pid()));
    });
}

#[test]
fn a_process_that_is_being_killed_is_not_frozen() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let busy = start_busy(&mut session, 1);
        session.table.freeze(5, false);
        session.table.spare_from_freeze(1);
        assert!(matches!(answer(&mut session), Report::Frozen { id: 5, .. }));
        until("it still runs", || !is_stopped(busy.pid()));
    });
}

#[test]
fn without_groups_the_programs_are_named_and_nothing_is_stopped() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let mut shell = session.start_shell();
        let standby = session.start(process(9), "exec sleep 600");
        assert!(session.table.set_standby(standby.pid(), None));
        session.table.freeze(1, false);
        assert_eq!(answer(&mut session), idle(1, &session));
        session.table.thaw();
        let job = shell.background();
        session.table.freeze(2, false);
        let program = Program { pid: job, command: "sleep 600".into() };
        let foreground = session.table.foreground_group();
        let busy = Report::NotFrozen { id: 2, foreground, programs: vec![program], count: 1 };
        assert_eq!(answer(&mut session), busy);
        // A program that has been killed may take a moment to end.
        session.table.freeze(3, false);
        assert_eq!(session.table.step_freeze(), None);
        let target = Stat::read(job).unwrap().identity;
        signal::send_to(target, libc::SIGKILL).unwrap();
        assert_eq!(answer(&mut session), idle(3, &session));
    });
}

#[test]
fn a_program_outside_of_the_groups_is_named_and_nothing_stays_frozen() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let busy = start_busy(&mut session, 1);
        let outside = crate::testing::spawn_sleeper(None);
        session.table.freeze(5, false);
        // Sooner than the kernel's time to stop the others.
        session.table.freeze.as_mut().unwrap().wait.as_mut().unwrap().begun = Instant::now() - STOPPING;
        let Report::NotFrozen { id: 5, programs, .. } = answer(&mut session) else { panic!("frozen") };
        assert!(programs.iter().any(|program| program.pid == outside), "{programs:?}");
        until("the other goes on", || !is_stopped(busy.pid()));
    });
}

#[test]
fn a_freeze_that_needs_an_idle_session_waits_only_for_programs_that_die() {
    in_own_process(|| {
        for has_groups in [true, false] {
            let session = if has_groups { Session::with_groups() } else { Session::without_groups() };
            let Some(mut session) = session else { continue };
            let mut shell = session.start_shell();
            session.table.freeze(1, true);
            assert_eq!(answer(&mut session), idle(1, &session));
            let job = shell.background();
            session.table.freeze(2, true);
            // The first look has the answer.
            let Some(Report::NotFrozen { id: 2, programs, .. }) = session.table.step_freeze() else { panic!("frozen") };
            assert_eq!(programs.iter().map(|program| program.pid).collect::<Vec<_>>(), [job]);
            let target = Stat::read(job).unwrap().identity;
            signal::send_to(target, libc::SIGTERM).unwrap();
            session.table.freeze(3, true);
            assert_eq!(answer(&mut session), idle(3, &session));
        }
    });
}
