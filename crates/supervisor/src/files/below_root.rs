//! Resolves paths below a root that they must not leave, whatever the session's programs do meanwhile.
//!
//! The kernel never follows a link here. Each component is opened from its parent directory, and each link is read
//! and followed as text. So a directory that becomes a link between two steps is an error, never a way out. A link
//! may lead out of the root and back in, like an absolute link to a file of the root: outside the root, its text is
//! followed without accessing the disk.

use super::failure::failure;
use super::place::{MAX_LINKS, Place, open_directory};
use nacre_protocol::files::{Failure, Reason};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

type Name = Vec<u8>;

/// How to treat a symlink at the end of the path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Last {
    /// Follow it. Its target need not exist.
    Followed,
    /// Use the link itself.
    Kept,
}

/// Opens the parent directory of the path's target; creates missing parents if requested.
pub fn below(root: &[u8], path: &[u8], last: Last, makes_parents: bool) -> Result<Place, Failure> {
    let opened = open_directory(CWD, root).and_then(|root_directory| {
        let current = openat(&root_directory, ".", DIRECTORY, Mode::empty())?;
        let names = [Some(names(root)), shown_path(&root_directory)].into_iter().flatten().collect();
        Ok(Walk { root: names, root_directory, inside: Vec::new(), current, outside: None })
    });
    let mut walk = opened.map_err(|errno| failure(Reason::Cwd(errno.raw_os_error()), root))?;
    walk.along(path, last, makes_parents).map_err(|stop| match stop {
        Left::Outside => failure(Reason::Outside, path),
        Left::System(errno) => failure(Reason::System(errno.raw_os_error()), path),
    })
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Why a walk ended early.
enum Left {
    Outside,
    System(Errno),
}

impl From<Errno> for Left {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// A walk along a path.
struct Walk {
    /// The root's path, as given and as the kernel reports it.
    root: Vec<Vec<Name>>,
    root_directory: OwnedFd,
    /// The names from the root to `current`, none of them a link.
    inside: Vec<Name>,
    current: OwnedFd,
    /// The position of the walk while it is outside the root.
    outside: Option<Vec<Name>>,
}

impl Walk {
    fn along(&mut self, path: &[u8], last: Last, makes_parents: bool) -> Result<Place, Left> {
        let mut left: Vec<Name> = names(path);
        left.reverse();
        let mut links = 0;
        while let Some(name) = left.pop() {
            if self.outside.is_some() {
                self.step_outside(name);
            } else if name == b".." {
                self.up()?;
            } else if left.is_empty() && last == Last::Kept {
                return self.end(name);
            } else {
                match readlinkat(&self.current, &name[..], Vec::new()) {
                    Ok(target) => {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(Errno::LOOP.into());
                        }
                        if target.as_bytes().starts_with(b"/") {
                            self.leave(Vec::new());
                        }
                        left.extend(names(target.as_bytes()).into_iter().rev());
                    }
                    // It is not a link, or does not exist.
                    Err(Errno::INVAL | Errno::NOENT) if left.is_empty() => return self.end(name),
                    Err(Errno::INVAL) => self.enter(name)?,
                    Err(Errno::NOENT) if makes_parents => {
                        match mkdirat(&self.current, &name[..], Mode::from_raw_mode(0o777)) {
                            Ok(()) | Err(Errno::EXIST) => self.enter(name)?,
                            Err(errno) => return Err(errno.into()),
                        }
                    }
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        self.end(b".".to_vec())
    }

    fn end(&self, name: Name) -> Result<Place, Left> {
        if self.outside.is_some() {
            return Err(Left::Outside);
        }
        let parent = openat(&self.current, ".", DIRECTORY, Mode::empty())?;
        Ok(Place { parent, is_directory: name == b".", name })
    }

    fn enter(&mut self, name: Name) -> Result<(), Errno> {
        self.current = openat(&self.current, &name[..], DIRECTORY, Mode::empty())?;
        self.inside.push(name);
        Ok(())
    }

    /// Follows `..` by the names: the kernel's `..` would lead out if a directory was moved meanwhile.
    fn up(&mut self) -> Result<(), Errno> {
        if self.inside.pop().is_none() {
            let mut above = self.root.last().cloned().unwrap_or_default();
            above.pop();
            self.leave(above);
            return Ok(());
        }
        self.current = openat(&self.root_directory, ".", DIRECTORY, Mode::empty())?;
        for name in std::mem::take(&mut self.inside) {
            self.enter(name)?;
        }
        Ok(())
    }

    fn leave(&mut self, to: Vec<Name>) {
        self.outside = Some(to);
        self.come_back();
    }

    fn step_outside(&mut self, name: Name) {
        let Some(outside) = &mut self.outside else { return };
        if name == b".." {
            outside.pop();
        } else {
            outside.push(name);
        }
        self.come_back();
    }

    /// Continues the walk at the root once it has arrived there.
    fn come_back(&mut self) {
        let is_root = self.outside.as_ref().is_some_and(|outside| self.root.contains(outside));
        if is_root && let Ok(current) = openat(&self.root_directory, ".", DIRECTORY, Mode::empty()) {
            (self.outside, self.current) = (None, current);
            self.inside.clear();
        }
    }
}

/// The components of a path.
fn names(path: &[u8]) -> Vec<Name> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.map(<[u8]>::to_vec).collect()
}

/// The path of an open directory, if /proc shows it.
fn shown_path(directory: &OwnedFd) -> Option<Vec<Name>> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    readlinkat(CWD, &link[..], Vec::new()).ok().map(|path| names(path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, statat};
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    struct Tree {
        directory: tempfile::TempDir,
    }

    impl Tree {
        /// Creates `root/d/f`, and `secret` next to the root.
        fn new() -> Self {
            let tree = Self { directory: tempfile::tempdir().unwrap() };
            fs::create_dir_all(tree.path("root/d")).unwrap();
            fs::write(tree.path("root/d/f"), "inside").unwrap();
            fs::write(tree.path("secret"), "outside").unwrap();
            tree
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.directory.path().join(name)
        }

        fn link(&self, target: impl AsRef<Path>, name: &str) {
            symlink(target, self.path("root").join(name)).unwrap();
        }

        fn walk(&self, path: &str, last: Last, makes_parents: bool) -> Result<Place, Reason> {
            let root = self.path("root");
            let walked = below(root.as_os_str().as_encoded_bytes(), path.as_bytes(), last, makes_parents);
            walked.map_err(|failure| failure.reason)
        }

        /// True if the path leads to `root/d/f`.
        fn finds_file(&self, path: &str) -> bool {
            let place = self.walk(path, Last::Followed, false).unwrap();
            let found = statat(&place.parent, &place.name[..], AtFlags::SYMLINK_NOFOLLOW).unwrap();
            let file = statat(CWD, self.path("root/d/f"), AtFlags::empty()).unwrap();
            found.st_ino == file.st_ino
        }

        fn reason(&self, path: &str) -> Reason {
            self.walk(path, Last::Followed, true).err().expect("a refusal")
        }
    }

    #[test]
    fn links_that_stay_inside_are_followed() {
        let tree = Tree::new();
        tree.link("d", "relative");
        tree.link(tree.path("root/d"), "absolute");
        tree.link("../../root/d/f", "d/round");
        tree.link("relative/../d/./f", "chain");
        for path in ["d/f", "./d//f", "relative/f", "absolute/f", "d/round", "chain", "d/../d/f"] {
            assert!(tree.finds_file(path), "{path}");
        }
    }

    #[test]
    fn nothing_leads_outside() {
        let tree = Tree::new();
        tree.link("../secret", "relative");
        tree.link(tree.path("secret"), "absolute");
        tree.link("..", "up");
        tree.link("up", "d/back");
        tree.link("/", "top");
        for path in
            ["..", "../secret", "d/../../secret", "relative", "absolute", "up/secret", "top/etc/passwd", "up/new/x"]
        {
            assert_eq!(tree.reason(path), Reason::Outside, "{path}");
        }
        assert!(!tree.path("new").exists());
        assert_eq!(tree.reason("d/f/x"), Reason::System(libc::ENOTDIR));
    }

    #[test]
    fn a_link_to_itself_ends_the_walk() {
        let tree = Tree::new();
        tree.link("loop", "loop");
        assert_eq!(tree.reason("loop/x"), Reason::System(libc::ELOOP));
    }

    #[test]
    fn a_last_link_can_be_kept_and_parents_are_made() {
        let tree = Tree::new();
        tree.link("/etc/passwd", "link");
        assert_eq!(tree.walk("link", Last::Kept, false).unwrap().name, b"link");
        tree.walk("new/deep/file", Last::Followed, true).unwrap();
        assert!(tree.path("root/new/deep").is_dir());
        tree.link("later/on", "dangling");
        assert_eq!(tree.walk("dangling", Last::Followed, true).unwrap().name, b"on");
        assert!(tree.path("root/later").is_dir());
    }

    #[test]
    fn a_directory_that_turns_into_a_link_and_back_never_leads_out() {
        let tree = Tree::new();
        fs::create_dir(tree.path("outside")).unwrap();
        fs::write(tree.path("outside/f"), "outside").unwrap();
        let secret = statat(CWD, tree.path("outside/f"), AtFlags::empty()).unwrap().st_ino;
        tree.link(tree.path("outside"), "away");
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use rustix::fs::{RenameFlags, renameat_with};
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let (one, other) = (tree.path("root/d"), tree.path("root/away"));
                    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
                }
            });
            for _ in 0..20_000 {
                if let Ok(place) = tree.walk("d/f", Last::Followed, false)
                    && let Ok(found) = statat(&place.parent, &place.name[..], AtFlags::SYMLINK_NOFOLLOW)
                {
                    assert_ne!(found.st_ino, secret);
                }
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
