use super::*;
use crate::testing::own_process::{in_own_process, until, without_descriptors};
use crate::testing::{Session, is_running, process, spawn_child, spawn_sleeper};
use nacre_protocol::standing::RunAs;
use nacre_protocol::supervisor::{Asked, Report};
use std::path::Path;

fn pids(listed: &[Stat]) -> Vec<Pid> {
    let mut pids: Vec<Pid> = listed.iter().map(|stat| stat.identity.pid).collect();
    pids.sort();
    pids
}

fn sorted<const N: usize>(mut pids: [Pid; N]) -> Vec<Pid> {
    pids.sort();
    pids.to_vec()
}

#[test]
fn a_shell_starts_in_the_foreground_group_and_its_end_is_reported() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            assert_eq!((session.table.shell(), &shell.group), (Some(shell.pid()), &session.table.group_directory()));
            shell.write("pwd; exit 3");
            assert_eq!(shell.line(), "/");
            let ended = Report::ShellEnded { pid: shell.pid(), code: Some(3), signal: None };
            assert_eq!((session.next_reports(), session.table.shell()), (vec![ended], None));
        }
    });
}

#[test]
fn a_process_gets_a_mark_and_a_group_if_there_are_groups() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut process = session.start(process(7), "echo \"mark:$NACRE_PROCESS\"; read line");
            let groups = session.table.group_directory().is_some();
            assert_eq!(process.line(), "mark:test-7");
            assert_eq!((process.group.is_some(), session.table.shell()), (groups, None));
            assert_eq!(pids(&session.table.processes.tree(7).unwrap().members().unwrap()), [process.pid()]);
            assert_eq!(pids(&session.table.workload().unwrap()), [process.pid()]);
            process.write("");
            let ended =
                Report::ProcessEnded { key: 7, code: Some(0), signal: None, out_of_memory: false, asked: Asked::No };
            assert_eq!(session.next_reports(), [ended]);
            assert!(process.group.is_none_or(|group| !Path::new(&group).exists()), "the group is removed");
        }
    });
}

#[test]
fn a_failed_start_names_the_step_and_leaves_no_group() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let start =
                |session: &mut Session| session.try_start(process(1), Some("exit")).err().map(|it| (it.step, it.errno));
            session.setup.cwd = "/missing".into();
            assert_eq!(start(&mut session), Some((StartStep::Cwd, libc::ENOENT)));
            session.setup.cwd = "/".into();
            session.setup.shell = "/missing".into();
            assert_eq!(start(&mut session), Some((StartStep::Exec, libc::ENOENT)));
            session.setup.shell = "/bin/bash".into();
            // More than the kernel has pids for, if the group has the controller at all.
            let limits = Limits { pids: Some(u64::MAX), ..Limits::default() };
            let limited = Role::Process { key: 1, mark: String::new(), limits, terminal: false };
            let failure = session.try_start(limited, Some("exit")).err().unwrap();
            assert_eq!((failure.step, failure.errno), (StartStep::Limits, libc::EINVAL));
            // Root cannot set such a group, and other users cannot set any. A fork into a control group does not
            // prepare the C library's change of user for the threads of a test program; the supervisor has only one
            // thread.
            if session.table.group_directory().is_none() {
                session.setup.user = Some(RunAs { uid: 1, gid: 1, groups: vec![u32::MAX] });
                assert_eq!(start(&mut session).map(|(step, _)| step), Some(StartStep::User));
            }
            session.setup.user = None;
            assert!(session.table.processes.tree(1).is_none() && session.table.workload().unwrap().is_empty());
            if session.table.group_directory().is_some() {
                let entries = std::fs::read_dir(session.directory()).unwrap().flatten();
                let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
                assert_eq!(groups.count(), 1, "only the foreground group");
            }
        }
    });
}

#[test]
fn limits_without_a_group_prevent_the_start() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let limits = Limits { pids: Some(50), ..Limits::default() };
        let role = Role::Process { key: 1, mark: String::new(), limits: limits.clone(), terminal: false };
        let failure = session.try_start(role, Some("exit")).err().unwrap();
        assert_eq!((failure.step, failure.errno), (StartStep::Limits, libc::EINVAL));
        let child = spawn_sleeper(None);
        let (identity, group, problem) = session.table.adopt(2, child, None, String::new(), &limits);
        assert_eq!((identity.map(|it| it.pid), group), (Some(child), None));
        assert_eq!(problem, Some(LimitProblem::NoGroup));
    });
}

