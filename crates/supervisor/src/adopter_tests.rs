use super::*;
use crate::reap::collect_any;
use crate::testing::own_process::{in_own_process, until};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_protocol::standing::RunAs;
use std::collections::HashSet;
use std::process::Command;

/// Of a process on a system without subreapers.
fn without_subreapers() -> Adopter {
    Adopter { state: State::Missing(Errno::EINVAL) }
}

fn own() -> Pid {
    Pid::new(std::process::id().cast_signed()).unwrap()
}

fn below(pid: Pid) -> Vec<Stat> {
    let mut found = proc_table::descendants(&[pid], &HashSet::new()).unwrap();
    found.retain(Stat::is_running);
    found
}

/// Starts an orphan in a session of its own.
fn orphan(seconds: &str) {
    let script = format!("(setsid env -i sleep {seconds} </dev/null >/dev/null 2>&1 &)");
    assert!(Command::new("bash").args(["-c", &script]).status().unwrap().success());
}

fn named(name: &str) -> Option<Stat> {
    below(own()).into_iter().find(|stat| stat.name.starts_with(name.as_bytes()))
}

#[test]
fn a_subreaper_needs_no_namespace() {
    in_own_process(|| {
        let mut adopter = Adopter::of_this_process();
        adopter.ensure().unwrap();
        assert!(adopter.init().is_none());
    });
}

#[test]
fn without_subreapers_the_init_of_a_namespace_adopts_orphans() {
    in_own_process(|| {
        let mut adopter = without_subreapers();
        adopter.ensure().unwrap();
        let init = adopter.init().unwrap();
        orphan("611");
        until("the init has the orphan", || named("sleep").is_some_and(|stat| stat.parent == init.raw()));
        // Not before the orphan has ended.
        adopter.close();
        signal::send_to_child(named("sleep").unwrap().identity.pid, libc::SIGKILL).unwrap();
        until("the init has ended", reap_all);
        adopter.reaped(init);
        assert!(adopter.is_lost() && adopter.init().is_none());
        assert!(adopter.ensure().unwrap_err().to_string().contains("was killed"));
    });
}

#[test]
fn the_namespace_ends_with_its_init() {
    in_own_process(|| {
        let mut adopter = without_subreapers();
        adopter.ensure().unwrap();
        orphan("612");
        until("the orphan runs", || named("sleep").is_some());
        signal::send_to_child(adopter.init().unwrap(), libc::SIGKILL).unwrap();
        until("nothing is left", reap_all);
    });
}

/// Runs something in a child, and kills the child then.
fn in_killed_child(act: impl FnOnce()) {
    let (mut ready, tell) = io::pipe().unwrap();
    let (child, _) = fork(0, None).unwrap();
    if child == 0 {
        act();
        drop(tell);
        loop {
            nix::unistd::pause();
        }
    }
    drop(tell);
    // Others may have the end of the pipe until they execute a program.
    ready.read_to_end(&mut Vec::new()).unwrap();
    signal::send_to_child(Pid::new(child).unwrap(), libc::SIGKILL).unwrap();
}

#[test]
fn the_namespace_ends_with_the_process_that_made_it() {
    in_own_process(|| {
        in_killed_child(|| {
            let mut adopter = without_subreapers();
            adopter.ensure().unwrap();
            orphan("613");
        });
        until("nothing is left", reap_all);
    });
}

#[test]
fn what_is_released_outlives_the_process_that_made_the_namespace() {
    in_own_process(|| {
        in_killed_child(|| {
            let mut adopter = without_subreapers();
            adopter.ensure().unwrap();
            orphan("614");
            adopter.release();
        });
        let ended = |signal: Option<i32>| {
            until("it has ended", || {
                collect_any().is_ok_and(|ended| ended.is_some_and(|ended| ended.signal == signal))
            });
        };
        ended(Some(libc::SIGKILL));
        // The init has become a child of this process, and ends by itself.
        until("the orphan runs", || named("sleep").is_some());
        signal::send_to_child(named("sleep").unwrap().identity.pid, libc::SIGKILL).unwrap();
        ended(None);
    });
}

#[test]
fn a_user_without_rights_makes_a_user_namespace_first() {
    in_own_process(|| {
        // Other threads of this process keep it from entering a user namespace.
        let (child, _) = fork(0, None).unwrap();
        if child == 0 {
            let has_failed = std::panic::catch_unwind(without_rights).is_err();
            // SAFETY: exits without running destructors, which belong to the other threads.
            unsafe { libc::_exit(i32::from(has_failed)) };
        }
        assert_eq!(nacre_containment::fork::wait(child), Some(0));
    });
}

fn without_rights() {
    if nix::unistd::geteuid().is_root() {
        privileges::become_user(&RunAs { uid: 65534, gid: 65534, groups: Vec::new() }).unwrap();
        // The change has made the process undumpable, which its files in /proc show.
        prctl::set_dumpable(true).unwrap();
    }
    let mut adopter = without_subreapers();
    adopter.ensure().unwrap();
    orphan("615");
    let user = nix::unistd::geteuid().as_raw();
    until("the orphan runs", || named("sleep").is_some());
    let status = fs::read_to_string(format!("/proc/{}/status", named("sleep").unwrap().identity.pid)).unwrap();
    assert!(status.contains(&format!("Uid:\t{user}\t{user}")), "{status}");
    assert!(signal::kill_descendants());
    until("nothing is left", reap_all);
}
