use super::*;
use crate::discard::discard;
use crate::failure::Trouble;
use crate::opening;
use crate::partial::{Partial, Takes};
use crate::store::{Store, Stores};
use crate::testing::{self, Mounted, Random, Snapshot, Workspace, differing, open, snapshot, without_times, write};
use crate::tree::Tree;
use nacre_protocol::workspace::{Chosen, HunkChoice, ReviewedChange, Storage};
use rustix::fs::{Mode, OFlags, XattrFlags, mknodat};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ID: &[u8] = b"id";

fn in_namespaces(name: &str, test: impl FnOnce(Workspace)) {
    testing::in_namespaces(&format!("commit::tests::{name}"), test);
}

/// An open workspace with a store.
struct Opened {
    workspace: Workspace,
    mounted: Mounted,
    store: OwnedFd,
    opened: (i64, i64),
    known: Known,
    contents: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn never(_: Point) -> Result<()> {
    Ok(())
}

fn paths(paths: &[&str]) -> Option<Vec<Vec<u8>>> {
    Some(paths.iter().map(|path| path.as_bytes().to_vec()).collect())
}

impl Opened {
    fn new(workspace: Workspace) -> Self {
        let place = workspace.directory.path().join("store");
        fs::create_dir_all(&place).unwrap();
        let store = rustix::fs::open(place, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let base = open(&workspace.path());
        let Ok(opened) = opening::moment(&base, &store) else { panic!("no moment") };
        let mounted = workspace.mount(1);
        Self { workspace, mounted, store, opened, known: Known::default(), contents: BTreeMap::new() }
    }

    /// A path as programs see it.
    fn at(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.workspace.path().join(name.as_ref())
    }

    /// A path in the real directory.
    fn real(&self, name: impl AsRef<OsStr>) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.mounted.base.as_raw_fd())).join(name.as_ref())
    }

    /// What programs see, and the real directory.
    fn trees(&self) -> (Tree, Tree) {
        let tree = |root: &OwnedFd| Tree::new(root.try_clone().unwrap());
        (tree(&self.mounted.merged), tree(&self.mounted.base))
    }

    fn with_sides<T>(&self, call: impl FnOnce(&Sides<'_>) -> T) -> T {
        let (merged, base) = self.trees();
        let Self { mounted, opened, known, .. } = self;
        let (layers, marks) = (&mounted.layers[..], mounted.mounter.marks());
        call(&Sides { merged: &merged, base: &base, layers, marks, opened: *opened, known, interrupt: &|| Ok(()) })
    }

    fn run(
        &mut self,
        options: Options,
        reached: impl FnMut(Point) -> Result<()>,
    ) -> std::result::Result<Outcome, Failure> {
        let (merged, base) = self.trees();
        let path = self.workspace.path();
        let commit = Commit {
            merged: &merged,
            base: &base,
            layers: &self.mounted.layers,
            marks: self.mounted.mounter.marks(),
            opened: self.opened,
            known: &mut self.known,
            contents: &self.contents,
            store: &self.store,
            path: path.as_os_str().as_bytes(),
            keep: &|_| Ok(()),
            interrupt: &|| Ok(()),
            staging: &staging::name(ID),
        };
        commit.run(options, reached)
    }

    /// Commits, and returns how many changes were applied.
    fn commit(&mut self, paths: Option<Vec<Vec<u8>>>, force: bool) -> u64 {
        match self.run(Options { paths, force, sync: false, withholds: false }, never).unwrap() {
            Outcome::Committed { applied, skipped } if skipped.is_empty() => applied,
            other => panic!("{other:?}"),
        }
    }

    /// The paths that keep a commit from being applied.
    fn conflicts(&mut self) -> Vec<String> {
        let before = snapshot(&self.mounted.base);
        match self.run(Options { paths: None, force: false, sync: false, withholds: false }, never).unwrap() {
            Outcome::Conflict(paths) => {
                assert_eq!(differing(&before, &snapshot(&self.mounted.base)), [""; 0]);
                paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// The ids of all hunks.
    fn hunks(&self) -> Vec<HunkChoice> {
        let reviewed = self.with_sides(|sides| {
            let changes = sides.changes(&crate::selection::Selection::all()).unwrap();
            crate::review::review(sides, changes, u64::MAX).unwrap()
        });
        let ids = |one: &ReviewedChange| one.hunks.iter().map(|hunk| hunk.id.clone()).collect();
        reviewed.iter().map(|one| HunkChoice { path: one.change.path.clone(), ids: ids(one) }).collect()
    }

    fn discard_hunks(&mut self, hunks: Vec<HunkChoice>) -> std::result::Result<u64, Failure> {
        self.with_sides(|sides| {
            let partial = Partial::find(sides, None, hunks, Takes::Others)?;
            discard(sides, partial, &staging::name(ID)).map_err(|trouble| trouble.while_doing("discard"))
        })
    }

    fn commit_hunks(&mut self, hunks: Vec<HunkChoice>) -> u64 {
        let found = self.with_sides(|sides| Partial::find(sides, None, hunks, Takes::Chosen));
        let Partial { paths, contents } = found.unwrap();
        let paths = paths.unwrap_or_default().into_iter().chain(contents.keys().cloned()).collect();
        self.contents = contents;
        let applied = self.commit(Some(paths), false);
        self.contents = BTreeMap::new();
        applied
    }

    fn discard(&mut self, paths: Option<Vec<Vec<u8>>>) -> std::result::Result<u64, Trouble> {
        let partial = Partial { paths, contents: BTreeMap::new() };
        self.with_sides(|sides| discard(sides, partial, &staging::name(ID)))
    }

    fn changes(&mut self) -> Vec<String> {
        let changes = self.with_sides(|sides| sides.changes(&crate::selection::Selection::all()).unwrap());
        changes
            .iter()
            .map(|change| format!("{:?} {}", change.difference, String::from_utf8_lossy(&change.path)))
            .collect()
    }

    /// Mounts the same layers again, so that nothing comes from a cache.
    fn remount(&mut self) {
        self.workspace.unmount();
        self.remount_unmounted();
    }

    fn remount_unmounted(&mut self) {
        let layers = self.mounted.layers.len();
        fs::remove_dir_all(self.workspace.directory.path().join(format!("work-{layers}/work/incompat"))).unwrap();
        self.mounted = self.workspace.mount(layers);
    }

    /// Nothing writes to the present layers any more: another one receives the writes.
    fn seal(&mut self) {
        self.workspace.unmount();
        self.mounted = self.workspace.mount(self.mounted.layers.len() + 1);
    }

    /// Renames, or copies what cannot be renamed.
    fn mv(&self, from: &str, to: &str) {
        let places = [self.at(from), self.at(to)];
        assert!(std::process::Command::new("mv").arg("-T").args(places).status().unwrap().success());
    }

    fn base(&self) -> Snapshot {
        snapshot(&self.mounted.base)
    }

    fn merged(&self) -> Snapshot {
        snapshot(&self.mounted.merged)
    }

    /// Both directories are equal but for the times, and nothing is left of the commit.
    fn assert_equal(&mut self) {
        assert_eq!(differing(&without_times(&self.merged()), &without_times(&self.base())), [""; 0]);
        assert_eq!(self.changes(), [""; 0]);
        self.assert_clean();
    }

    fn assert_clean(&self) {
        let is_staging = |path: &&Vec<u8>| staging::is_staging(path);
        assert!(self.base().keys().find(is_staging).is_none() && self.merged().keys().find(is_staging).is_none());
        assert!(!journal::exists(&self.store).unwrap());
    }
}

/// A real directory with entries of all kinds.
fn furnish(workspace: &Workspace) {
    let at = |name: &str| workspace.path().join(name);
    for name in ["edited", "gone", "mode", "kept", "to-link", "to-directory", "noted", "target"] {
        write(at(name), name);
        fs::File::options()
            .append(true)
            .open(at(name))
            .unwrap()
            .set_modified(UNIX_EPOCH + Duration::new(9, 7))
            .unwrap();
    }
    symlink("kept", at("link")).unwrap();
    for name in ["old/deep/er", "to-file/deep", "dir-mode", "stays"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    write(at("old/deep/er/a"), "a");
    write(at("old/b"), "b");
    write(at("to-file/deep/x"), "x");
    write(at("stays/inner"), "inner");
}

/// Changes of all kinds.
fn change_everything(at: impl Fn(&[u8]) -> PathBuf) {
    write(at(b"edited"), "EDITED with more");
    fs::File::options()
        .append(true)
        .open(at(b"edited"))
        .unwrap()
        .set_modified(UNIX_EPOCH + Duration::new(5, 3))
        .unwrap();
    fs::remove_file(at(b"gone")).unwrap();
    fs::set_permissions(at(b"mode"), PermissionsExt::from_mode(0o4711)).unwrap();
    fs::set_permissions(at(b"dir-mode"), PermissionsExt::from_mode(0o1500)).unwrap();
    fs::remove_file(at(b"to-link")).unwrap();
    symlink("nowhere", at(b"to-link")).unwrap();
    fs::remove_file(at(b"link")).unwrap();
    symlink("edited", at(b"link")).unwrap();
    fs::remove_file(at(b"to-directory")).unwrap();
    fs::create_dir(at(b"to-directory")).unwrap();
    write(at(b"to-directory/file"), "file");
    fs::remove_dir_all(at(b"to-file")).unwrap();
    write(at(b"to-file"), "a file now");
    fs::remove_dir_all(at(b"old")).unwrap();
    rustix::fs::setxattr(at(b"noted"), "user.note", b"value", XattrFlags::empty()).unwrap();
    fs::rename(at(b"target"), at(b"stays/moved")).unwrap();
    fs::create_dir_all(at(b"new/locked/deep")).unwrap();
    write(at(b"new/locked/deep/file"), "");
    write(at(b"new/a:b,c\\d"), "odd");
    write(at(b"new/\xff\n\""), "odder");
    write(at(b"-rf"), "");
    write(at(b" "), " ");
    mknodat(rustix::fs::CWD, at(b"new/fifo"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    rustix::fs::setxattr(at(b"new"), "user.note", b"directory", XattrFlags::empty()).unwrap();
    fs::set_permissions(at(b"new/locked"), PermissionsExt::from_mode(0o2555)).unwrap();
    fs::set_permissions(at(b"new/locked/deep/file"), PermissionsExt::from_mode(0o6755)).unwrap();
    let time = UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    fs::File::open(at(b"new/locked")).unwrap().set_modified(time).unwrap();
}

#[test]
fn every_kind_of_change_is_committed() {
    in_namespaces("every_kind_of_change_is_committed", |workspace| {
        furnish(&workspace);
        let mut opened = Opened::new(workspace);
        let root = opened.workspace.path();
        change_everything(|name| root.join(OsStr::from_bytes(name)));
        let count = opened.changes().len() as u64;
        assert!(count >= 25, "{count}");
        let (merged, old) = (opened.merged(), opened.base());
        let outcome = opened.run(Options { paths: None, force: false, sync: true, withholds: false }, never).unwrap();
        assert_eq!(outcome, Outcome::Committed { applied: count, skipped: Skipped::new() });
        opened.assert_equal();
        assert_eq!(differing(&without_times(&merged), &without_times(&opened.base())), [""; 0]);
        assert!(differing(&old, &opened.base()).len() as u64 >= count);
        assert_eq!(opened.commit(None, false), 0);
        // The new state is the base of the next commit.
        write(opened.at("edited"), "again");
        fs::remove_dir_all(opened.at("new")).unwrap();
        fs::remove_file(opened.at("to-file")).unwrap();
        fs::create_dir(opened.at("to-file")).unwrap();
        write(opened.at("to-file/x"), "y");
        assert!(opened.commit(None, false) > 3);
        opened.assert_equal();
        assert!(!opened.real("new").exists() && opened.real("to-file/x").exists());
    });
}

#[test]
fn a_committed_file_does_not_name_the_real_file_that_it_has_replaced() {
    in_namespaces("a_committed_file_does_not_name_the_real_file_that_it_has_replaced", |workspace| {
        for name in ["edited", "moved", "other"] {
            write(workspace.path().join(name), name);
        }
        let mut opened = Opened::new(workspace);
        let mark = format!("{}.overlay.origin", opened.mounted.mounter.marks());
        let named = |opened: &Opened| {
            let layer = opened.mounted.layers[0].directory(b"").unwrap().unwrap();
            ["edited", "to", "other"].map(|name| {
                let path = format!("/proc/self/fd/{}/{name}", layer.as_raw_fd());
                rustix::fs::getxattr(path, &*mark, &mut [0; 200]).is_ok()
            })
        };
        write(opened.at("edited"), "edited twice");
        fs::rename(opened.at("moved"), opened.at("to")).unwrap();
        write(opened.at("other"), "again");
        assert_eq!(named(&opened), [true; 3]);
        opened.commit(paths(&["edited", "to"]), false);
        assert_eq!(named(&opened), [false, false, true]);
        opened.commit(None, false);
        assert_eq!(named(&opened), [false; 3]);
    });
}

#[test]
fn selected_paths_are_committed_with_the_directories_they_need() {
    in_namespaces("selected_paths_are_committed_with_the_directories_they_need", |workspace| {
        furnish(&workspace);
        let mut opened = Opened::new(workspace);
        let root = opened.workspace.path();
        change_everything(|name| root.join(OsStr::from_bytes(name)));
        let before = opened.base();
        let options = |paths| Options { paths, force: false, sync: false, withholds: false };
        let none = opened.run(options(paths(&["edited", "kept"])), never);
        assert!(matches!(none, Err(Failure::NoChange(path)) if path == b"kept"));
        assert_eq!(differing(&before, &opened.base()), [""; 0]);
        assert_eq!(opened.commit(paths(&["new/locked/deep", "old/deep", "to-directory/file", "mode"]), false), 10);
        let changed = differing(&before, &opened.base());
        let expected = [
            "mode",
            "new",
            "new/locked",
            "new/locked/deep",
            "new/locked/deep/file",
            "old/deep",
            "old/deep/er",
            "old/deep/er/a",
            "to-directory",
            "to-directory/file",
        ];
        assert_eq!(changed, expected);
        opened.assert_clean();
        let left = opened.changes();
        assert!(left.contains(&"Deleted old/b".into()) && !left.contains(&"Deleted old/deep".into()));
        opened.commit(None, false);
        opened.assert_equal();
    });
}

#[test]
fn sockets_and_devices_are_skipped() {
    in_namespaces("sockets_and_devices_are_skipped", |workspace| {
        write(workspace.path().join("file"), "");
        let mut opened = Opened::new(workspace);
        for name in ["socket", "file"] {
            let _ = fs::remove_file(opened.at(name));
            drop(std::os::unix::net::UnixListener::bind(opened.at(name)).unwrap());
        }
        write(opened.at("more"), "");
        let outcome = opened.run(Options { paths: None, force: false, sync: false, withholds: false }, never).unwrap();
        let Outcome::Committed { applied: 1, skipped } = outcome else { panic!("{outcome:?}") };
        assert_eq!(skipped.keys().collect::<Vec<_>>(), [b"file", &b"socket"[..]]);
        assert!(opened.real("file").is_file() && opened.real("more").is_file());
    });
}

#[test]
fn what_is_in_a_directory_that_becomes_a_socket_stays() {
    in_namespaces("what_is_in_a_directory_that_becomes_a_socket_stays", |workspace| {
        fs::create_dir_all(workspace.path().join("directory/deep")).unwrap();
        for name in ["directory/deep/file", "directory-2"] {
            write(workspace.path().join(name), "");
        }
        let mut opened = Opened::new(workspace);
        fs::remove_dir_all(opened.at("directory")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(opened.at("directory")).unwrap());
        fs::remove_file(opened.at("directory-2")).unwrap();
        let outcome = opened.run(Options { paths: None, force: false, sync: false, withholds: false }, never).unwrap();
        let Outcome::Committed { applied: 1, skipped } = outcome else { panic!("{outcome:?}") };
        let names = [b"directory", &b"directory/deep"[..], b"directory/deep/file"];
        assert_eq!(skipped.keys().collect::<Vec<_>>(), names);
        assert!(opened.real("directory/deep/file").exists() && !opened.real("directory-2").exists());
    });
}

/// A name that is omitted from the changes.
const OMITTED: &str = ".nacre-0123456789abcde0.tmp";

#[test]
fn what_is_omitted_does_not_keep_its_directory() {
    in_namespaces("what_is_omitted_does_not_keep_its_directory", |workspace| {
        let omitted = |directory: &str| format!("{directory}/{OMITTED}");
        for name in ["gone", "gone/deep", "replaced"] {
            fs::create_dir_all(workspace.path().join(omitted(name))).unwrap();
            write(workspace.path().join(omitted(name)).join("file"), "");
        }
        let mut opened = Opened::new(workspace);
        fs::create_dir_all(opened.at("new/deep")).unwrap();
        for name in ["new", "new/deep"] {
            write(opened.at(omitted(name)), "");
        }
        assert_eq!(opened.changes(), ["Created new", "Created new/deep"]);
        assert_eq!(opened.discard(None), Ok(2));
        assert!(!opened.at("new").exists());

        fs::remove_dir_all(opened.at("gone")).unwrap();
        fs::remove_dir_all(opened.at("replaced")).unwrap();
        write(opened.at("replaced"), "a file now");
        write(opened.at("last"), "");
        let (old, mut count) = (opened.base(), 0);
        let failed = opened.run(OPTIONS(), |reached| {
            count += usize::from(reached == Point::Applied);
            if reached == Point::Applied && count == 5 { Err(Errno::IO) } else { Ok(()) }
        });
        assert!(failed.is_err());
        assert_eq!(differing(&old, &opened.base()), [""; 0]);
        assert_eq!(opened.commit(None, false), 4);
        opened.assert_equal();
        assert!(!opened.real("gone").exists() && opened.real("replaced").is_file());
        // What another program has put there stays.
        fs::create_dir(opened.at("made")).unwrap();
        assert_eq!(opened.commit(None, false), 1);
        fs::create_dir(opened.real(omitted("made"))).unwrap();
        write(opened.real("made/theirs"), "");
        fs::remove_dir(opened.at("made")).unwrap();
        let outcome = opened.run(OPTIONS(), never).unwrap();
        let Outcome::Committed { applied: 0, skipped } = outcome else { panic!("{outcome:?}") };
        assert_eq!(skipped.keys().collect::<Vec<_>>(), [b"made"]);
        assert!(opened.real(omitted("made")).exists() && opened.real("made/theirs").exists());
    });
}

/// Takes the right to read every file from this thread.
fn obey_modes() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, sets).unwrap();
}

#[test]
fn what_cannot_be_read_is_modified_and_named_in_errors() {
    in_namespaces("what_cannot_be_read_is_modified_and_named_in_errors", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        fs::create_dir(at("deep")).unwrap();
        for name in ["deep/file", "other"] {
            write(at(name), "1");
        }
        fs::set_permissions(at("deep/file"), PermissionsExt::from_mode(0o000)).unwrap();
        let mut opened = Opened::new(workspace);
        obey_modes();
        fs::remove_file(opened.at("deep/file")).unwrap();
        for name in ["deep/file", "other"] {
            write(opened.at(name), "2");
        }
        assert_eq!(opened.changes(), ["Modified deep/file", "Modified other"]);
        let (merged, base) = opened.trees();
        let changes = opened.with_sides(|sides| sides.changes(&crate::selection::Selection::all()).unwrap());
        let Err(Failure::System(Errno::ACCESS, doing)) =
            crate::diff::write(&merged, &base, &changes, u64::MAX, &|| Ok(()), Vec::new())
        else {
            panic!()
        };
        assert!(doing.contains("deep/file"), "{doing}");
        // The others are discarded.
        assert_eq!(opened.discard(None).unwrap_err(), crate::failure::at(b"deep/file")(Errno::ACCESS));
        assert_eq!(opened.changes(), ["Modified deep/file"]);
        assert_eq!(opened.commit(None, false), 1);
        assert_eq!(fs::read_to_string(opened.real("deep/file")).unwrap(), "2");
        // What cannot be written is named.
        fs::create_dir(opened.at("deep/new")).unwrap();
        fs::set_permissions(opened.real("deep"), PermissionsExt::from_mode(0o500)).unwrap();
        let failed = opened.run(Options { paths: None, force: true, sync: false, withholds: false }, never);
        let Err(Failure::System(Errno::ACCESS, doing)) = failed else { panic!("{failed:?}") };
        assert!(doing.contains(", at deep/new"), "{doing}");
        fs::set_permissions(opened.real("deep"), PermissionsExt::from_mode(0o700)).unwrap();
    });
}

#[test]
fn the_other_names_of_a_committed_file_are_no_conflicts() {
    in_namespaces("the_other_names_of_a_committed_file_are_no_conflicts", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        write(at("a"), "content");
        for name in ["b", "c", "d", "e"] {
            fs::hard_link(at("a"), at(name)).unwrap();
        }
        let mut opened = Opened::new(workspace);
        for name in ["a", "b"] {
            write(opened.at(name), name);
            assert_eq!(opened.commit(None, false), 1, "{name}");
        }
        // Two names in one commit, one of which is removed.
        write(opened.at("c"), "c");
        fs::remove_file(opened.at("d")).unwrap();
        assert_eq!(opened.commit(None, false), 2);
        // What another program does is still noticed.
        write(opened.at("e"), "e");
        write(opened.real("e"), "theirs");
        assert_eq!(opened.conflicts(), ["e"]);
        assert_eq!(opened.commit(None, true), 1);
        opened.assert_equal();
    });
}

#[test]
fn a_mode_of_the_workspace_after_a_commit_is_a_change() {
    in_namespaces("a_mode_of_the_workspace_after_a_commit_is_a_change", |workspace| {
        let mut opened = Opened::new(workspace);
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o7777;
        for (paths, new) in [(None, 0o700), (paths(&["file"]), 0o711)] {
            write(opened.at("file"), &new.to_string());
            assert_eq!(opened.commit(paths, false), 1);
            fs::set_permissions(opened.at(""), PermissionsExt::from_mode(new)).unwrap();
            assert_eq!(opened.changes(), ["Metadata ."]);
            assert_eq!(opened.commit(None, false), 1);
            assert_eq!(mode(opened.real("")), new);
        }
    });
}

#[test]
fn changes_of_other_programs_are_conflicts() {
    in_namespaces("changes_of_other_programs_are_conflicts", |workspace| {
        for name in ["edited", "both", "same", "mode", "gone", "swapped", "old/a", "there/a", "file/x", "alone"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, "content");
        }
        let mut opened = Opened::new(workspace);
        for name in ["edited", "both", "mode", "swapped", "created", "alone", "there/a"] {
            write(opened.at(name), "changed here");
        }
        write(opened.at("same"), "the same");
        fs::remove_file(opened.at("gone")).unwrap();
        fs::remove_dir_all(opened.at("old")).unwrap();
        fs::remove_dir_all(opened.at("file")).unwrap();
        fs::create_dir(opened.at("both-directories")).unwrap();
        write(opened.at("both-directories/here"), "");
        write(opened.at("a-directory-there"), "");

        write(opened.real("both"), "changed there");
        write(opened.real("same"), "the same");
        fs::set_permissions(opened.real("mode"), PermissionsExt::from_mode(0o600)).unwrap();
        write(opened.real("gone"), "changed there");
        write(opened.real("other"), "older");
        fs::rename(opened.real("other"), opened.real("swapped")).unwrap();
        write(opened.real("created"), "created there");
        write(opened.real("old/new"), "created there");
        fs::remove_dir_all(opened.real("file")).unwrap();
        write(opened.real("file"), "a file there");
        fs::set_permissions(opened.real("there"), PermissionsExt::from_mode(0o711)).unwrap();
        write(opened.real("there/more"), "");
        fs::create_dir(opened.real("both-directories")).unwrap();
        fs::create_dir(opened.real("a-directory-there")).unwrap();
        let expected = ["a-directory-there", "both", "created", "file", "gone", "mode", "old/new", "swapped"];
        assert_eq!(opened.conflicts(), expected);
        // The others can be committed.
        assert_eq!(opened.commit(paths(&["edited", "alone", "there", "both-directories"]), false), 4);
        assert!(opened.real("there/more").exists() && opened.real("both-directories/here").exists());
        // What was committed is a conflict only if it changes again.
        write(opened.at("edited"), "again");
        write(opened.at("alone"), "again");
        write(opened.real("alone"), "there, too");
        assert!(opened.conflicts().contains(&"alone".into()));
        assert!(!opened.conflicts().contains(&"edited".into()));
        opened.commit(None, true);
        assert_eq!(opened.changes(), [""; 0]);
        assert_eq!(fs::read_to_string(opened.real("both")).unwrap(), "changed here");
        assert!(!opened.real("old").exists());
    });
}

#[test]
fn deleted_files_and_swapped_directories_are_conflicts_for_root() {
    in_namespaces("deleted_files_and_swapped_directories_are_conflicts_for_root", |workspace| {
        for name in ["gone", "moved", "source", "source-2", "swapped/file", "other/file", "deleted/a", "kept/a"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, "content");
        }
        let mut opened = Opened::new(workspace);
        for name in ["gone", "moved", "swapped/file", "deleted/a", "kept/a"] {
            write(opened.at(name), "changed");
        }
        fs::rename(opened.at("source"), opened.at("renamed")).unwrap();
        fs::rename(opened.at("source-2"), opened.at("renamed-2")).unwrap();
        fs::remove_file(opened.real("gone")).unwrap();
        fs::rename(opened.real("moved"), opened.real("away")).unwrap();
        fs::rename(opened.real("swapped"), opened.real("swapped.old")).unwrap();
        fs::rename(opened.real("other"), opened.real("swapped")).unwrap();
        fs::remove_dir_all(opened.real("deleted")).unwrap();
        if opened.mounted.mounter.marks() == "trusted" {
            assert_eq!(opened.conflicts(), ["deleted", "deleted/a", "gone", "moved", "swapped/file"]);
            // What a commit has removed is no conflict later.
            assert_eq!(opened.commit(paths(&["source"]), false), 1);
            assert_eq!(opened.commit(paths(&["renamed"]), false), 1);
            fs::rename(opened.at("renamed"), opened.at("renamed-again")).unwrap();
            assert_eq!(opened.commit(paths(&["renamed-again", "renamed", "renamed-2", "kept"]), false), 4);
        }
        opened.commit(None, true);
        assert_eq!(opened.changes(), [""; 0]);
    });
}

