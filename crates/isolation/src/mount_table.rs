//! The mounts of a namespace, and the other names that they give a path.
//!
//! A file can be reached through several mounts: a bind mount shows a part of a file system again, and a device can be mounted
//! twice. What a rule closes at one name must be closed at the others. Only the table is read here, no path is looked up: one
//! that does not respond would block this thread.

use nacre_containment::mount_table::{self, Mounted};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MountTable(Vec<Mounted>);

impl MountTable {
    /// Reads the table of this process's namespace.
    ///
    /// # Errors
    /// As for [`mount_table::read`].
    pub fn of_this_process() -> io::Result<Self> {
        mount_table::of_this_process().map(Self)
    }

    /// Paths, and all their other names. `paths` have no links.
    pub fn with_aliases(&self, paths: &[PathBuf]) -> Vec<PathBuf> {
        let lookup = Lookup::of(&self.0);
        let mut all = paths.to_vec();
        let mut seen: BTreeSet<PathBuf> = paths.iter().cloned().collect();
        for path in paths {
            all.extend(lookup.aliases(path).into_iter().filter(|alias| seen.insert(alias.clone())));
        }
        all
    }

    /// The other names of a path, and of what is mounted below it. The path has no links.
    pub fn aliases(&self, path: &Path) -> Vec<PathBuf> {
        self.with_aliases(&[path.to_path_buf()]).split_off(1)
    }
}

/// Finds the mount that a path leads to, as the kernel does.
struct Lookup<'a> {
    all: &'a [Mounted],
    root: Option<&'a Mounted>,
    /// The number of the root's mount, also if the table lacks it: the root of this process may be a directory in it.
    top: Option<u64>,
    /// By the mount that they are in, and their place.
    inner: HashMap<(u64, &'a Path), &'a Mounted>,
}

impl<'a> Lookup<'a> {
    fn of(all: &'a [Mounted]) -> Self {
        let ids: BTreeSet<u64> = all.iter().map(|mount| mount.id).collect();
        let is_outer = |mount: &&Mounted| !ids.contains(&mount.parent);
        let root = all.iter().find(|mount| is_outer(mount) && mount.place == Path::new("/"));
        let top = root.map(|root| root.id).or(all.iter().find(is_outer).map(|mount| mount.parent));
        let inner = all.iter().map(|mount| ((mount.parent, mount.place.as_path()), mount)).collect();
        Self { all, root, top, inner }
    }

    /// The mount that a path leads to.
    fn mount(&self, path: &Path) -> Option<&'a Mounted> {
        let (mut found, mut id) = (self.root, self.top?);
        let mut prefix = PathBuf::new();
        for name in path.components() {
            prefix.push(name);
            // Each mount can be covered by another one, which is in it. The table is no tree if it was read during a change.
            for _ in 0..self.all.len() {
                match self.inner.get(&(id, prefix.as_path())).copied() {
                    Some(inner) if inner.id != id => (found, id) = (Some(inner), inner.id),
                    _ => break,
                }
            }
        }
        found
    }

    fn is_visible(&self, mount: &Mounted) -> bool {
        self.mount(&mount.place).is_some_and(|found| found.id == mount.id)
    }

    fn aliases(&self, path: &Path) -> BTreeSet<PathBuf> {
        let Some(own) = self.mount(path) else { return BTreeSet::new() };
        let Ok(part) = path.strip_prefix(&own.place) else { return BTreeSet::new() };
        let inner = self.all.iter().filter(|mount| mount.place.starts_with(path) && mount.place != path);
        let inner = inner.filter(|mount| self.is_visible(mount)).map(|mount| (mount.device, mount.root.clone()));
        let shown: BTreeSet<_> = [(own.device, joined(&own.root, part))].into_iter().chain(inner).collect();
        let mut found = BTreeSet::new();
        for mount in self.all {
            for (_, place) in shown.iter().filter(|(device, _)| *device == mount.device) {
                let alias = match (place.strip_prefix(&mount.root), mount.root.strip_prefix(place)) {
                    (Ok(rest), _) => joined(&mount.place, rest),
                    // It shows a part of what is closed.
                    (_, Ok(_)) => mount.place.clone(),
                    _ => continue,
                };
                if !alias.starts_with(path) && self.mount(&alias).is_some_and(|found| found.id == mount.id) {
                    found.insert(alias);
                }
            }
        }
        found
    }
}

