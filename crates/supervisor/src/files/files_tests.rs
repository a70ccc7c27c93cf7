//! Tests of the helper over a real socket, in its own process.

use super::*;
use crate::testing::own_process::{in_own_process, until};
use nacre_protocol::files::{Event, Failure, FileChange, Finish, Info, Kind};
use nacre_protocol::socket;
use nacre_protocol::standing::{ResourceLimits, RunAs};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// A running helper and its directory.
pub(super) struct Helper {
    socket: Option<OwnedFd>,
    pid: Pid,
    directory: tempfile::TempDir,
    is_rooted: bool,
}

impl Helper {
    pub(super) fn start() -> Self {
        Self::start_as(None)
    }

    fn start_as(user: Option<RunAs>) -> Self {
        let (ours, theirs) = socket::pair().unwrap();
        let standing = Standing { user: user.as_ref(), limits: ResourceLimits::default(), confined: None };
        let pid = start(theirs, &standing).unwrap();
        Self { socket: Some(ours), pid, directory: tempfile::tempdir().unwrap(), is_rooted: false }
    }

    pub(super) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn signal(&self, signal: i32) {
        nacre_containment::signal::send_to_child(self.pid, signal).unwrap();
    }

    pub(super) fn is_stopped(&self) -> bool {
        nacre_containment::proc_table::Stat::read(self.pid).is_some_and(|stat| stat.state == b'T')
    }

    /// Starts a call.
    pub(super) fn call(&self, call: Call) -> OwnedFd {
        let (ours, theirs) = socket::pair().unwrap();
        let cwd = self.directory.path().as_os_str().as_encoded_bytes().to_vec();
        let socket = self.socket.as_ref().unwrap();
        message::send(socket.as_fd(), &FilesRequest { cwd, call, is_rooted: self.is_rooted }, &[theirs.as_fd()])
            .unwrap();
        ours
    }

    /// Makes a call with one reply.
    fn ask(&self, call: Call) -> FilesReply {
        reply(&self.call(call)).0
    }

    fn errno(&self, call: Call) -> i32 {
        match self.ask(call) {
            FilesReply::Failed(Failure { reason: Reason::System(errno), .. }) => errno,
            other => panic!("{other:?}"),
        }
    }

    fn reason(&self, call: Call) -> Reason {
        match self.ask(call) {
            FilesReply::Failed(failure) => failure.reason,
            other => panic!("{other:?}"),
        }
    }

