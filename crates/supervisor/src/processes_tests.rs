use crate::testing::own_process::{in_own_process, until};
use crate::testing::{Session, is_running, process};
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_protocol::supervisor::Asked;

/// Starts a process with a script that prints a line, asks it to end, and returns what it ran then.
fn ask(session: &mut Session, key: u64, script: &str, ready: impl Fn(&[Stat]) -> bool) -> Asked {
    let started = session.start(process(key), script);
    assert_eq!(started.line(), "ready");
    let members = |session: &Session| session.table.processes.tree(key).unwrap().members().unwrap();
    until("the script has come to its last command", || ready(&members(session)));
    let alive = members(session);
    session.table.processes.about_to_ask(Some(key), &alive);
    session.table.processes.asked(key)
}

fn has_sleep(members: &[Stat]) -> bool {
    members.iter().any(|stat| stat.name.starts_with(b"sleep\0"))
}

#[test]
fn what_a_process_runs_when_it_is_asked_to_end() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let session = &mut session;
            assert_eq!(ask(session, 1, "echo ready; sleep 600; :", has_sleep), Asked::WithProgram);
            assert_eq!(ask(session, 2, "echo ready; read line", |_| true), Asked::Alone);
            assert_eq!(
                ask(session, 3, "echo ready; sleep 600 & read line", has_sleep),
                Asked::Alone,
                "a background program"
            );
            assert_eq!(ask(session, 4, "echo ready; (read line); :", |all| all.len() == 2), Asked::Alone, "a fork");
            let ended = |members: &[Stat]| members.is_empty();
            assert_eq!(ask(session, 5, "echo ready", ended), Asked::No, "it had ended by itself");
            assert_eq!(session.table.processes.asked(6), Asked::No, "an unknown process");
        }
    });
}

#[test]
fn the_first_request_to_end_decides_what_a_process_ran() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let mut shell = session.start(process(1), "echo ready; read line; sleep 600; :");
        let other = session.start(process(2), "read line");
        assert_eq!(shell.line(), "ready");
        let members = |session: &Session| session.table.processes.tree(1).unwrap().members().unwrap();
        let alive = members(&session);
        session.table.processes.about_to_ask(Some(1), &alive);
        let asked = |session: &Session| [1, 2].map(|key| session.table.processes.asked(key));
        assert_eq!(asked(&session), [Asked::Alone, Asked::No]);
        shell.write("");
        until("a program runs", || has_sleep(&members(&session)));
        // Without a key, all of them are asked.
        let alive = session.table.workload().unwrap();
        session.table.processes.about_to_ask(None, &alive);
        assert_eq!(asked(&session), [Asked::Alone, Asked::Alone]);
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
            assert!(session.table.processes.own(&Stat::read(root.pid()).unwrap()).unwrap());
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