#[test]
fn limits_of_an_adopted_process_are_in_force_or_the_problem_is_reported() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let available = std::fs::read_to_string(session.directory().join("cgroup.controllers")).unwrap();
        let limits = Limits { pids: Some(50), ..Limits::default() };
        let (_, group, problem) = session.table.adopt(2, spawn_sleeper(None), None, String::new(), &limits);
        if available.split_whitespace().any(|name| name == "pids") {
            let limit = std::fs::read_to_string(Path::new(&group.unwrap()).join("pids.max")).unwrap();
            assert_eq!((problem, limit.trim()), (None, "50"));
        } else {
            assert!(problem.unwrap().to_string().contains("pids"));
        }
    });
}

#[test]
fn a_session_goes_on_without_groups_when_they_refuse_processes() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let directory = session.directory();
        std::fs::remove_dir(session.table.group_directory().unwrap()).unwrap();
        let shell = session.start_shell();
        assert_eq!((session.table.group_directory(), shell.group), (None, None));
        assert!(is_running(shell.identity.pid) && !directory.exists());
        session.table.rotate();
        assert!(session.table.leave_foreground_group().is_none());
    });
}

#[test]
fn nothing_starts_outside_of_the_group_that_limits_the_whole_sandbox() {
    in_own_process(|| {
        let Ok(directory) = cgroup::probe() else { return };
        let sandbox = directory.join(cgroup::name_of_sandbox(&std::process::id().to_string()));
        let refused = |session: &mut Session| {
            let failure = session.try_start(Role::Shell, None).err();
            assert_eq!(failure.map(|failure| failure.step), Some(StartStep::Group));
        };
        refused(&mut Session::in_group(sandbox.join("session")));
        let sandbox = Group::create(&directory, sandbox.file_name().unwrap().to_str().unwrap()).unwrap();
        let mut session = Session::in_group(sandbox.path().join("session"));
        std::fs::remove_dir(session.table.group_directory().unwrap()).unwrap();
        refused(&mut session);
        sandbox.remove().unwrap();
    });
}

#[test]
fn a_standby_replaces_the_previous_standby() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let group = session.table.group_directory().map(|_| Group::create(&session.directory(), "s-1").unwrap());
            let named = group.as_ref().map(|group| group.path().display().to_string());
            let (first, second) = (spawn_sleeper(group.as_ref()), spawn_sleeper(None));
            assert!(session.table.set_standby(first, named.as_ref()));
            assert!(!session.table.set_standby(Pid::new(i32::MAX).unwrap(), None), "no child");
            assert_eq!(session.table.standby(), Some(first));
            assert!(session.table.set_standby(second, None));
            assert_eq!(session.table.standby(), Some(second));
            // The first standby has left the table, so its end is that of an orphan.
            until("the first standby is reaped", || {
                crate::reap::reap(&mut session.table, &session.setting);
                Stat::read(first).is_none() && group.as_ref().is_none_or(|group| !group.path().exists())
            });
            assert!(session.reports().is_empty() && is_running(second));
            nacre_containment::signal::send_to_child(second, libc::SIGKILL).unwrap();
            assert_eq!(session.next_reports(), [Report::StandbyEnded { pid: second }]);
            assert_eq!((session.table.standby(), session.table.promote()), (None, None));
        }
    });
}

#[test]
fn a_grandchild_cannot_become_the_standby_or_be_adopted() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let grandchild = shell.background();
            assert!(!session.table.set_standby(grandchild, None));
            let adopted = session.table.adopt(1, grandchild, None, String::new(), &Limits::default());
            assert_eq!(adopted, (None, None, None));
            assert!(session.table.processes.tree(1).is_none());
        }
    });
}