    fn names(&self) -> Vec<String> {
        names(self.directory.path())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.socket = None;
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(self.pid.raw()), None).unwrap();
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(super) fn reply(connection: &OwnedFd) -> (FilesReply, Option<OwnedFd>) {
    let (reply, descriptors) = message::receive(connection.as_fd()).unwrap().expect("a reply");
    (reply, descriptors.into_iter().next())
}

fn write(path: &str) -> Call {
    Call::Write { path: path.into(), mode: None, append: false }
}

#[test]
fn a_write_appears_with_the_commit_and_a_cancelled_one_never() {
    in_own_process(|| {
        let helper = Helper::start();
        fs::write(helper.path("x"), "old").unwrap();
        fs::set_permissions(helper.path("x"), fs::Permissions::from_mode(0o750)).unwrap();
        let connection = helper.call(write("x"));
        let (FilesReply::Opened(_), Some(file)) = reply(&connection) else { panic!("not opened") };
        std::io::Write::write_all(&mut fs::File::from(file), b"new").unwrap();
        assert_eq!(fs::read_to_string(helper.path("x")).unwrap(), "old");
        message::send(connection.as_fd(), &Finish::Commit, &[]).unwrap();
        let (FilesReply::Found(Some(Info { size: 3, mode: 0o750, .. })), _) = reply(&connection) else { panic!() };
        assert_eq!(fs::read_to_string(helper.path("x")).unwrap(), "new");

        let connection = helper.call(write("x"));
        reply(&connection);
        assert_eq!(helper.names().len(), 2);
        message::send(connection.as_fd(), &Finish::Revert, &[]).unwrap();
        assert_eq!(reply(&connection).0, FilesReply::Done);
        assert_eq!(helper.names(), ["x"]);

        let connection = helper.call(write("x"));
        reply(&connection);
        drop(connection);
        until("the temporary file is gone", || helper.names() == ["x"]);
    });
}

#[test]
fn an_append_that_fails_or_is_cancelled_leaves_what_others_have_appended() {
    in_own_process(|| {
        let helper = Helper::start();
        let append = |text: &str| {
            let mut file = fs::OpenOptions::new().append(true).open(helper.path("x")).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let begin = || {
            let connection = helper.call(Call::Write { path: b"x".to_vec(), mode: None, append: true });
            let (FilesReply::Opened(_), Some(file)) = reply(&connection) else { panic!("not opened") };
            fs::File::from(file).write_all(b"own\n").unwrap();
            connection
        };
        fs::write(helper.path("x"), "old\n").unwrap();
        let reverted = begin();
        append("one\n");
        message::send(reverted.as_fd(), &Finish::Revert, &[]).unwrap();
        assert_eq!(reply(&reverted).0, FilesReply::Done);
        let cancelled = begin();
        append("two\n");
        drop(cancelled);
        let committed = begin();
        append("three\n");
        message::send(committed.as_fd(), &Finish::Commit, &[]).unwrap();
        let (FilesReply::Found(Some(Info { size: 22, .. })), _) = reply(&committed) else { panic!() };
        assert_eq!(fs::read_to_string(helper.path("x")).unwrap(), "old\none\ntwo\nthree\nown\n");
        assert_eq!(helper.names(), ["x"]);
    });
}

#[test]
fn the_end_of_the_helper_leaves_no_temporary_file() {
    in_own_process(|| {
        let helper = Helper::start();
        let connections: Vec<OwnedFd> = (0..5).map(|number| helper.call(write(&format!("d/{number}")))).collect();
        connections.iter().for_each(|connection| drop(reply(connection)));
        assert_eq!(names(&helper.path("d")).len(), 5);
        helper.signal(libc::SIGTERM);
        assert!(message::receive::<FilesReply>(connections[0].as_fd()).unwrap().is_none(), "end of file");
        assert!(names(&helper.path("d")).is_empty());
    });
}

#[test]
fn calls_that_take_long_hold_up_no_other() {
    in_own_process(|| {
        let helper = Helper::start();
        fs::create_dir(helper.path("d")).unwrap();
        let watches: Vec<OwnedFd> =
            (0..20).map(|_| helper.call(Call::Watch { path: b"d".to_vec(), recursive: true })).collect();
        watches.iter().for_each(|watch| assert_eq!(reply(watch).0, FilesReply::Done));
        assert!(matches!(helper.ask(Call::Stat { path: b"d".to_vec(), follow: true }), FilesReply::Found(Some(_))));
        fs::write(helper.path("d/x"), "").unwrap();
        let created = Event { change: FileChange::Created, path: b"x".to_vec(), old_path: None };
        for watch in &watches {
            let FilesReply::Events(events) = reply(watch).0 else { panic!("no events") };
            assert_eq!(events[0], created);
        }
    });
}

#[test]
fn what_would_be_dangerous_is_refused_before_anything_changes() {
    in_own_process(|| {
        let helper = Helper::start();
        fs::create_dir_all(helper.path("a/b")).unwrap();
        symlink("a", helper.path("link")).unwrap();
        let remove = |path: &[u8]| Call::Remove { path: path.to_vec(), recursive: true };
        let own = helper.directory.path().as_os_str().as_encoded_bytes();
        let above = helper.directory.path().parent().unwrap().as_os_str().as_encoded_bytes();
        for path in [&b"."[..], b"..", b"/", b"//", b"a/..", b"a/.", own, above] {
            assert_eq!(helper.reason(remove(path)), Reason::Protected, "{}", path.escape_ascii());
        }
        assert_eq!(helper.errno(remove(b"link/")), libc::ENOTDIR);
        let copy = |from: &str, to: &str| Call::Copy { from: from.into(), to: to.into(), recursive: true };
        assert_eq!(helper.reason(copy("a", "a/b/c")), Reason::Inside);
        assert_eq!(helper.reason(copy("a", "link/b/c")), Reason::Inside);
        assert_eq!(helper.reason(copy("a", "a")), Reason::SameFile);
        rustix::fs::mkfifoat(rustix::fs::CWD, helper.path("fifo"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        for call in [Call::Read { path: b"fifo".to_vec() }, write("fifo")] {
            assert_eq!(helper.reason(call), Reason::NotRegular(Kind::Fifo));
        }
        assert_eq!(helper.names(), ["a", "fifo", "link"]);
        assert_eq!(names(&helper.path("a")), ["b"]);
    });
}

#[test]
fn a_message_that_is_none_is_passed_over() {
    in_own_process(|| {
        let helper = Helper::start();
        let socket = helper.socket.as_ref().unwrap();
        for bytes in [&[0xff_u8; 40][..], &[0]] {
            let _ = socket::send(socket.as_fd(), bytes, &[]);
            assert!(matches!(helper.ask(Call::Stat { path: b".".to_vec(), follow: true }), FilesReply::Found(Some(_))));
        }
    });
}

#[test]
fn removes_of_one_tree_at_the_same_time_all_succeed() {
    in_own_process(|| {
        let helper = Helper::start();
        for _ in 0..20 {
            for number in 0..100 {
                fs::create_dir_all(helper.path(&format!("d/{number}/{number}"))).unwrap();
            }
            let remove = || helper.call(Call::Remove { path: b"d".to_vec(), recursive: true });
            for removal in [remove(), remove(), remove()] {
                match reply(&removal).0 {
                    FilesReply::Done => {}
                    // It had begun when nothing was left.
                    FilesReply::Failed(Failure { reason: Reason::System(libc::ENOENT), path }) if path == b"d" => {}
                    other => panic!("{other:?}"),
                }
            }
            assert!(helper.names().is_empty());
        }
    });
}

#[test]
fn a_failed_copy_of_directories_without_permissions_leaves_nothing() {
    in_own_process(|| {
        // The permissions of directories do not bind root.
        let helper = Helper::start_as(Some(RunAs { uid: 54_321, gid: 54_321, groups: Vec::new() }));
        for name in ["from", "from/closed", "from/closed/inner", "to"] {
            fs::create_dir(helper.path(name)).unwrap();
            std::os::unix::fs::chown(helper.path(name), Some(54_321), Some(54_321)).unwrap();
        }
        std::os::unix::net::UnixListener::bind(helper.path("from/z")).unwrap();
        fs::set_permissions(helper.path("from/closed"), fs::Permissions::from_mode(0o500)).unwrap();
        let copy = || Call::Copy { from: b"from".to_vec(), to: b"to/copy".to_vec(), recursive: true };
        assert_eq!(helper.reason(copy()), Reason::NotRegular(Kind::Socket));
        assert_eq!(names(&helper.path("to")), [""; 0]);
    });
}

/// Enters a mount namespace of its own, where that is permitted.
fn enter_mount_namespace() -> bool {
    use nacre_containment::user_namespace::{map_ids, own_ids};
    use nix::sched::{CloneFlags, unshare};
    let own = own_ids();
    if unshare(CloneFlags::CLONE_NEWNS).is_err() {
        if unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).is_err() {
            return false;
        }
        if map_ids("self", own, own).is_err() {
            return false;
        }
    }
    mount(None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE)
}

fn mount(source: Option<&Path>, target: &Path, flags: libc::c_ulong) -> bool {
    let flags = nix::mount::MsFlags::from_bits_retain(flags);
    nix::mount::mount(source, target, None::<&str>, flags, None::<&str>).is_ok()
}

#[test]
fn a_file_that_cannot_be_replaced_is_overwritten_when_all_is_there() {
    // A mount would be left behind by another thread of the test.
    in_own_process(|| {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("place");
        fs::create_dir(&place).unwrap();
        let sources = ["mounted", "beside"].map(|name| root.path().join(name));
        let targets = ["mounted", "beside"].map(|name| place.join(name));
        for path in sources.iter().chain(&targets) {
            fs::write(path, "a long old content").unwrap();
        }
        if !enter_mount_namespace() || !mount(Some(&place), &place, libc::MS_BIND) {
            return;
        }
        // The second mount point is in a directory that is read-only.
        for (source, target) in sources.iter().zip(&targets) {
            assert!(mount(Some(source), target, libc::MS_BIND));
        }
        let helper = Helper::start();
        let write_all = |target: &Path, text: &str, end: &Finish| {
            let connection = helper.call(write(target.to_str().unwrap()));
            let (FilesReply::Opened(_), Some(file)) = reply(&connection) else { panic!("not opened") };
            fs::File::from(file).write_all(text.as_bytes()).unwrap();
            message::send(connection.as_fd(), end, &[]).unwrap();
            reply(&connection).0
        };
        fs::write(helper.path("from"), "copied").unwrap();
        for is_read_only in [false, true] {
            if is_read_only {
                // The helper replies before it closes the file, and a mount with a file open for writing stays writable.
                until("read-only", || mount(None, &place, libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY));
            }
            for (source, target) in sources.iter().zip(&targets) {
                let before = fs::read(source).unwrap();
                assert_eq!(write_all(target, "never", &Finish::Revert), FilesReply::Done);
                assert_eq!(fs::read(source).unwrap(), before);
                let FilesReply::Found(Some(Info { size: 3, .. })) = write_all(target, "new", &Finish::Commit) else {
                    panic!()
                };
                assert_eq!(fs::read_to_string(source).unwrap(), "new");
                let to = target.as_os_str().as_encoded_bytes().to_vec();
                let copy = helper.ask(Call::Copy { from: b"from".to_vec(), to, recursive: false });
                assert_eq!((copy, fs::read_to_string(source).unwrap().as_str()), (FilesReply::Done, "copied"));
                fs::write(source, "a long old content").unwrap();
            }
            assert_eq!(names(&place), ["beside", "mounted"]);
        }
        let Call::Write { path, .. } = write(place.join("new").to_str().unwrap()) else { panic!() };
        assert_eq!(helper.errno(Call::Write { path, mode: None, append: false }), libc::EROFS);
    });
}

#[test]
fn a_copy_has_the_holes_and_the_content_of_its_source() {
    in_own_process(|| {
        let helper = Helper::start();
        let hole = 64 << 20;
        for (number, (parts, size)) in [
            (&[][..], 0),
            (&[], hole),
            (&[0], 1),
            (&[0], hole),
            (&[hole], hole + 1),
            (&[10, hole, 3 * hole], 4 * hole),
            (&[10, hole, 3 * hole], 3 * hole + 1),
        ]
        .into_iter()
        .enumerate()
        {
            use std::os::unix::fs::{FileExt, MetadataExt};
            let (from, to) = (format!("{number}"), format!("{number}-copy"));
            let file = fs::File::create(helper.path(&from)).unwrap();
            file.set_len(size).unwrap();
            for at in parts {
                file.write_all_at(b"x", *at).unwrap();
            }
            let call = Call::Copy { from: from.clone().into(), to: to.clone().into(), recursive: false };
            assert_eq!(helper.ask(call), FilesReply::Done);
            let copy = fs::File::open(helper.path(&to)).unwrap();
            let found = copy.metadata().unwrap();
            assert_eq!(found.len(), size);
            for at in parts {
                let mut byte = [0];
                copy.read_exact_at(&mut byte, *at).unwrap();
                assert_eq!(byte, *b"x");
            }
            // As far as the file system has holes.
            let most = file.metadata().unwrap().blocks() + 512;
            assert!(found.blocks() <= most, "{} blocks instead of {most}", found.blocks());
        }
        // A file that has less than its size, where there is one.
        if let Ok(content) = fs::read("/sys/kernel/uevent_seqnum") {
            let call =
                Call::Copy { from: b"/sys/kernel/uevent_seqnum".to_vec(), to: b"sys".to_vec(), recursive: false };
            assert_eq!(helper.ask(call), FilesReply::Done);
            assert!(fs::read(helper.path("sys")).unwrap().len() <= content.len() + 2);
        }
        // A file without a size.
        let call = Call::Copy { from: b"/proc/self/status".to_vec(), to: b"status".to_vec(), recursive: false };
        assert_eq!(helper.ask(call), FilesReply::Done);
        assert!(fs::read_to_string(helper.path("status")).unwrap().starts_with("Name:"));
    });
}