#[test]
fn what_others_delete_is_a_conflict_for_root_however_many_layers_have_it() {
    in_namespaces("what_others_delete_is_a_conflict_for_root_however_many_layers_have_it", |workspace| {
        for name in ["first", "both", "renamed", "last", "deep/a", "made-again", "swapped/file", "other/file"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, "content");
        }
        let mut opened = Opened::new(workspace);
        for name in ["first", "both", "renamed", "created", "created-and-renamed", "deep/a", "swapped/file"] {
            write(opened.at(name), "changed");
        }
        fs::remove_file(opened.at("made-again")).unwrap();
        opened.seal();
        opened.seal();
        for name in ["both", "created", "deep/b", "made-again", "last"] {
            write(opened.at(name), "changed twice");
        }
        opened.mv("renamed", "away");
        opened.mv("created-and-renamed", "away-too");
        opened.seal();
        for name in ["both", "away", "away-too"] {
            write(opened.at(name), "changed at last");
        }
        let is_root = opened.mounted.mounter.marks() == "trusted";
        for name in ["first", "both", "renamed", "made-again", "last"] {
            fs::remove_file(opened.real(name)).unwrap();
        }
        fs::remove_dir_all(opened.real("deep")).unwrap();
        fs::rename(opened.real("swapped"), opened.real("swapped.old")).unwrap();
        fs::rename(opened.real("other"), opened.real("swapped")).unwrap();
        if is_root {
            assert_eq!(opened.conflicts(), ["away", "both", "deep", "deep/a", "first", "last", "swapped/file"]);
        }
        opened.commit(None, true);
        assert_eq!(opened.changes(), [""; 0]);
        // What a commit has changed is no conflict later.
        for name in ["first", "away", "created"] {
            write(opened.at(name), "changed after the commit");
        }
        opened.seal();
        write(opened.at("first"), "changed once more");
        opened.mv("away", "moved");
        opened.commit(None, false);
        assert_eq!(opened.changes(), [""; 0]);
    });
}

