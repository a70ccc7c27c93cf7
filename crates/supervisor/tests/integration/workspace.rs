//! The keeper of a workspace as a process: its requests, its answers, and the files that it hands out.

use nacre_protocol::workspace::{Chosen, KeeperReply, KeeperRequest, Opening, Storage, WorkspaceChange};
use nacre_protocol::{message, socket};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

struct Keeper {
    process: Child,
    /// The socket, and what programs see.
    ends: Option<(OwnedFd, OwnedFd)>,
    shares: OwnedFd,
    directory: TempDir,
}

impl Keeper {
    /// Opens a workspace over a directory with one file.
    fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().join("real");
        fs::create_dir(&real).unwrap();
        fs::write(real.join("file"), "one\ntwo\n").unwrap();
        let (socket, theirs) = socket::pair().unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_nacre-supervisor"))
            .args(["--workspace", &std::process::id().to_string()])
            .stdin(theirs)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let open = KeeperRequest::Open(Opening {
            path: bytes(&real),
            stores: bytes(&directory.path().join("store")),
            removes_stores: true,
            unique: "1-test".into(),
            id: None,
            storage: Storage::Disk,
            fork: None,
            archive: None,
            passes_mounts: false,
        });
        let (reply, shares) = ask(&socket, &open);
        assert_eq!(reply, KeeperReply::Done);
        let shares = shares.unwrap();
        let (_, mount) = ask(&shares, &KeeperRequest::Share);
        Self { process, ends: Some((socket, mount.unwrap())), shares, directory }
    }

    fn socket(&self) -> &OwnedFd {
        &self.ends.as_ref().unwrap().0
    }

    fn at(&self, name: &str) -> PathBuf {
        let mount = &self.ends.as_ref().unwrap().1;
        PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())).join(name)
    }

    fn diff(&self, paths: Option<&[&str]>, max_bytes: u64) -> Result<String, KeeperReply> {
        let paths = paths.map(|paths| paths.iter().map(|path| path.as_bytes().to_vec()).collect());
        match ask(self.socket(), &KeeperRequest::Diff { paths, max_bytes }) {
            (KeeperReply::Done, Some(file)) => Ok(text(file)),
            (reply, _) => Err(reply),
        }
    }

    /// The keeper removes the layers when its host closes the socket.
    fn close(mut self) {
        self.ends = None;
        assert!(self.process.wait().unwrap().success());
        assert!(!self.directory.path().join("store").exists());
    }
}

impl Drop for Keeper {
    /// Waits for the removal of the layers, also after a failed test.
    fn drop(&mut self) {
        self.ends = None;
        let _ = self.process.wait();
    }
}

fn ask(socket: &OwnedFd, request: &KeeperRequest) -> (KeeperReply, Option<OwnedFd>) {
    nacre_protocol::workspace::send(socket.as_fd(), request, None).unwrap();
    answer(socket)
}

fn answer(socket: &OwnedFd) -> (KeeperReply, Option<OwnedFd>) {
    let (reply, descriptors) = message::receive(socket.as_fd()).unwrap().unwrap();
    (reply, descriptors.into_iter().next())
}

