use super::*;
use crate::testing::own_process::{in_own_process, until};
use crate::testing::{Session, is_running, process, spawn_child};
use nacre_protocol::supervisor::Asked;

/// Handles waiting orders as the event loop does.
fn execute_orders(session: &mut Session, kills: &mut Vec<OrderedKill>) {
    while is_readable(session.setting.control.as_fd()) {
        let (order, descriptors) = message::receive::<Order>(session.setting.control.as_fd()).unwrap().unwrap();
        execute(order, descriptors, &mut session.table, kills, None, (&session.setting, &session.setup));
    }
}

#[test]
fn a_kill_that_ends_reaps_no_process_whose_adoption_is_waiting() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let killed = session.start(process(1), "exec sleep 600");
        let target = Target::Process { key: 1 };
        let mut kills =
            vec![OrderedKill::start(6, target, libc::SIGKILL, Duration::ZERO, &mut session.table, || false)];
        until("the process ends", || !is_running(killed.pid()));
        let newborn = spawn_child("exit 7", None);
        until("the newborn ends", || !is_running(newborn));
        session.order(&Order::Adopt {
            key: 2,
            pid: newborn,
            group: None,
            mark: "test-2".into(),
            limits: Default::default(),
        });
        let mut reports = Vec::new();
        until("the kill ends", || {
            step_kills(&mut kills, &[true], &mut session.table, &session.setting);
            execute_orders(&mut session, &mut kills);
            reports.extend(session.reports());
            kills.is_empty()
        });
        let of_newborn =
            Report::ProcessEnded { key: 2, code: Some(7), signal: None, out_of_memory: false, asked: Asked::No };
        assert!(reports.contains(&of_newborn), "{reports:?}");
        let ends =
            |report: &Report| matches!(report, Report::ProcessEnded { key: 1, .. } | Report::ProcessKilled { .. });
        let ends: Vec<_> = reports.iter().filter(|report| ends(report)).collect();
        assert!(matches!(ends[..], [Report::ProcessEnded { .. }, Report::ProcessKilled { id: 6, .. }]), "{ends:?}");
    });
}

#[test]
fn a_supervisor_that_cannot_look_reports_no_end_of_a_process_that_lives() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let standby = session.start(process(1), "exec sleep 600");
        session.order(&Order::Standby { pid: standby.pid(), group: None });
        // SAFETY: no other thread of this test program holds a lock: they wait.
        let supervisor = unsafe { libc::fork() };
        if supervisor == 0 {
            let (soft, hard) = (3, 3);
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, soft, hard).unwrap();
            execute_orders(&mut session, &mut Vec::new());
            std::process::exit(0);
        }
        let supervisor = nix::unistd::Pid::from_raw(supervisor);
        let status = nix::sys::wait::waitpid(supervisor, None).unwrap();
        assert_eq!(status, nix::sys::wait::WaitStatus::Exited(supervisor, 1));
        assert_eq!(session.reports(), []);
        session.table.kill_all();
        until("the standby ends", || {
            reap_unless_ordered(&mut session.table, &session.setting, || false)
                && session.table.processes.roots().next().is_none()
        });
    });
}