#[test]
fn what_another_fork_commits_is_still_noticed_in_the_layers_that_they_share() {
    in_namespaces("what_another_fork_commits_is_still_noticed_in_the_layers_that_they_share", |workspace| {
        write(workspace.path().join("file"), "content");
        let mut opened = Opened::new(workspace);
        write(opened.at("file"), "changed");
        opened.seal();
        let other = opened.known.clone();
        assert_eq!(opened.commit(None, false), 1);
        fs::remove_file(opened.real("file")).unwrap();
        opened.known = other;
        if opened.mounted.mounter.marks() == "trusted" {
            assert_eq!(opened.conflicts(), ["file"]);
        }
    });
}

#[test]
fn what_others_put_into_a_directory_that_was_made_on_both_sides_stays() {
    in_namespaces("what_others_put_into_a_directory_that_was_made_on_both_sides_stays", |workspace| {
        let mut opened = Opened::new(workspace);
        fs::create_dir_all(opened.at("made/deep")).unwrap();
        for name in ["made/same", "made/removed", "made/deep/changed"] {
            write(opened.at(name), "content");
        }
        opened.seal();
        write(opened.at("made/new"), "");
        write(opened.at("made/deep/changed"), "here");
        fs::remove_file(opened.at("made/removed")).unwrap();
        fs::create_dir_all(opened.real("made/deep")).unwrap();
        for name in ["made/same", "made/removed", "made/deep/changed", "made/theirs", "made/deep/theirs"] {
            write(opened.real(name), "content");
        }
        let changes = ["Modified made/deep/changed", "Created made/new", "Deleted made/removed"];
        assert_eq!(opened.changes(), changes);
        assert_eq!(opened.conflicts(), ["made/deep/changed", "made/removed"]);
        assert_eq!(opened.commit(paths(&["made/new"]), false), 1);
        let mut expected =
            vec!["made", "made/deep", "made/deep/changed", "made/deep/theirs", "made/same", "made/theirs"];
        if opened.mounted.mounter.marks() == "trusted" {
            // What was committed there can be removed, and nothing else.
            fs::remove_file(opened.at("made/new")).unwrap();
        } else {
            expected.insert(4, "made/new");
        }
        opened.commit(None, true);
        assert_eq!(opened.changes(), [""; 0]);
        let mut names: Vec<_> =
            snapshot(&opened.mounted.base).into_keys().map(|name| String::from_utf8(name).unwrap()).collect();
        names.sort();
        assert_eq!(names, expected);
    });
}

#[test]
fn what_others_create_in_place_of_what_a_commit_has_deleted_stays() {
    in_namespaces("what_others_create_in_place_of_what_a_commit_has_deleted_stays", |workspace| {
        for name in ["directory/file", "file", "other"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, "content");
        }
        let mut opened = Opened::new(workspace);
        fs::remove_dir_all(opened.at("directory")).unwrap();
        fs::remove_file(opened.at("file")).unwrap();
        assert_eq!(opened.commit(None, false), 3);
        fs::create_dir(opened.real("directory")).unwrap();
        for name in ["directory/file", "directory/new", "file"] {
            write(opened.real(name), "theirs");
        }
        write(opened.at("other"), "changed");
        assert_eq!(opened.changes(), ["Modified other"]);
        assert_eq!(opened.commit(None, false), 1);
        // What both create is a conflict.
        write(opened.at("file"), "ours");
        assert_eq!(opened.conflicts(), ["file"]);
        assert_eq!(fs::read_to_string(opened.real("directory/new")).unwrap(), "theirs");
    });
}

#[test]
fn what_others_create_in_a_replaced_directory_after_its_commit_stays() {
    in_namespaces("what_others_create_in_a_replaced_directory_after_its_commit_stays", |workspace| {
        for name in ["replaced/old", "replaced/same", "replaced/deep/er/file", "later/file", "other"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, "content");
        }
        let mut opened = Opened::new(workspace);
        fs::remove_dir_all(opened.at("replaced")).unwrap();
        fs::create_dir_all(opened.at("replaced/deep/er")).unwrap();
        for name in ["replaced/same", "replaced/new", "replaced/deep/er/file"] {
            write(opened.at(name), "content");
        }
        assert_eq!(opened.commit(None, false), 2);
        for name in ["replaced/theirs", "replaced/deep/er/theirs", "later/theirs"] {
            write(opened.real(name), "");
        }
        fs::create_dir_all(opened.real("replaced/more/theirs")).unwrap();
        assert_eq!(opened.changes(), [""; 0]);
        fs::remove_file(opened.at("replaced/same")).unwrap();
        fs::remove_file(opened.at("replaced/new")).unwrap();
        write(opened.at("other"), "changed");
        assert_eq!(opened.changes(), ["Modified other", "Deleted replaced/new", "Deleted replaced/same"]);
        assert_eq!(opened.commit(None, false), 3);
        assert_eq!(opened.changes(), [""; 0]);
        // A directory that is replaced later has been seen with what others created.
        fs::remove_dir_all(opened.at("later")).unwrap();
        fs::create_dir(opened.at("later")).unwrap();
        assert_eq!(opened.changes(), ["Deleted later/file", "Deleted later/theirs"]);
        assert_eq!(opened.conflicts(), ["later/theirs"]);
        for name in ["replaced/theirs", "replaced/deep/er/theirs", "replaced/more/theirs"] {
            assert!(opened.real(name).exists());
        }
        assert!(!opened.real("replaced/same").exists() && !opened.real("replaced/new").exists());
    });
}

