//! Workspaces for tests: real overlays, in namespaces of their own.

use crate::changes::Sides;
use crate::known::Known;
use crate::metadata::attributes;
use crate::overlay::{self, Mounter, OverlayLayers};
use crate::selection::Selection;
use crate::tree::{Tree, file_type, join, names, open_directory, open_file, status};
use nacre_protocol::workspace::WorkspaceChange;
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Says to a test that it runs alone, in namespaces of its own, and who mounts.
const MOUNTER: &str = "NACRE_TEST_MOUNTER";
/// Maximum seconds of a test.
const LIMIT: usize = 120;
/// Maximum seconds of each seed that `NACRE_TEST_SEEDS` asks for.
const SEED_LIMIT: usize = 10;

/// Runs a test, given by its path in the crate, in a mount namespace of its own: as root of the machine if it is, and in a user namespace.
pub fn in_namespaces(name: &str, test: impl FnOnce(Workspace)) {
    match std::env::var(MOUNTER).as_deref() {
        Ok("root") => return test(Workspace::new(Mounter::Root)),
        Ok(_) => return test(Workspace::new(Mounter::User)),
        Err(_) => {}
    }
    let is_root = rustix::process::geteuid().is_root();
    let ways: &[(&str, &[&str])] =
        &[("root", &["--mount"]), ("user", &["--user", "--map-current-user", "--keep-caps", "--mount"])];
    for (mounter, flags) in ways.iter().filter(|(mounter, _)| is_root || *mounter == "user") {
        let own = std::env::current_exe().unwrap();
        let mut alone = Command::new("timeout");
        let limit = LIMIT + SEED_LIMIT * seeds(0).count();
        alone.args([&limit.to_string(), "unshare"]).args(*flags).arg(own).args(["--exact", name]).env(MOUNTER, mounter);
        let output = alone.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "as {mounter}: {text}");
    }
}

/// A workspace over a new directory, and a layer for its writes.
pub struct Workspace {
    pub directory: TempDir,
    pub mounter: Mounter,
}

pub fn open(path: &Path) -> OwnedFd {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap()
}

/// A mounted workspace, with its changes so far in sealed layers.
pub struct Mounted {
    pub merged: OwnedFd,
    pub base: OwnedFd,
    pub layers: Vec<Tree>,
    pub mounter: Mounter,
}

impl Workspace {
    pub fn new(mounter: Mounter) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("real")).unwrap();
        Self { directory, mounter }
    }

    /// Another one, mounted by the same.
    pub fn another(&self) -> Self {
        Self::new(self.mounter)
    }

    /// The directory that programs see.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("real")
    }

    /// Mounts the workspace, with so many layers; the last one receives the writes.
    pub fn mount(&self, layers: usize) -> Mounted {
        let made: Vec<(OwnedFd, OwnedFd)> = (1..=layers)
            .rev()
            .map(|number| {
                let directory = |kind: &str| self.directory.path().join(format!("{kind}-{number}"));
                for kind in ["upper", "work"] {
                    fs::create_dir_all(directory(kind)).unwrap();
                }
                (open(&directory("upper")), open(&directory("work")))
            })
            .collect();
        let parent = open(self.directory.path());
        let base = open(&self.path());
        let sealed = made[1..].iter().map(|(upper, _)| upper.as_fd()).collect();
        let (upper, work) = &made[0];
        let stack = OverlayLayers { base: base.as_fd(), sealed, upper: upper.as_fd(), work: work.as_fd() };
        let merged = overlay::attach(&parent, b"real", &stack, self.mounter).unwrap().keep();
        let layers = made.into_iter().map(|(upper, _)| Tree::new(upper)).collect();
        Mounted { merged, base, layers, mounter: self.mounter }
    }

    /// Mounts the layers of a store over the directory.
    pub fn mount_stack(&self, place: &OwnedFd, stack: &[u64], base: &OwnedFd) -> OwnedFd {
        let parent = open(self.directory.path());
        let of = |number: u64, kind: &str| {
            open_directory(place, format!("layer-{number}").as_bytes())
                .and_then(|layer| open_directory(layer, kind.as_bytes()))
                .unwrap()
        };
        let (live, sealed) = stack.split_last().unwrap();
        let live_directory = open_directory(place, format!("layer-{live}").as_bytes()).unwrap();
        let _ = rustix::fs::mkdirat(&live_directory, "work", rustix::fs::Mode::RWXU);
        let sealed: Vec<_> = sealed.iter().rev().map(|number| of(*number, "upper")).collect();
        let (upper, work) = (of(*live, "upper"), of(*live, "work"));
        nacre_containment::file_tree::empty(&work).unwrap();
        let sealed = sealed.iter().map(AsFd::as_fd).collect();
        let layers = OverlayLayers { base: base.as_fd(), sealed, upper: upper.as_fd(), work: work.as_fd() };
        overlay::attach(&parent, b"real", &layers, self.mounter).unwrap().keep()
    }

    pub fn unmount(&self) {
        rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        while rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH).is_ok() {}
    }
}

