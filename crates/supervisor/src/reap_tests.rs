use super::*;
use crate::testing::own_process::{in_own_process, until};
use crate::testing::{Session, process, spawn_child};
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_protocol::supervisor::Asked;

#[test]
fn reports_the_exit_code_or_the_signal_of_a_process() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        for (key, script, code, signal) in [
            (1, "exit 0", Some(0), None),
            (2, "exit 255", Some(255), None),
            (3, "kill -TERM $$", None, Some(libc::SIGTERM)),
            (4, "kill -KILL $$", None, Some(libc::SIGKILL)),
        ] {
            session.start(process(key), script);
            let ended = Report::ProcessEnded { key, code, signal, out_of_memory: false, asked: Asked::No };
            assert_eq!(session.next_reports(), [ended]);
        }
        // The signal that interrupts a command has no name in nix.
        let sleeper = session.start(process(5), "exec sleep 600");
        signal::interrupt_child(sleeper.pid(), 1).unwrap();
        let signal = Some(signal::INTERRUPT);
        let ended = Report::ProcessEnded { key: 5, code: None, signal, out_of_memory: false, asked: Asked::No };
        assert_eq!(session.next_reports(), [ended]);
    });
}

#[test]
fn a_stopped_child_has_not_ended() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let process = session.start(process(1), "exec sleep 600");
        signal::send_to_child(process.pid(), libc::SIGSTOP).unwrap();
        until("it stops", || Stat::read(process.pid()).unwrap().state == b'T');
        assert!(!reap(&mut session.table, &session.setting));
        assert!(session.reports().is_empty() && session.table.processes.roots().count() == 1);
    });
}

#[test]
fn orphans_are_reaped_without_a_report_until_no_child_is_left() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        // The inner shell loses its parent and becomes a child of this process.
        spawn_child("(exec sleep 0.05) & exit 0", None);
        until("no child is left", || reap(&mut session.table, &session.setting));
        assert!(session.reports().is_empty());
    });
}