#[test]
fn a_renamed_directory_without_its_real_content_is_a_conflict_and_stays() {
    in_namespaces("a_renamed_directory_without_its_real_content_is_a_conflict_and_stays", |workspace| {
        for name in ["old/deep/a", "kept"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, "content");
        }
        let mut opened = Opened::new(workspace);
        if fs::rename(opened.at("old"), opened.at("new")).is_err() {
            // Without root, the kernel refuses that.
            return;
        }
        write(opened.at("new/deep/ours"), "only here");
        write(opened.at("kept"), "changed");
        fs::remove_dir_all(opened.real("old")).unwrap();
        let changes = opened.changes();
        assert!(changes.contains(&"Created new/deep/ours".into()));
        assert_eq!(opened.conflicts(), ["new", "new/deep"]);
        let forced = opened.run(Options { paths: None, force: true, sync: false, withholds: false }, never);
        assert!(matches!(forced, Err(Failure::System(Errno::NOENT, doing)) if doing.ends_with("at new")));
        assert_eq!(opened.changes(), changes);
    });
}

#[test]
fn a_directory_in_place_of_one_that_was_deleted_before_is_no_conflict() {
    in_namespaces("a_directory_in_place_of_one_that_was_deleted_before_is_no_conflict", |workspace| {
        for name in ["q/z", "deep/q/z", "deep/file", "q-2/z", "q-3/z"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, "content");
        }
        let mut opened = Opened::new(workspace);
        for name in ["q", "deep", "q-3"] {
            fs::remove_dir_all(opened.at(name)).unwrap();
        }
        for name in ["n", "n-deep/q", "n-3"] {
            fs::create_dir_all(opened.at(name)).unwrap();
        }
        opened.seal();
        fs::remove_dir_all(opened.at("q-2")).unwrap();
        opened.mv("n", "q");
        opened.mv("n-deep", "deep");
        opened.seal();
        write(opened.at("deep/q/new"), "new");
        fs::create_dir(opened.at("q-2")).unwrap();
        opened.mv("n-3", "q-3");
        opened.seal();
        write(opened.at("q-2/new"), "new");
        write(opened.at("q-3/new"), "new");
        let merged = opened.merged();
        opened.commit(None, false);
        opened.assert_equal();
        assert_eq!(differing(&without_times(&merged), &without_times(&opened.base())), [""; 0]);
    });
}

#[test]
fn renamed_directories_keep_their_content() {
    in_namespaces("renamed_directories_keep_their_content", |workspace| {
        for name in ["old/a", "old/deep/b", "old/deep/er/c", "two/d", "two/link"] {
            let path = workspace.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(path, name);
        }
        fs::set_permissions(workspace.path().join("old/deep"), PermissionsExt::from_mode(0o2750)).unwrap();
        let mut opened = Opened::new(workspace);
        let rename = |opened: &Opened, from: &str, to: &str| {
            let moved = std::process::Command::new("mv")
                .args(["-T".as_ref(), opened.at(from).as_os_str(), opened.at(to).as_os_str()])
                .status()
                .unwrap();
            assert!(moved.success());
        };
        rename(&opened, "old", "new");
        rename(&opened, "new/deep", "moved");
        fs::create_dir(opened.at("within")).unwrap();
        rename(&opened, "two", "within/two");
        write(opened.at("moved/er/c"), "changed");
        fs::remove_file(opened.at("within/two/link")).unwrap();
        let merged = opened.merged();
        // An unselected directory keeps its content, too.
        opened.commit(paths(&["old", "two", "moved", "new"]), false);
        assert_eq!(differing(&merged, &opened.merged()), [""; 0]);
        assert_eq!(fs::read_to_string(opened.real("moved/er/c")).unwrap(), "changed");
        assert!(!opened.real("within").exists() && !opened.real("two").exists());
        // Nothing comes from a cache.
        opened.remount();
        assert_eq!(differing(&merged, &opened.merged()), [""; 0]);
        opened.commit(None, false);
        opened.assert_equal();
        assert_eq!(differing(&merged, &opened.merged()), [""; 0]);
    });
}

#[test]
fn changes_of_sealed_layers_are_committed() {
    in_namespaces("changes_of_sealed_layers_are_committed", |workspace| {
        fs::create_dir_all(workspace.path().join("renamed/deep")).unwrap();
        write(workspace.path().join("renamed/deep/file"), "content");
        furnish(&workspace);
        let mut opened = Opened::new(workspace);
        let root = opened.workspace.path();
        change_everything(|name| root.join(OsStr::from_bytes(name)));
        let mv = |opened: &Opened, from: &str, to: &str| {
            let moved = std::process::Command::new("mv").args([opened.at(from), opened.at(to)]).status().unwrap();
            assert!(moved.success());
        };
        mv(&opened, "renamed", "renamed-once");
        opened.seal();
        mv(&opened, "renamed-once", "renamed-twice");
        write(opened.at("new/locked/deep/more"), "");
        fs::remove_file(opened.at("new/fifo")).unwrap();
        write(opened.at("edited"), "edited again");
        let merged = opened.merged();
        opened.commit(paths(&["renamed", "renamed-twice", "new"]), false);
        opened.commit(None, false);
        opened.assert_equal();
        assert_eq!(differing(&without_times(&merged), &without_times(&opened.base())), [""; 0]);
        fs::remove_file(opened.at("new/locked/deep/more")).unwrap();
        fs::remove_file(opened.at("new/locked/deep/file")).unwrap();
        opened.commit(None, false);
        assert!(!opened.real("new/locked/deep/file").exists());
        opened.assert_equal();
    });
}

#[test]
fn the_mode_of_the_workspace_itself_is_committed_and_discarded() {
    in_namespaces("the_mode_of_the_workspace_itself_is_committed_and_discarded", |workspace| {
        fs::create_dir(workspace.path().join("directory")).unwrap();
        let mut opened = Opened::new(workspace);
        let set = |opened: &Opened, mode: u32| {
            for name in ["", "directory"] {
                fs::set_permissions(opened.at(name), PermissionsExt::from_mode(mode)).unwrap();
            }
        };
        let modes = |path: PathBuf| ["", "directory"].map(|name| path.join(name).metadata().unwrap().mode() & 0o7777);
        // A commit changes the times of real directories. That must not hide later changes.
        for mode in [0o700, 0o1711] {
            set(&opened, mode);
            write(opened.at("directory/file"), &mode.to_string());
            assert_eq!(opened.changes().len(), 3, "{:?}", opened.changes());
            assert_eq!(opened.commit(paths(&["."]), false), 3);
            assert_eq!(modes(opened.real("")), [mode, mode]);
        }
        set(&opened, 0o755);
        assert_eq!(opened.discard(paths(&["."])), Ok(2));
        assert_eq!(modes(opened.at("")), [0o1711, 0o1711]);
        opened.assert_equal();
    });
}

/// A workspace in the same namespace, with the same changes each time.
fn changed(mounter: crate::overlay::Mounter) -> Opened {
    changed_in(Workspace::new(mounter))
}

fn changed_in(workspace: Workspace) -> Opened {
    furnish(&workspace);
    let opened = Opened::new(workspace);
    let root = opened.workspace.path();
    change_everything(|name| root.join(OsStr::from_bytes(name)));
    opened
}

/// Runs a call in a process that ends there.
fn in_process(call: impl FnOnce() -> i32) -> i32 {
    // SAFETY: no other thread of this process holds a lock: the harness waits for this one.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(101);
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFEXITED(status));
            libc::WEXITSTATUS(status)
        }
    }
}

const OPTIONS: fn() -> Options = || Options { paths: None, force: false, sync: false, withholds: false };

#[test]
fn a_commit_that_is_killed_is_completed_or_leaves_nothing() {
    in_namespaces("a_commit_that_is_killed_is_completed_or_leaves_nothing", |workspace| {
        let mounter = workspace.mounter;
        for point in 0.. {
            let mut opened = changed(mounter);
            let (old, new) = (opened.base(), opened.merged());
            let code = in_process(|| {
                let (mut count, mut is_planned) = (0, false);
                let done = opened.run(OPTIONS(), |reached| {
                    is_planned |= reached == Point::Planned;
                    if count == point {
                        // SAFETY: ends the process.
                        unsafe { libc::_exit(if is_planned { 2 } else { 1 }) }
                    }
                    count += 1;
                    Ok(())
                });
                if done.is_ok() { 0 } else { 3 }
            });
            opened.workspace.unmount();
            let is_recovered = crate::recovery::recover(&opened.store).unwrap();
            let (expected, found) = match code {
                1 => (old, opened.base()),
                _ => (without_times(&new), without_times(&opened.base())),
            };
            assert_eq!((code, is_recovered), (code.min(2), code != 0), "after point {point}");
            assert_eq!(differing(&expected, &found), [""; 0], "after point {point}");
            opened.assert_clean();
            if code == 0 {
                assert!(point > 60, "only {point} points");
                return;
            }
        }
    });
}

#[test]
fn what_the_machine_runs_later_is_left_out_unless_it_is_named() {
    in_namespaces("what_the_machine_runs_later_is_left_out_unless_it_is_named", |workspace| {
        fs::create_dir_all(workspace.path().join(".git/hooks")).unwrap();
        fs::create_dir_all(workspace.path().join(".vscode")).unwrap();
        write(workspace.path().join(".vscode/tasks.json"), "old");
        let mut opened = Opened::new(workspace);
        for name in [".cargo", "sub"] {
            fs::create_dir(opened.at(name)).unwrap();
        }
        let listed = [".cargo/config.toml", ".envrc", ".git/hooks/pre-commit", "sub/.npmrc"];
        for name in listed.iter().chain(&["sub/file", ".git/HEAD"]) {
            write(opened.at(name), "new");
        }
        fs::remove_dir_all(opened.at(".vscode")).unwrap();
        let commit = |opened: &mut Opened, paths| {
            let outcome = opened.run(Options { paths, force: false, sync: false, withholds: true }, never).unwrap();
            let Outcome::Committed { applied, skipped } = outcome else { panic!("{outcome:?}") };
            let skipped: Vec<String> = skipped.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            (applied, skipped)
        };
        let left = [
            ".cargo",
            ".cargo/config.toml",
            ".envrc",
            ".git/hooks/pre-commit",
            ".vscode",
            ".vscode/tasks.json",
            "sub/.npmrc",
        ];
        assert_eq!(commit(&mut opened, None), (3, left.map(String::from).to_vec()));
        assert!(opened.real("sub/file").exists() && opened.real(".git/HEAD").exists());
        assert!(opened.real(".vscode/tasks.json").exists() && listed.iter().all(|name| !opened.real(name).exists()));
        assert_eq!(commit(&mut opened, paths(&["."])).0, 0);
        assert_eq!(commit(&mut opened, paths(&["sub"])), (0, vec!["sub/.npmrc".into()]));
        assert_eq!(commit(&mut opened, paths(&[".cargo/config.toml", ".vscode", "sub/.npmrc"])), (5, vec![]));
        assert!(opened.real(".cargo/config.toml").exists() && !opened.real(".vscode").exists());
        assert_eq!(opened.changes(), ["Created .envrc", "Created .git/hooks/pre-commit"]);
    });
}

/// When something was modified, also where it is a link.
fn modified(path: PathBuf) -> SystemTime {
    fs::symlink_metadata(path).unwrap().modified().unwrap()
}

