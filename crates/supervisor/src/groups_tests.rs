use super::*;
use crate::testing::own_process::{group_name, in_own_process};
use crate::testing::spawn_sleeper;
use nacre_containment::signal;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs;

/// Here groups are directories, and a group with a file in it cannot be removed, so most tests need no kernel
/// support.
fn groups() -> (tempfile::TempDir, Groups) {
    let parent = tempfile::tempdir().unwrap();
    let groups = Groups::create(&parent.path().join("session")).unwrap();
    (parent, groups)
}

fn occupy(group: &Group) {
    fs::write(group.path().join("cgroup.procs"), "").unwrap();
}

fn vacate(group: &Group) {
    fs::remove_file(group.path().join("cgroup.procs")).unwrap();
}

#[test]
fn creates_no_groups_where_the_parent_is_missing_or_the_name_is_taken() {
    let (parent, _groups) = groups();
    assert!(Groups::create(&parent.path().join("session")).is_err());
    assert!(Groups::create(&parent.path().join("missing/session")).is_err());
}

#[test]
fn gives_each_group_a_name_of_its_own() {
    let (_parent, mut groups) = groups();
    let made = [groups.make("p").unwrap(), groups.make("p").unwrap(), groups.make("fg").unwrap()];
    let names = made.each_ref().map(|group| group.path().strip_prefix(groups.session().path()).unwrap());
    assert_eq!(names.map(|name| name.to_str().unwrap()), ["p-1", "p-2", "fg-3"]);
    fs::create_dir(groups.session().path().join("p-4")).unwrap();
    assert!(groups.make("p").is_none(), "a group that exists is not taken over");
}

#[test]
fn accepts_only_paths_directly_inside_the_session() {
    let (parent, groups) = groups();
    let session = groups.session().path().to_path_buf();
    let named = |path: PathBuf| groups.named(Some(&path.display().to_string()));
    assert_eq!(named(session.join("s-1")), Some(Group::at(session.join("s-1"))));
    for foreign in [session.clone(), session.join("a/b"), parent.path().join("other"), "/".into(), "".into()] {
        assert_eq!(named(foreign), None);
    }
    assert_eq!(groups.named(None), None);
}

#[test]
fn a_former_foreground_group_is_removed_when_it_is_empty() {
    let (_parent, mut groups) = groups();
    let first = groups.foreground().clone();
    let (second, third) = (groups.make("fg").unwrap(), groups.make("fg").unwrap());
    groups.switch_foreground(second.clone());
    assert!(!first.path().exists() && *groups.foreground() == second);
    occupy(&second);
    groups.switch_foreground(third.clone());
    groups.tidy();
    assert!(second.path().exists() && *groups.foreground() == third);
    vacate(&second);
    groups.tidy();
    assert!(!second.path().exists() && groups.emptying.is_empty());
}

#[test]
fn removes_everything_only_when_every_group_is_empty() {
    let (_parent, mut groups) = groups();
    let occupied = groups.make("p").unwrap();
    occupy(&occupied);
    assert!(!groups.remove_all(true) && groups.session().path().exists());
    vacate(&occupied);
    assert!(groups.remove_all(true) && !groups.session().path().exists());
    assert!(groups.foreground_members().unwrap().is_none());
}

#[test]
fn the_last_session_of_a_dead_host_removes_the_group_of_its_sandbox() {
    let parent = tempfile::tempdir().unwrap();
    let sandbox = Group::create(parent.path(), &cgroup::name_of_sandbox("test")).unwrap();
    let [first, last] = ["first", "last"].map(|name| Groups::create(&sandbox.path().join(name)).unwrap());
    assert!(first.remove_all(false) && sandbox.path().exists());
    assert!(last.remove_all(true) && sandbox.path().exists(), "it may have another session");
    let last = Groups::create(&sandbox.path().join("last")).unwrap();
    assert!(last.remove_all(false) && !sandbox.path().exists() && parent.path().exists());
}

fn has_changes(groups: &Groups, milliseconds: u16) -> bool {
    let mut fds: Vec<_> = groups.watched().map(|fd| PollFd::new(fd, PollFlags::POLLPRI)).collect();
    poll(&mut fds, PollTimeout::from(milliseconds)).unwrap() > 0
}

#[test]
fn a_group_with_a_process_is_removed_after_its_end() {
    in_own_process(|| {
        let Ok(directory) = cgroup::probe() else { return };
        let mut groups = Groups::create(&directory.join(group_name(std::process::id()))).unwrap();
        let pid = spawn_sleeper(Some(groups.foreground()));
        assert_eq!(groups.foreground_members().unwrap(), Some(vec![pid]));
        let (before, fresh) = (groups.foreground().clone(), groups.make("fg").unwrap());
        groups.switch_foreground(fresh);
        assert!(before.path().exists() && !groups.remove_all(true));
        assert!(!has_changes(&groups, 0));
        signal::send_to_child(pid, libc::SIGKILL).unwrap();
        // Nothing reaps it yet: the group itself tells.
        assert!(has_changes(&groups, 10_000));
        groups.tidy();
        assert!(!before.path().exists() && groups.watched().next().is_none());
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid.raw()), None).unwrap();
        assert!(groups.remove_all(true) && !groups.session().path().exists());
    });
}
