//! Workspaces for tests: real overlays, in namespaces of their own.

use crate::Tree;
use crate::changes::Sides;
use crate::overlay::{self, Layers, Mounter};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Says to a test that it runs alone, in namespaces of its own, and who mounts.
const MOUNTER: &str = "NACRE_TEST_MOUNTER";

/// Runs a test in a mount namespace of its own: as root of the machine if it is, and in a user namespace. Its name has
/// the modules, without the crate.
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
        let mut alone = Command::new("unshare");
        alone.args(*flags).arg(own).args(["--exact", name]).env(MOUNTER, mounter);
        let output = alone.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "as {mounter}: {text}");
    }
}

/// A workspace over a new directory, and a layer for its writes.
pub struct Workspace {
    /// Has the workspace and its layers, and room for more.
    pub directory: TempDir,
    mounter: Mounter,
}

fn open(path: &Path) -> OwnedFd {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap()
}

/// A mounted workspace, with its changes so far in sealed layers.
pub struct Mounted {
    merged: OwnedFd,
    base: OwnedFd,
    layers: Vec<Tree>,
    mounter: Mounter,
}

impl Workspace {
    fn new(mounter: Mounter) -> Self {
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
        let stack = Layers { base: base.as_fd(), sealed, upper: upper.as_fd(), work: work.as_fd() };
        let merged = overlay::attach(&parent, b"real", &stack, self.mounter).unwrap();
        let layers = made.into_iter().map(|(upper, _)| Tree::new(upper)).collect();
        Mounted { merged, base, layers, mounter: self.mounter }
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
        })
    }
}