#[test]
fn a_commit_that_fails_is_undone() {
    in_namespaces("a_commit_that_fails_is_undone", |workspace| {
        let mounter = workspace.mounter;
        for step in 0.. {
            let mut opened = changed(mounter);
            let old = opened.base();
            let times = |opened: &Opened| ["old", "old/deep", "to-file/deep"].map(|name| modified(opened.real(name)));
            let old_times = times(&opened);
            let mut count = 0;
            let done = opened.run(OPTIONS(), |reached| {
                count += usize::from(reached == Point::Applied);
                if reached == Point::Applied && count == step + 1 { Err(Errno::NOSPC) } else { Ok(()) }
            });
            match done {
                Err(Failure::System(errno, _)) => assert_eq!(errno, Errno::NOSPC),
                _ => {
                    assert!(step > 30);
                    return;
                }
            }
            assert_eq!(differing(&old, &opened.base()), [""; 0], "at step {step}");
            assert_eq!(times(&opened), old_times, "at step {step}");
            opened.assert_clean();
            if step % 10 == 0 {
                opened.commit(None, false);
                opened.assert_equal();
            }
        }
    });
}

#[test]
fn an_undo_that_is_killed_is_completed() {
    in_namespaces("an_undo_that_is_killed_is_completed", |workspace| {
        let mounter = workspace.mounter;
        for point in 0.. {
            let mut opened = changed(mounter);
            let old = opened.base();
            let code = in_process(|| {
                let (mut applied, mut undone) = (0, 0);
                let _ = opened.run(OPTIONS(), |reached| match reached {
                    Point::Applied => {
                        applied += 1;
                        if applied == 30 { Err(Errno::NOSPC) } else { Ok(()) }
                    }
                    Point::Reversed | Point::Undone | Point::Ending => {
                        if undone == point {
                            // SAFETY: ends the process.
                            unsafe { libc::_exit(1) }
                        }
                        undone += 1;
                        Ok(())
                    }
                    _ => Ok(()),
                });
                0
            });
            opened.workspace.unmount();
            assert_eq!(crate::recovery::recover(&opened.store).unwrap(), code == 1);
            assert_eq!(differing(&old, &opened.base()), [""; 0], "after point {point}");
            opened.assert_clean();
            if code == 0 {
                assert!(point > 30);
                return;
            }
        }
    });
}

#[test]
fn an_undo_that_fails_is_tried_again() {
    in_namespaces("an_undo_that_fails_is_tried_again", |workspace| {
        let mut opened = changed(workspace.mounter);
        let (old, mut count) = (opened.base(), 0);
        let failed = opened.run(OPTIONS(), |reached| {
            count += 1;
            if reached == Point::Undone || (reached == Point::Applied && count > 60) { Err(Errno::IO) } else { Ok(()) }
        });
        let Err(Failure::System(Errno::IO, doing)) = failed else { panic!("{failed:?}") };
        assert!(doing.contains("could not be restored"), "{doing}");
        assert!(journal::exists(&opened.store).unwrap());
        // It is undone first, so everything is a change again.
        let options = Options { paths: paths(&["kept"]), force: false, sync: false, withholds: false };
        assert!(matches!(opened.run(options, never), Err(Failure::NoChange(path)) if path == b"kept"));
        assert_eq!(differing(&old, &opened.base()), [""; 0]);
        opened.commit(None, false);
        opened.assert_equal();
    });
}

#[test]
fn a_full_disk_leaves_the_real_directory_as_it_was() {
    in_namespaces("a_full_disk_leaves_the_real_directory_as_it_was", |workspace| {
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", workspace.path(), "tmpfs", flags, c"size=256k").unwrap();
        write(workspace.path().join("kept"), "content");
        write(workspace.path().join("gone"), "content");
        let mut opened = Opened::new(workspace);
        fs::remove_file(opened.at("gone")).unwrap();
        write(opened.at("kept"), "changed");
        write(opened.at("big"), &"x".repeat(1 << 20));
        let before = opened.base();
        let failed = opened.run(OPTIONS(), never);
        assert!(matches!(failed, Err(Failure::System(Errno::NOSPC, _))), "{failed:?}");
        assert_eq!(differing(&before, &opened.base()), [""; 0]);
        opened.assert_clean();
        assert_eq!(opened.commit(paths(&["kept", "gone"]), false), 2);
        assert_eq!(fs::read_to_string(opened.real("kept")).unwrap(), "changed");
    });
}

#[test]
fn a_full_store_leaves_the_real_directory_as_it_was() {
    in_namespaces("a_full_store_leaves_the_real_directory_as_it_was", |workspace| {
        let store = workspace.directory.path().join("store");
        fs::create_dir(&store).unwrap();
        rustix::mount::mount("tmpfs", &store, "tmpfs", rustix::mount::MountFlags::empty(), c"size=8k").unwrap();
        let mut opened = changed_in(workspace);
        write(store.join("big"), "x".repeat(4096).as_str());
        let before = opened.base();
        // The journal fits without its steps. Then it does not fit at all.
        for _ in 0..2 {
            let failed = opened.run(OPTIONS(), never);
            assert!(matches!(failed, Err(Failure::System(Errno::NOSPC, _))), "{failed:?}");
            assert_eq!(differing(&before, &opened.base()), [""; 0]);
            opened.assert_clean();
            write(store.join("bigger"), "x");
        }
        for name in ["big", "bigger"] {
            fs::remove_file(store.join(name)).unwrap();
        }
        opened.commit(paths(&["gone"]), false);
        rustix::mount::unmount(&store, rustix::mount::UnmountFlags::DETACH).unwrap();
    });
}

#[test]
fn a_file_that_cannot_be_replaced_undoes_the_commit() {
    in_namespaces("a_file_that_cannot_be_replaced_undoes_the_commit", |workspace| {
        use rustix::fs::{IFlags, ioctl_setflags};
        let mut opened = changed_in(workspace);
        let before = opened.base();
        let locked = fs::File::open(opened.real("to-link")).unwrap();
        if ioctl_setflags(&locked, IFlags::IMMUTABLE).is_err() {
            // Only root can do this, and not everywhere.
            return;
        }
        // The flag has changed the file.
        let failed = opened.run(Options { paths: None, force: true, sync: false, withholds: false }, never);
        let after = opened.base();
        ioctl_setflags(&locked, IFlags::empty()).unwrap();
        assert!(matches!(failed, Err(Failure::System(Errno::PERM, _))), "{failed:?}");
        assert_eq!(differing(&before, &after), [""; 0]);
        opened.assert_clean();
    });
}

#[test]
fn a_store_of_a_dead_process_is_completed_and_removed() {
    in_namespaces("a_store_of_a_dead_process_is_completed_and_removed", |workspace| {
        let stores = workspace.directory.path().join("stores");
        fs::create_dir_all(stores.join("foreign/layer-1")).unwrap();
        let mut opened = changed_in(workspace);
        let new = opened.merged();
        let base = opened.mounted.base.try_clone().unwrap();
        let of_all = Stores { path: &stores, are_temporary: true };
        let create = |name: &str| {
            of_all.sweep(&base).unwrap();
            Store::create(&of_all, name.as_bytes(), Storage::Disk).unwrap()
        };
        let code = in_process(|| {
            let store = create("killed");
            opened.store = store.directory().try_clone().unwrap();
            let _ = opened.run(OPTIONS(), |reached| {
                if reached == Point::Planned {
                    // SAFETY: ends the process.
                    unsafe { libc::_exit(1) }
                }
                Ok(())
            });
            0
        });
        assert_eq!(code, 1);
        opened.workspace.unmount();
        let living = create("living");
        assert_eq!(differing(&without_times(&new), &without_times(&opened.base())), [""; 0]);
        opened.assert_clean();
        let mut next = create("next");
        let present = |name: &str| stores.join(name).exists();
        // It is removed in the background.
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while present("killed") && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(["killed", "foreign", "living", "next"].map(present), [false, true, true, true]);
        drop(living);
        next.remove();
        let parent = rustix::fs::open(&stores, OFlags::RDONLY, Mode::empty()).unwrap();
        crate::sweep::remove_all(&parent, crate::sweep::find(&parent).unwrap());
        assert_eq!(["foreign", "living", "next"].map(present), [true, false, false]);
    });
}

#[test]
fn a_recovery_empties_no_other_directory() {
    in_namespaces("a_recovery_empties_no_other_directory", |workspace| {
        let mounter = workspace.mounter;
        for point in [Point::Begun, Point::Staged, Point::Planned, Point::Applied] {
            let mut opened = changed(mounter);
            let code = in_process(|| {
                let _ = opened.run(OPTIONS(), |reached| match reached {
                    // SAFETY: ends the process.
                    reached if reached == point => unsafe { libc::_exit(1) },
                    _ => Ok(()),
                });
                0
            });
            assert_eq!(code, 1);
            // Whoever owns the real directory gives the name to another one.
            let name = staging::name(ID);
            let named = opened.real(OsStr::from_bytes(&name));
            let _ = fs::rename(&named, opened.real("away"));
            fs::create_dir(&named).unwrap();
            write(named.join("theirs"), "");
            opened.workspace.unmount();
            assert!(crate::recovery::recover(&opened.store).unwrap());
            assert!(named.join("theirs").exists(), "{point:?}");
            assert!(!journal::exists(&opened.store).unwrap());
            // The next commit uses another name.
            opened.remount_unmounted();
            write(opened.at("more"), "");
            assert_eq!(opened.commit(paths(&["more"]), true), 1);
            assert!(opened.real("more").exists());
            assert!(opened.real(OsStr::from_bytes(&name)).join("theirs").exists());
        }
    });
}

#[test]
fn a_store_without_its_real_directory_is_removed() {
    in_namespaces("a_store_without_its_real_directory_is_removed", |workspace| {
        let stores = workspace.directory.path().join("stores");
        let other = workspace.another();
        let mut opened = changed_in(workspace);
        let of_all = Stores { path: &stores, are_temporary: false };
        let code = in_process(|| {
            let store = Store::create(&of_all, b"killed", Storage::Disk).unwrap();
            opened.store = store.directory().try_clone().unwrap();
            let _ = opened.run(OPTIONS(), |reached| match reached {
                // SAFETY: ends the process.
                Point::Planned => unsafe { libc::_exit(1) },
                _ => Ok(()),
            });
            0
        });
        assert_eq!(code, 1);
        opened.workspace.unmount();
        let sweep = || of_all.sweep(&open(&other.path())).unwrap();
        // Another directory at its path is not the same.
        let (real, away) = (opened.workspace.path(), opened.workspace.directory.path().join("away"));
        fs::rename(&real, &away).unwrap();
        fs::create_dir(&real).unwrap();
        sweep();
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while stores.join("killed").exists() {
            assert!(std::time::Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
    });
}

#[test]
fn the_keeper_answers_requests() {
    in_namespaces("the_keeper_answers_requests", |workspace| {
        use nacre_protocol::workspace::{KeeperReply, KeeperRequest};
        if workspace.mounter == crate::overlay::Mounter::User {
            // A namespace within this one would look like that of root.
            return;
        }
        let path = workspace.path();
        let bytes = |path: PathBuf| path.into_os_string().into_encoded_bytes();
        let store = workspace.directory.path().join("store");
        let code = in_process(|| {
            let mut keeper = crate::keeper::Keeper::default();
            let open = KeeperRequest::Open(nacre_protocol::workspace::Opening {
                path: bytes(path.clone()),
                stores: bytes(store.clone()),
                removes_stores: true,
                unique: "1-test".into(),
                id: None,
                storage: nacre_protocol::workspace::Storage::Disk,
                fork: None,
                archive: None,
                passes_mounts: false,
            });
            let mut answer = |request| keeper.answer(request, None, &|| false);
            assert_eq!(answer(open).0, KeeperReply::Done);
            // Where the keeper has mounted the workspace. Programs have copies of this mount at its path.
            let seen = store.join("1-test/layer-1/mount");
            write(seen.join("file"), "content");
            drop(std::os::unix::net::UnixListener::bind(seen.join("socket")).unwrap());
            let commit = |paths: Option<Vec<Vec<u8>>>| KeeperRequest::Commit {
                chosen: paths.into(),
                force: false,
                sync: true,
                withholds: false,
            };
            let none = answer(commit(paths(&["none"]))).0;
            assert_eq!(none, KeeperReply::NoChange { path: b"none".to_vec() });
            let (reply, list) = answer(commit(None));
            assert_eq!(reply, KeeperReply::Committed { applied: 1 });
            let skipped: Vec<nacre_protocol::workspace::Skipped> = read(list);
            assert_eq!(skipped[0].path, b"socket");
            assert_eq!(
                answer(KeeperRequest::Discard { chosen: Chosen::default() }).0,
                KeeperReply::Discarded { count: 1 }
            );
            assert!(!seen.join("socket").exists());
            keeper.close(true);
            0
        });
        assert_eq!(
            (code, fs::read_to_string(path.join("file")).unwrap(), store.exists()),
            (0, "content".into(), false)
        );
    });
}

fn read<T: serde::de::DeserializeOwned>(list: Option<OwnedFd>) -> Vec<T> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut fs::File::from(list.unwrap()), &mut bytes).unwrap();
    nacre_protocol::message::decode(&bytes).unwrap()
}