fn text(file: OwnedFd) -> String {
    let mut text = String::new();
    File::from(file).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_patch_is_a_file_without_a_name() {
    let keeper = Keeper::open();
    assert_eq!(keeper.diff(None, 0), Ok(String::new()));
    fs::write(keeper.at("file"), "one\n2\n").unwrap();
    fs::write(keeper.at("other"), "").unwrap();
    let modified = "\
diff --git a/file b/file
index 814f4a422927b82f5f8a43f8fab6d3839e3983f2..99b356dcd03dde0755c749bcd4cae4b2b73a8fa8 100644
--- a/file
+++ b/file
@@ -1,2 +1,2 @@
 one
-two
+2
";
    let created = "\
diff --git a/other b/other
new file mode 100644
index 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391
";
    assert_eq!(keeper.diff(None, 1 << 20), Ok([modified, created].concat()));
    assert_eq!(keeper.diff(Some(&["other"]), created.len() as u64), Ok(created.into()));
    let limit = KeeperReply::TooLarge("it has more than 100 bytes".into());
    assert_eq!(keeper.diff(Some(&["other"]), 100), Err(limit));
    assert_eq!(keeper.diff(Some(&["missing"]), 0), Ok(String::new()));
    let (_, list) = ask(keeper.socket(), &KeeperRequest::Changes { paths: None });
    let mut bytes = Vec::new();
    File::from(list.unwrap()).read_to_end(&mut bytes).unwrap();
    assert_eq!(message::decode::<Vec<WorkspaceChange>>(&bytes).unwrap().len(), 2);
    keeper.close();
}

#[test]
fn a_file_above_the_limit_has_no_patch() {
    let keeper = Keeper::open();
    File::create(keeper.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(keeper.diff(None, u64::MAX), Err(KeeperReply::TooLarge("sparse has more than 512 MiB".into())));
    assert_eq!(keeper.diff(Some(&["file"]), u64::MAX), Ok(String::new()));
    keeper.close();
}

#[test]
fn a_call_takes_as_many_paths_as_there_are() {
    let keeper = Keeper::open();
    let names: Vec<String> = (0..3000).map(|number| format!("a-new-file-with-a-long-name-{number}")).collect();
    for name in &names {
        fs::write(keeper.at(name), "").unwrap();
    }
    let paths: Vec<Vec<u8>> = names.iter().map(|name| name.clone().into_bytes()).collect();
    let (reply, list) = ask(keeper.socket(), &KeeperRequest::Changes { paths: Some(paths.clone()) });
    assert_eq!(reply, KeeperReply::Done);
    let mut bytes = Vec::new();
    File::from(list.unwrap()).read_to_end(&mut bytes).unwrap();
    assert_eq!(message::decode::<Vec<WorkspaceChange>>(&bytes).unwrap().len(), names.len());
    let commit = KeeperRequest::Commit { chosen: Some(paths).into(), force: false, sync: false, withholds: false };
    assert_eq!(ask(keeper.socket(), &commit).0, KeeperReply::Committed { applied: 3000 });
    assert!(keeper.directory.path().join("real").join(&names[2999]).exists());
    keeper.close();
}

#[test]
fn what_is_no_request_is_refused_and_the_layers_stay() {
    let keeper = Keeper::open();
    fs::write(keeper.at("new"), "").unwrap();
    for bytes in [vec![200; 10], vec![4; 100 * 1024]] {
        socket::send(keeper.socket().as_fd(), &bytes, &[]).unwrap();
        assert!(matches!(answer(keeper.socket()).0, KeeperReply::Failed { errno: libc::EBADMSG, .. }));
    }
    let (_, list) = ask(keeper.socket(), &KeeperRequest::Changes { paths: None });
    assert!(list.is_some());
    keeper.close();
}

#[test]
fn the_mount_is_shared_during_a_comparison_which_ends_with_its_host() {
    let mut keeper = Keeper::open();
    // Files that take long to compare.
    let large = "x".repeat(64 << 20);
    for number in 0..8 {
        fs::write(keeper.at(&format!("large-{number}")), &large).unwrap();
    }
    let commit = KeeperRequest::Commit { chosen: Chosen::default(), force: false, sync: false, withholds: false };
    assert_eq!(ask(keeper.socket(), &commit).0, KeeperReply::Committed { applied: 8 });
    let changes = KeeperRequest::Changes { paths: None };
    nacre_protocol::workspace::send(keeper.socket().as_fd(), &changes, None).unwrap();
    let begun = std::time::Instant::now();
    let (reply, mount) = ask(&keeper.shares, &KeeperRequest::Share);
    assert!(reply == KeeperReply::Done && mount.is_some());
    let shared = begun.elapsed();
    assert_eq!(answer(keeper.socket()).0, KeeperReply::Done);
    let compared = begun.elapsed();
    assert!(shared < compared / 2, "{shared:?} {compared:?}");
    drop(mount);
    nacre_protocol::workspace::send(keeper.socket().as_fd(), &changes, None).unwrap();
    keeper.ends = None;
    assert!(keeper.process.wait().unwrap().success());
}

#[test]
fn a_comparison_can_be_stopped_and_nothing_else() {
    let keeper = Keeper::open();
    fs::write(keeper.at("new"), "").unwrap();
    let send =
        |request: &KeeperRequest| nacre_protocol::workspace::send(keeper.socket().as_fd(), request, None).unwrap();
    let signal = |signal| {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper.process.id() as i32), signal).unwrap();
    };
    let stoppable = [KeeperRequest::Changes { paths: None }, KeeperRequest::Diff { paths: None, max_bytes: 1 << 20 }];
    for request in &stoppable {
        // So that it sees both at once.
        signal(nix::sys::signal::SIGSTOP);
        send(request);
        send(&KeeperRequest::Stop);
        signal(nix::sys::signal::SIGCONT);
        assert!(matches!(answer(keeper.socket()).0, KeeperReply::Failed { errno: libc::ECANCELED, .. }), "{request:?}");
        // It has ended, so this stops nothing.
        send(&KeeperRequest::Stop);
        assert_eq!(ask(keeper.socket(), request).0, KeeperReply::Done);
    }
    keeper.close();
}

#[test]
fn a_deleted_directory_is_named() {
    let keeper = Keeper::open();
    let real = keeper.directory.path().join("real");
    fs::remove_dir_all(&real).unwrap();
    let (reply, _) = ask(&keeper.shares, &KeeperRequest::Share);
    let KeeperReply::Failed { errno: libc::ENOENT, doing } = reply else { panic!("{reply:?}") };
    assert_eq!(doing, format!("use the workspace: its directory {} was deleted", real.display()));
    keeper.close();
}