impl Mounted {
    /// Passes what a comparison looks at.
    pub fn compare<T>(&self, compare: impl FnOnce(&Sides<'_>) -> T) -> T {
        let (merged, base) = (Tree::new(self.merged.try_clone().unwrap()), Tree::new(self.base.try_clone().unwrap()));
        compare(&Sides {
            merged: &merged,
            base: &base,
            layers: &self.layers,
            marks: self.mounter.marks(),
            opened: (i64::MAX, 0),
            known: &Known::default(),
            interrupt: &|| Ok(()),
        })
    }

    pub fn changes_of(&self, selection: &Selection) -> Vec<WorkspaceChange> {
        self.compare(|sides| sides.changes(selection).unwrap())
    }

    /// The changes, one word and a path each.
    pub fn changes(&self) -> Vec<String> {
        let text = |change: &WorkspaceChange| {
            let path = String::from_utf8_lossy(&change.path).into_owned();
            format!("{:?} {path}", change.difference).to_lowercase()
        };
        self.changes_of(&Selection::all()).iter().map(text).collect()
    }
}

pub fn write(path: impl AsRef<Path>, content: &str) {
    fs::write(path, content).unwrap();
}

/// What tests compare of an entry: mode, owner, content or target, extended attributes, and the time of what is no
/// directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub mode: u32,
    pub owner: (u32, u32),
    pub content: Vec<u8>,
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    pub modified: Option<(i64, i64)>,
}

/// Everything below a directory, by path.
pub type Snapshot = BTreeMap<Vec<u8>, Seen>;

/// Everything below a directory.
pub fn snapshot(root: &OwnedFd) -> Snapshot {
    let tree = Tree::new(root.try_clone().unwrap());
    let mut found = Snapshot::new();
    let mut pending = vec![Vec::new()];
    while let Some(path) = pending.pop() {
        let directory = tree.directory(&path).unwrap().unwrap();
        for name in names(&directory).unwrap() {
            let status = status(Some(&directory), &name).unwrap().unwrap();
            let path = join(&path, &name);
            let kind = file_type(&status);
            let content = match kind {
                FileType::RegularFile => {
                    let mut content = Vec::new();
                    fs::File::from(open_file(&directory, &name).unwrap()).read_to_end(&mut content).unwrap();
                    content
                }
                FileType::Symlink => rustix::fs::readlinkat(&directory, &name[..], Vec::new()).unwrap().into_bytes(),
                _ => Vec::new(),
            };
            let is_link = kind == FileType::Symlink;
            let modified = (kind != FileType::Directory).then_some((status.st_mtime, status.st_mtime_nsec as i64));
            let seen = Seen {
                mode: status.st_mode,
                owner: (status.st_uid, status.st_gid),
                content,
                attributes: if is_link { BTreeMap::new() } else { attributes(&directory, &name).unwrap() },
                modified,
            };
            if kind == FileType::Directory {
                pending.push(path.clone());
            }
            found.insert(path, seen);
        }
    }
    found
}

/// The paths that differ between two directories.
pub fn differing(a: &Snapshot, b: &Snapshot) -> Vec<String> {
    let paths: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    let differing = paths.into_iter().filter(|path| a.get(*path) != b.get(*path));
    differing.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

/// The seeds of a random test: `NACRE_TEST_SEEDS` of them, or the default, from `NACRE_TEST_SEED` on.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name, default| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let first = number("NACRE_TEST_SEED", 1);
    first..first + number("NACRE_TEST_SEEDS", default)
}

/// The same without times: those of what is committed or discarded are new.
pub fn without_times(snapshot: &Snapshot) -> Snapshot {
    snapshot.iter().map(|(path, seen)| (path.clone(), Seen { modified: None, ..seen.clone() })).collect()
}

/// A small generator of random numbers (xorshift).
pub struct Random(pub u64);

impl Random {
    /// A number below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}