#[test]
fn no_commit_leaves_the_real_directory_through_a_link() {
    in_namespaces("no_commit_leaves_the_real_directory_through_a_link", |workspace| {
        let mounter = workspace.mounter;
        let end = std::time::Instant::now() + Duration::from_secs(3);
        let (mut applied, mut skipped) = (0, 0);
        while std::time::Instant::now() < end {
            let workspace = Workspace::new(mounter);
            let outside = workspace.directory.path().join("outside");
            for root in [&outside, &workspace.path().join("swapped")] {
                fs::create_dir_all(root.join("deep")).unwrap();
                for name in ["edited", "gone", "deep/mode"] {
                    write(root.join(name), "content");
                }
            }
            let mut opened = Opened::new(workspace);
            let before = snapshot(&open(&outside));
            write(opened.at("swapped/edited"), "changed");
            write(opened.at("swapped/deep/new"), "new");
            fs::remove_file(opened.at("swapped/gone")).unwrap();
            fs::set_permissions(opened.at("swapped/deep/mode"), PermissionsExt::from_mode(0o4777)).unwrap();
            let (real, is_over) = (opened.real(""), std::sync::atomic::AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let (swapped, away) = (real.join("swapped"), real.join("away"));
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        let _ = fs::rename(&swapped, &away);
                        // Absolute links also lead to another mount, which is refused.
                        let _ = symlink("../outside", &swapped);
                        let _ = fs::remove_file(&swapped);
                        let _ = fs::rename(&away, &swapped);
                    }
                });
                for _ in 0..3 {
                    match opened.run(Options { paths: None, force: true, sync: false, withholds: false }, never) {
                        Ok(Outcome::Committed { applied: count, skipped: not }) => {
                            applied += count;
                            skipped += not.len();
                        }
                        // The real directory may be unusable at the moment.
                        Ok(other) => panic!("{other:?}"),
                        Err(_) => {}
                    }
                }
                is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            assert_eq!(differing(&before, &snapshot(&open(&outside))), [""; 0]);
        }
        assert!(applied > 0 && skipped > 0, "{applied} {skipped}");
    });
}

/// A workspace with changes, in whose real directory another program changes the same during a commit.
fn changed_by_others(workspace: Workspace, force: bool) -> (Opened, Outcome, Snapshot) {
    for name in ["edited", "gone", "old/a", "linked/a", "deep/a"] {
        let path = workspace.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(path, "content");
    }
    let outside = workspace.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    write(outside.join("a"), "outside");
    let mut opened = Opened::new(workspace);
    for name in ["edited", "linked/a", "deep/a", "created"] {
        write(opened.at(name), "changed");
    }
    fs::remove_file(opened.at("gone")).unwrap();
    fs::remove_dir_all(opened.at("old")).unwrap();
    let (root, base) = (opened.real(""), open(&opened.real("")));
    let mut theirs = Snapshot::new();
    let outcome = opened.run(Options { paths: None, force, sync: false, withholds: false }, |reached| {
        if reached == Point::Planned {
            let real = |name: &str| root.join(name);
            for name in ["edited", "gone", "created"] {
                write(real("other"), "theirs");
                fs::rename(real("other"), real(name)).unwrap();
            }
            write(real("old/b"), "theirs");
            fs::rename(real("linked"), real("linked.old")).unwrap();
            symlink("../outside", real("linked")).unwrap();
            theirs = snapshot(&base);
            theirs.retain(|path, _| !staging::is_staging(path));
        }
        Ok(())
    });
    assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "outside");
    (opened, outcome.unwrap(), theirs)
}

#[test]
fn what_others_change_during_the_commit_is_a_conflict() {
    in_namespaces("what_others_change_during_the_commit_is_a_conflict", |workspace| {
        let (mut opened, outcome, theirs) = changed_by_others(workspace, false);
        let Outcome::Conflict(found) = outcome else { panic!("{outcome:?}") };
        let names: Vec<_> = found.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        assert!(["created", "edited", "gone"].iter().all(|name| names.contains(&name.to_string())), "{names:?}");
        // Nothing is applied.
        assert_eq!(differing(&theirs, &opened.base()), [""; 0]);
        assert!(!journal::exists(&opened.store).unwrap());
        assert!(["created", "edited", "gone"].iter().all(|name| opened.conflicts().contains(&name.to_string())));
    });
}

#[test]
fn what_others_change_during_a_forced_commit_stays() {
    in_namespaces("what_others_change_during_a_forced_commit_stays", |workspace| {
        let (mut opened, outcome, _) = changed_by_others(workspace, true);
        let Outcome::Committed { applied, skipped } = outcome else { panic!("{outcome:?}") };
        let names: Vec<_> = skipped.keys().map(|path| String::from_utf8_lossy(path)).collect();
        assert_eq!((applied, names), (2, ["created", "edited", "gone", "linked/a", "old"].map(Into::into).into()));
        for name in ["edited", "gone", "created", "old/b"] {
            assert_eq!(fs::read_to_string(opened.real(name)).unwrap(), "theirs", "{name}");
        }
        assert_eq!(fs::read_to_string(opened.real("deep/a")).unwrap(), "changed");
        // They are conflicts of the next commit.
        for name in ["created", "edited", "gone"] {
            assert!(opened.conflicts().contains(&name.to_string()));
        }
    });
}

/// Edits in place what a commit is about to replace, to remove, and to give another mode.
fn edit_in_place(real: &std::path::Path) {
    for name in ["edited", "gone", "mode", "to-link"] {
        let mut file = fs::File::options().append(true).open(real.join(name)).unwrap();
        std::io::Write::write_all(&mut file, b" theirs").unwrap();
    }
}

fn assert_edited(opened: &Opened) {
    for name in ["edited", "gone", "mode", "to-link"] {
        assert_eq!(fs::read_to_string(opened.real(name)).unwrap(), format!("{name} theirs"));
        assert_ne!(fs::metadata(opened.real(name)).unwrap().mtime(), 9, "{name}");
    }
    assert!(!opened.real("old").exists() && opened.real("new/locked").exists());
}

#[test]
fn what_is_edited_in_place_during_the_commit_stays() {
    in_namespaces("what_is_edited_in_place_during_the_commit_stays", |workspace| {
        let mounter = workspace.mounter;
        let mut opened = changed_in(workspace);
        let real = opened.real("");
        let edit = |reached| {
            if reached == Point::Planned {
                edit_in_place(&real);
            }
            Ok(())
        };
        let outcome = opened.run(Options { paths: None, force: true, sync: false, withholds: false }, edit).unwrap();
        let Outcome::Committed { skipped, .. } = outcome else { panic!("{outcome:?}") };
        let names: Vec<_> = skipped.keys().map(|path| String::from_utf8_lossy(path)).collect();
        assert_eq!(names, ["edited", "gone", "mode", "to-link"]);
        assert_edited(&opened);
        assert_eq!(opened.conflicts(), ["edited", "gone", "mode", "to-link"]);

        // The same after a crash.
        let mut opened = changed(mounter);
        let code = in_process(|| {
            let _ = opened.run(OPTIONS(), |reached| match reached {
                // SAFETY: ends the process.
                Point::Planned => unsafe { libc::_exit(1) },
                _ => Ok(()),
            });
            0
        });
        edit_in_place(&opened.real(""));
        opened.workspace.unmount();
        assert_eq!((code, crate::recovery::recover(&opened.store).unwrap()), (1, true));
        assert_edited(&opened);
        opened.assert_clean();

        // A commit that is undone takes nothing back.
        let mut opened = changed(mounter);
        let real = opened.real("");
        let mut count = 0;
        let failed = opened.run(Options { paths: None, force: true, sync: false, withholds: false }, |reached| {
            if reached == Point::Planned {
                edit_in_place(&real);
            }
            count += usize::from(reached == Point::Applied);
            if reached == Point::Applied && count == 30 { Err(Errno::IO) } else { Ok(()) }
        });
        assert!(matches!(failed, Err(Failure::System(Errno::IO, _))), "{failed:?}");
        for name in ["edited", "gone", "mode", "to-link"] {
            assert_eq!(fs::read_to_string(opened.real(name)).unwrap(), format!("{name} theirs"));
        }
        assert_eq!(opened.conflicts(), ["edited", "gone", "mode", "to-link"]);
    });
}

#[test]
fn a_change_during_the_staging_is_a_conflict() {
    in_namespaces("a_change_during_the_staging_is_a_conflict", |workspace| {
        write(workspace.path().join("file"), "content");
        let mut opened = Opened::new(workspace);
        write(opened.at("file"), "changed");
        write(opened.at("new"), "");
        let file = opened.real("file");
        let outcome = opened.run(OPTIONS(), |reached| {
            if reached == Point::Staged {
                write(&file, "theirs");
            }
            Ok(())
        });
        assert_eq!(outcome.unwrap(), Outcome::Conflict(vec![b"file".to_vec()]));
        assert!(!opened.real("new").exists());
        opened.assert_clean();
    });
}

#[test]
fn sparse_files_stay_sparse() {
    in_namespaces("sparse_files_stay_sparse", |workspace| {
        let mut opened = Opened::new(workspace);
        let file = fs::File::create(opened.at("sparse")).unwrap();
        for at in [1 << 20, 1 << 28] {
            std::os::unix::fs::FileExt::write_at(&file, b"data", at).unwrap();
        }
        file.set_len(1 << 30).unwrap();
        drop(file);
        opened.commit(None, false);
        let real = fs::metadata(opened.real("sparse")).unwrap();
        assert!(real.len() == 1 << 30 && real.blocks() * 512 < 1 << 20, "{} blocks", real.blocks());
        let mut found = [0; 6];
        let file = fs::File::open(opened.real("sparse")).unwrap();
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut found, (1 << 28) - 1).unwrap();
        assert_eq!(found, *b"\0data\0");
    });
}