/// The path of a part. An empty part would add a slash.
fn joined(path: &Path, part: &Path) -> PathBuf {
    if part.as_os_str().is_empty() { path.to_path_buf() } else { path.join(part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with lines `id parent device root place`.
    fn table(lines: &[&str]) -> MountTable {
        let line = |line: &&str| mount_table::parse(format!("{line} rw,relatime - ext4 /dev/x rw").as_bytes()).unwrap();
        MountTable(lines.iter().map(line).collect())
    }

    fn aliases(lines: &[&str], path: &str) -> Vec<String> {
        let found = table(lines).aliases(Path::new(path));
        found.iter().map(|path| path.display().to_string()).collect()
    }

    const ROOT: &str = "1 0 8:1 / /";

    #[test]
    fn a_bind_mount_of_a_path_of_one_above_or_of_a_part_shows_it_again() {
        let lines = [
            ROOT,
            "2 1 8:1 /home/me /mnt/home",
            "3 1 8:1 /home/me/.ssh /mnt/a\\040b",
            "4 1 8:1 /home/me/.ssh/keys/one /srv/key",
            "5 1 8:1 /home/me/.sshx /srv/other",
            "6 1 8:2 / /data",
            "7 1 8:1 / /mnt/all",
        ];
        let expected = ["/mnt/a b", "/mnt/all/home/me/.ssh", "/mnt/home/.ssh", "/srv/key"];
        assert_eq!(aliases(&lines, "/home/me/.ssh"), expected);
        let expected = ["/home/me/.ssh/keys", "/mnt/all/home/me/.ssh/keys", "/mnt/home/.ssh/keys", "/srv/key"];
        assert_eq!(aliases(&lines, "/mnt/a b/keys"), expected);
        assert_eq!(aliases(&lines, "/data/secret"), [""; 0]);
        assert_eq!(aliases(&[], "/data"), [""; 0]);
    }

    #[test]
    fn a_device_that_is_mounted_twice_and_what_is_mounted_below_a_path_show_it_again() {
        let lines = [ROOT, "2 1 8:2 / /data", "3 1 8:2 / /backup", "4 1 8:3 /@home /vault/inner", "5 1 8:3 / /volume"];
        assert_eq!(aliases(&lines, "/data/secret"), ["/backup/secret"]);
        assert_eq!(aliases(&lines, "/data"), ["/backup"]);
        assert_eq!(aliases(&lines, "/vault"), ["/volume/@home"]);
        assert_eq!(aliases(&lines, "/volume/@home/x"), ["/vault/inner/x"]);
    }

    #[test]
    fn what_another_mount_covers_is_no_name() {
        let lines = [
            ROOT,
            "2 1 8:1 /home /mnt/home",
            "3 2 8:9 / /mnt/home/me",
            "4 1 8:1 /home /mnt/covered",
            "5 4 8:8 / /mnt/covered",
            "6 1 8:7 / /top",
            "7 6 8:1 /home /top/home",
            "8 6 8:6 / /top",
        ];
        assert_eq!(aliases(&lines, "/home/me/x"), [""; 0]);
        assert_eq!(aliases(&lines, "/home/you"), ["/mnt/home/you"]);
        // A path leads into the mount that covers the others.
        assert_eq!(aliases(&lines, "/mnt/covered/x"), [""; 0]);
        let stacked = [ROOT, "2 1 8:2 / /a", "3 2 8:3 / /a", "4 1 8:3 /x /b"];
        assert_eq!(aliases(&stacked, "/a/x"), ["/b"]);
    }

    #[test]
    fn the_mount_of_the_root_may_be_missing() {
        let lines = ["2 9 8:2 / /data", "3 9 8:2 /in /backup"];
        assert_eq!(aliases(&lines, "/data/in/x"), ["/backup/x"]);
        assert_eq!(aliases(&lines, "/etc"), [""; 0]);
    }

    #[test]
    fn a_table_without_a_tree_ends() {
        let lines = [ROOT, "2 3 8:2 / /", "3 2 8:2 / /", "1 1 8:1 / /"];
        assert_eq!(aliases(&lines, "/a"), [""; 0]);
    }
}