#[test]
fn a_promoted_standby_is_the_shell_and_brings_its_group() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let before = session.table.group_directory();
            let group = before.as_ref().map(|_| Group::create(&session.directory(), "s-1").unwrap());
            let named = group.as_ref().map(|group| group.path().display().to_string());
            let standby = spawn_sleeper(group.as_ref());
            assert!(session.table.set_standby(standby, named.as_ref()));
            assert_eq!(session.table.promote(), Some(standby));
            assert_eq!((session.table.shell(), session.table.standby()), (Some(standby), None));
            assert_eq!(session.table.group_directory(), named);
            assert!(before.is_none_or(|before| !Path::new(&before).exists()), "the empty group is removed");
            // A standby without a group leaves the foreground group as it is.
            let second = spawn_sleeper(None);
            assert!(session.table.set_standby(second, None));
            assert_eq!((session.table.promote(), session.table.group_directory()), (Some(second), named));
        }
    });
}

#[test]
fn an_adopted_child_is_a_process_with_a_group() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let group = session.table.group_directory().map(|_| Group::create(&session.directory(), "j-1").unwrap());
            let named = group.as_ref().map(|group| group.path().display().to_string());
            let (born_there, moved) = (spawn_sleeper(group.as_ref()), spawn_sleeper(None));
            let mut adopt =
                |key, pid, named| session.table.adopt(key, pid, named, format!("m-{key}"), &Limits::default());
            let (identity, directory, problem) = adopt(1, born_there, named.as_ref());
            assert_eq!((identity.map(|it| it.pid), &directory, problem), (Some(born_there), &named, None));
            let (identity, directory, problem) = adopt(2, moved, None);
            assert_eq!((identity.map(|it| it.pid), problem), (Some(moved), None));
            assert_eq!(directory.is_some(), group.is_some());
            assert!(directory.is_none() || directory != named, "the moved process has a group to itself");
            for (key, pid) in [(1, born_there), (2, moved)] {
                assert_eq!(pids(&session.table.processes.tree(key).unwrap().members().unwrap()), [pid]);
            }
            let dead = Pid::new(i32::MAX).unwrap();
            let adopted = session.table.adopt(3, dead, None, String::new(), &Limits::default());
            assert_eq!(adopted, (None, None, None));
        }
    });
}

#[test]
fn a_rotation_leaves_older_programs_in_their_group() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let mut shell = session.start_shell();
        let older = shell.background();
        let sheltered = spawn_sleeper(Some(&Group::at(session.table.group_directory().unwrap())));
        assert!(session.table.set_standby(sheltered, None));
        let before = Group::at(session.table.group_directory().unwrap());
        session.table.rotate();
        let after = Group::at(session.table.group_directory().unwrap());
        assert_eq!(before.members().unwrap(), [older]);
        let mut members = after.members().unwrap();
        members.sort();
        assert_eq!(members, sorted([shell.pid(), sheltered]));
        let younger = shell.background();
        assert_eq!(pids(&session.table.foreground(&[]).unwrap()), [younger]);
        nacre_containment::signal::send_to(Stat::read(older).unwrap().identity, libc::SIGKILL).unwrap();
        until("the old group is removed", || {
            session.table.tidy();
            !before.path().exists()
        });
    });
}

/// A command can take the descriptors of its supervisor away (prlimit(2)).
#[test]
fn a_table_that_cannot_be_read_is_an_error_and_loses_no_process() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = shell.background();
            let process = session.start(process(1), "sleep 600 & echo $!");
            let left = process.pid_line();
            session.next_reports();
            without_descriptors(|| {
                session.table.tidy();
                assert!(session.table.workload().is_err());
                assert!(session.table.foreground(&[]).is_err());
                assert!(session.table.processes.tree(1).unwrap().members().is_err());
            });
            session.table.tidy();
            assert_eq!(pids(&session.table.processes.tree(1).unwrap().members().unwrap()), [left]);
            assert_eq!(pids(&session.table.foreground(&[]).unwrap()), [program]);
        }
    });
}

