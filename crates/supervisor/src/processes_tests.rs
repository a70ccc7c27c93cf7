use crate::fixture::{Session, is_running, process};
use crate::own_process::{in_own_process, until};
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;

/// Starts a process with a script that prints a line, asks it to end, and returns whether it was alone then.
fn is_alone(session: &mut Session, key: u64, script: &str, ready: impl Fn(&[Stat]) -> bool) -> bool {
    let started = session.start(process(key), script);
    assert_eq!(started.line(), "ready");
    let members = |session: &Session| session.table.processes.tree(key).unwrap().members();
    until("the script has come to its last command", || ready(&members(session)));
    let alive = members(session);
    session.table.processes.about_to_ask(Some(key), &alive);
    session.table.processes.was_alone(key)
}

fn has_sleep(members: &[Stat]) -> bool {
    members.iter().any(|stat| stat.name.starts_with(b"sleep\0"))
}

#[test]
fn only_a_foreground_program_keeps_a_process_from_being_alone() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let session = &mut session;
            assert!(!is_alone(session, 1, "echo ready; sleep 600; :", has_sleep));
            assert!(is_alone(session, 2, "echo ready; read line", |_| true));
            assert!(is_alone(session, 3, "echo ready; sleep 600 & read line", has_sleep), "a background program");
            assert!(is_alone(session, 4, "echo ready; (read line); :", |all| all.len() == 2), "a fork");
            assert!(!session.table.processes.was_alone(5), "an unknown process");
        }
    });
}

#[test]
fn the_first_request_to_end_decides_whether_a_process_was_alone() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let mut shell = session.start(process(1), "echo ready; read line; sleep 600; :");
        let other = session.start(process(2), "read line");
        assert_eq!(shell.line(), "ready");
        let members = |session: &Session| session.table.processes.tree(1).unwrap().members();
        let alive = members(&session);
        session.table.processes.about_to_ask(Some(1), &alive);
        assert!(session.table.processes.was_alone(1) && !session.table.processes.was_alone(2));
        shell.write("");
        until("a program runs", || has_sleep(&members(&session)));
        // Without a key, all of them are asked.
        let alive = session.table.workload();
        session.table.processes.about_to_ask(None, &alive);
        assert!(session.table.processes.was_alone(1) && session.table.processes.was_alone(2));
        assert!(is_running(other.pid()));
    });
}

#[test]
fn a_process_is_reaped_once_and_forgotten_when_its_tree_is_empty() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut root = session.start(process(9), "sleep 600 & echo $!; read line");
            let child = root.pid_line();
            let processes = |session: &Session| session.table.processes.roots().collect::<Vec<_>>();
            assert_eq!(processes(&session), [root.pid()]);
            assert!(session.table.processes.own(&Stat::read(root.pid()).unwrap()));
            root.write("");
            session.next_reports();
            // Its pid is meaningless now, but a descendant is left.
            assert_eq!((session.table.processes.reaped(root.pid()), processes(&session)), (None, vec![]));
            assert!(session.table.processes.tree(9).is_some() && !session.table.processes.ran_out_of_memory(9));
            signal::send_to(Stat::read(child).unwrap().identity, libc::SIGKILL).unwrap();
            until("the process is forgotten", || {
                crate::reap::reap(&mut session.table, &session.setting);
                session.table.processes.tree(9).is_none()
            });
            assert!(root.group.is_none_or(|group| !std::path::Path::new(&group).exists()));
        }
    });
}