#[test]
fn the_holes_of_files_are_not_read() {
    in_namespaces("the_holes_of_files_are_not_read", |workspace| {
        use std::os::unix::fs::FileExt;
        let mut opened = Opened::new(workspace);
        let file = fs::File::create(opened.at("sparse")).unwrap();
        file.set_len(8 << 40).unwrap();
        for at in [0, 5 << 40] {
            file.write_at(b"data", at).unwrap();
        }
        assert_eq!(opened.commit(None, false), 1);
        file.set_modified(UNIX_EPOCH).unwrap();
        assert_eq!(opened.changes(), [""; 0]);
        // Data where the other one has a hole.
        file.write_at(&[0; 10], 3 << 40).unwrap();
        assert_eq!(opened.changes(), [""; 0]);
        file.write_at(b"x", 7 << 40).unwrap();
        assert_eq!(opened.changes(), ["Modified sparse"]);
        assert_eq!(opened.commit(None, false), 1);
        assert!(fs::metadata(opened.real("sparse")).unwrap().blocks() * 512 < 1 << 20);
    });
}

#[test]
fn very_deep_directories_are_committed_and_removed() {
    in_namespaces("very_deep_directories_are_committed_and_removed", |workspace| {
        const DEPTH: u64 = 800;
        let mut opened = Opened::new(workspace);
        let mut deepest = opened.mounted.merged.try_clone().unwrap();
        for _ in 0..DEPTH {
            rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            deepest = rustix::fs::openat(&deepest, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        drop(deepest);
        assert_eq!(opened.changes().len() as u64, DEPTH);
        assert_eq!(opened.commit(None, false), DEPTH);
        assert_eq!(opened.changes(), [""; 0]);
        fs::remove_dir_all(opened.at("d")).unwrap();
        assert_eq!(opened.commit(None, false), DEPTH);
        opened.assert_equal();
    });
}

#[test]
fn a_comparison_ends_when_nobody_waits_for_it() {
    in_namespaces("a_comparison_ends_when_nobody_waits_for_it", |workspace| {
        write(workspace.path().join("large"), &"a".repeat(2 << 20));
        let opened = Opened::new(workspace);
        // Directories, and the blocks of a file.
        for limit in [0, 3] {
            write(opened.at("large"), &("a".repeat((2 << 20) - 1) + "b"));
            let calls = std::cell::Cell::new(0);
            let interrupt = || {
                calls.set(calls.get() + 1);
                if calls.get() > limit { Err(Errno::CANCELED) } else { Ok(()) }
            };
            let all = crate::selection::Selection::all();
            let found = opened.with_sides(|sides| Sides { interrupt: &interrupt, ..*sides }.changes(&all));
            assert_eq!(found.unwrap_err().errno(), Errno::CANCELED);
            assert_eq!(calls.get(), limit + 1);
        }
    });
}

#[test]
fn the_mode_of_one_of_several_names_is_its_own() {
    in_namespaces("the_mode_of_one_of_several_names_is_its_own", |workspace| {
        let set = |path: PathBuf, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        for name in ["first", "second", "third"] {
            write(workspace.path().join(name), "same");
        }
        fs::hard_link(workspace.path().join("third"), workspace.path().join("fourth")).unwrap();
        set(workspace.path().join("first"), 0o600);
        let mut opened = Opened::new(workspace);
        // Two real files become one.
        fs::remove_file(opened.at("second")).unwrap();
        fs::hard_link(opened.at("first"), opened.at("second")).unwrap();
        set(opened.at("first"), 0o755);
        // One of two names of a real file is changed.
        set(opened.at("third"), 0o711);
        assert_eq!(opened.discard(paths(&["first"])), Ok(1));
        assert_eq!([mode(opened.at("first")), mode(opened.at("second"))], [0o600, 0o755]);
        assert_eq!(opened.commit(None, false), 2);
        let modes = ["first", "second", "third", "fourth"].map(|name| (mode(opened.at(name)), mode(opened.real(name))));
        assert_eq!(modes, [(0o600, 0o600), (0o755, 0o755), (0o711, 0o711), (0o644, 0o644)]);
        assert_eq!(opened.commit(None, false), 0);
    });
}

#[test]
fn discarded_changes_are_gone() {
    in_namespaces("discarded_changes_are_gone", |workspace| {
        let mut opened = changed(workspace.mounter);
        let (old, new) = (opened.base(), opened.merged());
        assert_eq!(opened.discard(paths(&["edited", "kept"])), Err(Trouble::NoChange(b"kept".to_vec())));
        assert_eq!(differing(&new, &opened.merged()), [""; 0]);
        let some = paths(&["edited", "new/fifo", "old/deep/er/a", "to-file/deep", "dir-mode"]);
        assert_eq!(opened.discard(some), Ok(10));
        let changed = differing(&new, &opened.merged());
        let expected = [
            "dir-mode",
            "edited",
            "new/fifo",
            "old",
            "old/deep",
            "old/deep/er",
            "old/deep/er/a",
            "to-file",
            "to-file/deep",
            "to-file/deep/x",
        ];
        assert_eq!(changed, expected);
        let left = opened.changes().len() as u64;
        assert_eq!(opened.discard(None), Ok(left));
        assert_eq!(differing(&without_times(&old), &without_times(&opened.merged())), [""; 0]);
        assert_eq!(differing(&old, &opened.base()), [""; 0]);
        opened.assert_equal();
        assert_eq!(opened.discard(None), Ok(0));
    });
}

#[test]
fn discarded_paths_are_newer_than_what_was_built_before_and_keep_their_order() {
    in_namespaces("discarded_paths_are_newer_than_what_was_built_before_and_keep_their_order", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        for name in ["gone/deep", "kept"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for (name, seconds) in [("source", 9), ("gone/b", 8), ("gone/deep/a", 7), ("same", 6), ("kept/inner", 5)] {
            write(at(name), name);
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::options().append(true).open(at(name)).unwrap().set_modified(time).unwrap();
        }
        symlink("source", at("link")).unwrap();
        let mut opened = Opened::new(workspace);
        write(opened.at("source"), "changed");
        fs::remove_dir_all(opened.at("gone")).unwrap();
        fs::remove_file(opened.at("kept/inner")).unwrap();
        fs::remove_file(opened.at("link")).unwrap();
        symlink("other", opened.at("link")).unwrap();
        write(opened.at("kept/new"), "");
        write(opened.at("same"), "other");
        write(opened.at("built"), "of what there was");
        write(opened.at("same"), "same");
        fs::set_permissions(opened.at("same"), PermissionsExt::from_mode(0o600)).unwrap();
        let (built, same) = (modified(opened.at("built")), modified(opened.at("same")));
        assert_eq!(opened.discard(paths(&["source", "gone", "kept", "link", "same"])), Ok(9));
        let end = SystemTime::now();
        write(opened.at("built again"), "");
        let again = modified(opened.at("built again"));
        for name in ["source", "gone", "gone/b", "gone/deep", "gone/deep/a", "kept", "kept/inner", "link"] {
            let time = modified(opened.at(name));
            assert!(built < time && time <= end && time <= again, "{name}: {built:?}, {time:?}, {end:?}, {again:?}");
        }
        let order = ["kept/inner", "gone/deep/a", "gone/b", "source"].map(|name| modified(opened.at(name)));
        assert!(order.is_sorted_by(|one, next| one < next), "{order:?}");
        assert_eq!(modified(opened.at("same")), same, "a file whose content stays keeps its time");
        assert_eq!(opened.changes(), ["Created built", "Created built again"]);
    });
}

#[test]
fn a_discard_of_everything_gives_back_the_real_times() {
    in_namespaces("a_discard_of_everything_gives_back_the_real_times", |workspace| {
        furnish(&workspace);
        let time = UNIX_EPOCH + Duration::from_secs(9);
        let names = ["old", "old/deep", "to-file", "stays", "edited", "gone"];
        for name in &names[..4] {
            fs::File::open(workspace.path().join(name)).unwrap().set_modified(time).unwrap();
        }
        let mut opened = Opened::new(workspace);
        let times = |opened: &Opened| names.map(|name| modified(opened.at(name)));
        let (old, before) = (times(&opened), opened.merged());
        for whole in [None, paths(&["."])] {
            change_everything(|name| opened.at(OsStr::from_bytes(name)));
            assert_ne!(opened.discard(whole), Ok(0));
            assert_eq!(times(&opened), old);
            assert_eq!(differing(&before, &opened.merged()), [""; 0]);
        }
    });
}

#[test]
fn what_is_committed_is_newer_than_what_was_built_before_and_keeps_its_order() {
    in_namespaces("what_is_committed_is_newer_than_what_was_built_before_and_keeps_its_order", |workspace| {
        fs::create_dir(workspace.path().join("kept")).unwrap();
        for name in ["a", "kept/old", "mode"] {
            write(workspace.path().join(name), name);
        }
        let mut opened = Opened::new(workspace);
        fs::create_dir(opened.at("new")).unwrap();
        let names = ["z", "new/file", "a", "new", "kept/new"];
        for (seconds, name) in names.iter().enumerate() {
            if *name != "new" {
                write(opened.at(name), "other content");
            }
            let time = UNIX_EPOCH + Duration::from_secs(9 + seconds as u64);
            fs::File::open(opened.at(name)).unwrap().set_modified(time).unwrap();
        }
        fs::remove_file(opened.at("kept/old")).unwrap();
        fs::set_permissions(opened.at("mode"), PermissionsExt::from_mode(0o600)).unwrap();
        let mode = modified(opened.real("mode"));
        write(opened.real("built"), "of what there was");
        let built = modified(opened.real("built"));
        assert_eq!(opened.commit(None, false), 7);
        let end = SystemTime::now();
        write(opened.real("built again"), "");
        let again = modified(opened.real("built again"));
        for name in names.iter().chain(&["kept"]) {
            let time = modified(opened.real(name));
            assert!(built < time && time <= end && time <= again, "{name}: {built:?}, {time:?}, {end:?}, {again:?}");
        }
        let order = names.map(|name| modified(opened.real(name)));
        assert!(order.is_sorted_by(|one, next| one < next), "{order:?}");
        assert_eq!(modified(opened.real("mode")), mode, "a file whose content stays keeps its time");
    });
}

#[test]
fn a_discarded_rename_restores_the_directory() {
    in_namespaces("a_discarded_rename_restores_the_directory", |workspace| {
        fs::create_dir_all(workspace.path().join("old/deep")).unwrap();
        write(workspace.path().join("old/deep/file"), "content");
        let mut opened = Opened::new(workspace);
        let old = opened.merged();
        let (from, to) = (opened.at("old"), opened.at("new"));
        assert!(std::process::Command::new("mv").args([from, to]).status().unwrap().success());
        write(opened.at("new/deep/file"), "changed");
        assert_eq!(opened.discard(None), Ok(6));
        assert_eq!(differing(&old, &opened.merged()), [""; 0]);
        opened.assert_equal();
    });
}

/// One random change of what programs see.
fn change_something(opened: &Opened, random: &mut Random) {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let path = |random: &mut Random| {
        let depth = 1 + random.below(3);
        let names: Vec<_> = (0..depth).map(|_| NAMES[random.below(NAMES.len())]).collect();
        opened.at(names.join("/"))
    };
    let (one, other) = (path(random), path(random));
    // Many are impossible, like a file in a file.
    let _ = match random.below(10) {
        0..=2 => fs::write(&one, [b'x'; 4].map(|_| b'a' + random.below(3) as u8)),
        3 | 4 => fs::create_dir_all(&one),
        5 => symlink(NAMES[random.below(5)], &one),
        6 => fs::remove_file(&one),
        7 => fs::remove_dir_all(&one),
        8 => fs::rename(&one, &other),
        _ => {
            let modes = [0o600, 0o755, 0o4755, 0o700];
            match fs::symlink_metadata(&one) {
                Ok(found) if !found.is_symlink() => {
                    fs::set_permissions(&one, PermissionsExt::from_mode(modes[random.below(4)]))
                }
                _ => Ok(()),
            }
        }
    };
}

#[test]
fn random_changes_commits_and_discards_agree_with_a_model() {
    in_namespaces("random_changes_commits_and_discards_agree_with_a_model", |workspace| {
        let mounter = workspace.mounter;
        for seed in testing::seeds(8) {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut opened = {
                let workspace = Workspace::new(mounter);
                fs::create_dir_all(workspace.path().join("a/b/c")).unwrap();
                fs::create_dir_all(workspace.path().join("b/d")).unwrap();
                for name in ["a/a", "a/b/a", "a/b/c/a", "b/d/e", "c"] {
                    write(workspace.path().join(name), "abc");
                }
                Opened::new(workspace)
            };
            for round in 0..6 {
                for _ in 0..25 {
                    change_something(&opened, &mut random);
                    if random.below(12) == 0 {
                        opened.seal();
                    }
                }
                let (merged, base) = (without_times(&opened.merged()), without_times(&opened.base()));
                let changes = opened.changes();
                let all = random.below(3) == 0 || changes.is_empty();
                let chosen = if all {
                    None
                } else {
                    let change = &changes[random.below(changes.len())];
                    let (_, path) = change.split_once(' ').unwrap();
                    Some(path.to_string())
                };
                let is_selected = |path: &Vec<u8>| {
                    let Some(chosen) = &chosen else { return true };
                    let chosen = chosen.as_bytes();
                    path.strip_prefix(chosen).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
                };
                let is_above = |path: &Vec<u8>| {
                    chosen.as_ref().is_some_and(|chosen| {
                        chosen.as_bytes().strip_prefix(&path[..]).is_some_and(|rest| rest.starts_with(b"/"))
                    })
                };
                let context = || format!("seed {seed}, round {round}, {chosen:?} of {changes:?}");
                let selected = chosen.as_ref().map(|path| vec![path.as_bytes().to_vec()]);
                let is_commit = random.below(2) == 0;
                if is_commit {
                    let outcome = opened
                        .run(Options { paths: selected, force: false, sync: false, withholds: false }, never)
                        .unwrap();
                    let Outcome::Committed { skipped, .. } = &outcome else { panic!("{outcome:?}: {}", context()) };
                    assert!(skipped.is_empty(), "{skipped:?}: {}", context());
                } else {
                    assert!(opened.discard(selected).is_ok(), "{}", context());
                }
                let (now, real) = (without_times(&opened.merged()), without_times(&opened.base()));
                let (target, unchanged) = if is_commit { (&real, (&merged, &now)) } else { (&now, (&base, &real)) };
                let (source, other) = if is_commit { (&merged, &base) } else { (&base, &merged) };
                assert_eq!(differing(unchanged.0, unchanged.1), [""; 0], "the other side changed: {}", context());
                let paths: std::collections::BTreeSet<_> =
                    merged.keys().chain(base.keys()).chain(target.keys()).collect();
                for path in paths {
                    let expected = if is_selected(path) { source.get(path) } else { other.get(path) };
                    // What is in the place of a directory that is needed, is gone.
                    let is_fitting =
                        target.get(path) == expected || (is_above(path) && target.get(path) == source.get(path));
                    let in_replaced = !is_selected(path)
                        && paths_above(path).any(|above| {
                            is_above(&above)
                                && base.get(&above).map(|seen| seen.mode & 0o170_000)
                                    != merged.get(&above).map(|seen| seen.mode & 0o170_000)
                        });
                    assert!(is_fitting || in_replaced, "{}: {}", String::from_utf8_lossy(path), context());
                }
                opened.assert_clean();
                if random.below(4) == 0 {
                    opened.remount();
                    let again = without_times(&opened.merged());
                    assert_eq!(differing(&now, &again), [""; 0], "after a remount: {}", context());
                }
            }
            let last = opened.run(OPTIONS(), never);
            assert!(matches!(last, Ok(Outcome::Committed { .. })), "seed {seed}: {last:?}");
            let changes = opened.changes();
            assert_eq!(changes, [""; 0], "seed {seed}");
            assert_eq!(
                differing(&without_times(&opened.merged()), &without_times(&opened.base())),
                [""; 0],
                "seed {seed}"
            );
        }
    });
}

/// The paths of the directories above a path.
fn paths_above(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..path.len()).filter(|at| path[*at] == b'/').map(|at| path[..at].to_vec())
}

/// Random texts in some files, as programs find and leave them: also new, deleted, executable ones, and ones with odd names.
fn edit_texts(random: &mut Random, root: &Path) {
    for name in ["a", "dir/b c", "dir/\u{e9}\u{65e5}", "crlf", "new"] {
        let path = root.join(name);
        let text = fs::read(&path).unwrap_or_default();
        let mut lines: Vec<Vec<u8>> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..random.below(5) {
            let at = random.below(lines.len() + 1);
            let line = [&b"same\n"[..], b"other\r\n", b"\n", b"last line"][random.below(4)].to_vec();
            if random.below(2) == 0 && at < lines.len() { drop(lines.remove(at)) } else { lines.insert(at, line) }
        }
        if random.below(8) == 0 {
            let _ = fs::remove_file(&path);
        } else {
            fs::write(&path, lines.concat()).unwrap();
            if random.below(6) == 0 {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
    }
}

#[test]
fn hunks_one_by_one_are_the_whole() {
    in_namespaces("hunks_one_by_one_are_the_whole", |original| {
        for seed in testing::seeds(25) {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let workspace = original.another();
            fs::create_dir(workspace.path().join("dir")).unwrap();
            for name in ["a", "dir/b c", "dir/\u{e9}\u{65e5}", "crlf"] {
                let end = if name == "crlf" { "\r\n" } else { "\n" };
                let lines =
                    (0..random.below(80)).map(|line| format!("line {}{end}", line % (1 + random.0 as usize % 50)));
                write(workspace.path().join(name), &lines.collect::<String>());
            }
            let mut opened = Opened::new(workspace);
            edit_texts(&mut random, &opened.workspace.path());
            // An empty new file has no hunks.
            let with_ids = |opened: &Opened| -> Vec<HunkChoice> {
                opened.hunks().into_iter().filter(|choice| !choice.ids.is_empty()).collect()
            };
            let one = |random: &mut Random, all: &[HunkChoice]| {
                let HunkChoice { path, ids } = &all[random.below(all.len())];
                vec![HunkChoice { path: path.clone(), ids: vec![ids[random.below(ids.len())].clone()] }]
            };
            let is_commit = seed % 2 == 0;
            let target = without_times(&if is_commit { opened.merged() } else { opened.base() });
            loop {
                let all = with_ids(&opened);
                if all.is_empty() || random.below(20) == 0 {
                    break;
                }
                let (seen, real) = (without_times(&opened.merged()), without_times(&opened.base()));
                let chosen = one(&mut random, &all);
                let stays = if is_commit {
                    assert_eq!(opened.commit_hunks(chosen.clone()), 1, "seed {seed}");
                    (seen, without_times(&opened.merged()))
                } else {
                    assert_eq!(opened.discard_hunks(chosen.clone()).unwrap(), 1, "seed {seed}");
                    (real, without_times(&opened.base()))
                };
                assert_eq!(differing(&stays.0, &stays.1), [""; 0], "the other side changed: seed {seed}");
                // It is not there any more.
                let left: Vec<HunkChoice> = with_ids(&opened);
                let is_left = left.iter().any(|one| one.path == chosen[0].path && one.ids.contains(&chosen[0].ids[0]));
                assert!(!is_left, "seed {seed}");
                let (before, again) = (opened.merged(), opened.discard_hunks(chosen));
                assert!(matches!(again, Err(Failure::NoHunk(..) | Failure::NoChange(_))), "seed {seed}: {again:?}");
                assert_eq!(differing(&before, &opened.merged()), [""; 0], "seed {seed}");
                opened.assert_clean();
            }
            if is_commit {
                let last = opened.run(OPTIONS(), never);
                assert!(matches!(last, Ok(Outcome::Committed { .. })), "seed {seed}: {last:?}");
            } else {
                opened.discard(None).unwrap();
            }
            assert_eq!(differing(&target, &without_times(&opened.merged())), [""; 0], "seed {seed}");
            assert_eq!(differing(&target, &without_times(&opened.base())), [""; 0], "seed {seed}");
            assert_eq!(opened.changes(), [""; 0], "seed {seed}");
        }
    });
}

#[test]
fn only_present_hunks_of_texts_can_be_taken() {
    in_namespaces("only_present_hunks_of_texts_can_be_taken", |workspace| {
        for (name, content) in [("text", "a\n"), ("binary", "\0"), ("mode", ""), ("other", ""), ("same", "")] {
            write(workspace.path().join(name), content);
        }
        symlink("text", workspace.path().join("link")).unwrap();
        let mut opened = Opened::new(workspace);
        write(opened.at("text"), "b\n");
        write(opened.at("binary"), "\0\0");
        write(opened.at("large"), &"line\n".repeat(1 << 20));
        fs::set_permissions(opened.at("mode"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::remove_file(opened.at("other")).unwrap();
        fs::create_dir(opened.at("other")).unwrap();
        fs::remove_file(opened.at("link")).unwrap();
        symlink("other", opened.at("link")).unwrap();
        let before = opened.merged();
        let choice = |path: &str| vec![HunkChoice { path: path.into(), ids: vec!["0123456789abcdef".into()] }];
        for (path, expected) in [
            ("text", "hunk 0123456789abcdef is not there any more"),
            ("binary", "a binary file has no hunks"),
            ("large", "a file of more than 1 MiB has no hunks"),
            ("mode", "only changed content of a file has hunks"),
            ("other", "only changed content of a file has hunks"),
            ("link", "only changed content of a file has hunks"),
        ] {
            match opened.discard_hunks(choice(path)) {
                Err(Failure::NoHunk(at, reason)) => assert_eq!((&at[..], &reason[..]), (path.as_bytes(), expected)),
                other => panic!("{path}: {other:?}"),
            }
        }
        for path in ["same", "missing"] {
            assert!(matches!(opened.discard_hunks(choice(path)), Err(Failure::NoChange(_))), "{path}");
        }
        assert_eq!(differing(&before, &opened.merged()), [""; 0]);
        // Other lines at the same place are another hunk.
        let hunks = opened.hunks().into_iter().filter(|one| one.path == b"text").collect::<Vec<_>>();
        write(opened.at("text"), "c\n");
        assert!(matches!(opened.discard_hunks(hunks), Err(Failure::NoHunk(..))));
        assert_eq!(fs::read_to_string(opened.at("text")).unwrap(), "c\n");
    });
}