#[test]
fn the_foreground_is_what_the_shell_runs_except_spared_trees_and_processes() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let process = session.start(process(1), "read line");
            let standby = spawn_sleeper(None);
            assert!(session.table.set_standby(standby, None));
            let (first, second) = (shell.background(), shell.background());
            assert_eq!(pids(&session.table.foreground(&[]).unwrap()), sorted([first, second]));
            assert_eq!(pids(&session.table.foreground(&[first]).unwrap()), [second]);
            assert_eq!(pids(&session.table.workload().unwrap()), sorted([first, second, process.pid()]));
        }
    });
}

#[test]
fn killing_the_foreground_group_spares_the_shell() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            let program = shell.background();
            let before = session.table.group_directory();
            let left = session.table.leave_foreground_group();
            assert_eq!(left.as_ref().map(|group| group.path().display().to_string()), before);
            if let Some(left) = left {
                left.kill().unwrap();
                until("the program dies", || !is_running(program));
                assert_ne!(session.table.group_directory(), before);
            } else {
                assert!(is_running(program), "nothing is done without groups");
            }
            shell.write("echo alive");
            assert_eq!(shell.line(), "alive");
        }
    });
}

#[test]
fn a_shell_that_cannot_be_moved_stays_in_the_foreground_group() {
    in_own_process(|| {
        let Some(mut session) = Session::with_groups() else { return };
        let mut shell = session.start_shell();
        let program = shell.background();
        let before = session.table.group_directory();
        without_descriptors(|| assert!(session.table.leave_foreground_group().is_none()));
        assert_eq!(session.table.group_directory(), before);
        assert_eq!(pids(&session.table.foreground(&[]).unwrap()), [program]);
    });
}

#[test]
fn each_reaped_child_has_the_role_that_it_had() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let (shell, process) = (session.start_shell(), session.start(process(4), "read line"));
        let (standby, orphan) = (spawn_sleeper(None), spawn_child("exit", None));
        assert!(session.table.set_standby(standby, None));
        assert_eq!(session.table.reaped(orphan), Reaped::Orphan);
        assert_eq!(session.table.reaped(standby), Reaped::Standby);
        assert_eq!(session.table.reaped(shell.pid()), Reaped::Shell);
        assert_eq!(session.table.reaped(process.pid()), Reaped::Process(4));
        for pid in [standby, shell.pid(), process.pid()] {
            assert_eq!(session.table.reaped(pid), Reaped::Orphan, "the pid may belong to any process now");
        }
    });
}

#[test]
fn shell_and_standby_are_signalled_together() {
    in_own_process(|| {
        let mut session = Session::without_groups().unwrap();
        let (shell, standby) = (session.start_shell(), spawn_sleeper(None));
        let process = session.start(process(4), "read line");
        assert!(session.table.set_standby(standby, None));
        session.table.signal_shells(libc::SIGKILL);
        until("both die", || !is_running(shell.pid()) && !is_running(standby));
        assert!(is_running(process.pid()));
    });
}

#[test]
fn the_shell_becomes_a_process_with_its_group_and_the_standby_the_shell() {
    in_own_process(|| {
        for mut session in Session::kinds() {
            let mut shell = session.start_shell();
            // As for a session with its own user, it is in the group of the shell.
            let standby = session.start(process(9), "exec sleep 600");
            assert!(session.table.set_standby(standby.pid(), None));
            let job = shell.background();
            let before = session.table.group_directory();
            let (detached, group) = session.table.detach(7, "test-7".into(), None, vec![]);
            assert_eq!((detached.map(|it| it.pid), &group), (Some(shell.pid()), &before));
            assert_eq!(session.table.shell(), Some(standby.pid()));
            assert!(before.is_none() || session.table.group_directory() != before);
            let members = pids(&session.table.processes.tree(7).unwrap().members().unwrap());
            assert_eq!(members, sorted([shell.pid(), job]));
            assert!(session.table.foreground(&[]).unwrap().is_empty(), "nothing runs in the foreground");
            shell.write("exit 3");
            let ended =
                Report::ProcessEnded { key: 7, code: Some(3), signal: None, out_of_memory: false, asked: Asked::No };
            assert_eq!(session.next_reports(), [ended]);
            // Nothing is left to detach.
            session.table.detach(8, String::new(), None, vec![]);
            assert_eq!(session.table.detach(9, String::new(), None, vec![]), (None, None));
        }
    });
}
