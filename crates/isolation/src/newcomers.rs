//! What appears in a project while a session lives, and is not protected: repositories, and files of the list that no placeholder
//! keeps from being made.
//!
//! No mount can cover what is not there yet. So the host looks from time to time, and reports what is new.

use crate::project::{self, is_placeholder};
use nacre_containment::lock::Lock;
use nacre_protocol::confinement::ProjectFiles;
use nacre_protocol::host_programs::{HostProgram, IN_PROJECT, WhileMissing};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum paths that are reported at once.
pub const MAX_REPORTED: usize = 100;

/// What a session knows of its projects.
pub struct Newcomers {
    roots: Vec<PathBuf>,
    known: Lock<BTreeSet<PathBuf>>,
}

impl Newcomers {
    /// For the projects of a session; `None` if there are none.
    pub fn of(project: &ProjectFiles) -> Option<Self> {
        let known = Lock::new(project.known.iter().cloned().collect());
        (!project.roots.is_empty()).then(|| Self { roots: project.roots.clone(), known })
    }

    /// What has appeared since the last look, at most [`MAX_REPORTED`] paths; the next look returns the rest. Blocks as long as the
    /// directories do not respond.
    pub fn appeared(&self) -> Vec<PathBuf> {
        let found = look(&self.roots);
        let mut known = self.known.lock();
        let new: Vec<PathBuf> = found.difference(&known).take(MAX_REPORTED).cloned().collect();
        known.retain(|path| found.contains(path));
        known.extend(new.iter().cloned());
        new
    }
}

/// The repositories and the files that count in these projects.
pub fn look(roots: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for root in roots {
        let exists = |HostProgram { name, missing, .. }: &HostProgram| {
            let is_file = matches!(missing, WhileMissing::File(_));
            let entry = root.join(name).symlink_metadata();
            entry.is_ok_and(|entry| !is_placeholder(&entry, is_file)).then(|| root.join(name))
        };
        found.extend(IN_PROJECT.iter().filter_map(exists));
        for directory in project::directories(root) {
            let git = directory.join(".git");
            if git.symlink_metadata().is_ok() {
                found.extend(modules(&git));
                found.insert(git);
            } else if project::is_repository(&directory) {
                found.insert(directory);
            }
        }
    }
    found
}

fn modules(git: &Path) -> impl Iterator<Item = PathBuf> {
    project::entries(&git.join("modules")).into_iter().filter(|path| project::is_repository(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_repository_and_a_file_count_once_when_they_appear() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let make = |name: &str| fs::create_dir_all(root.join(name)).unwrap();
        make(".git/hooks");
        make("old/.git");
        make(".vscode");
        let roots = vec![root.clone()];
        let known = look(&roots).into_iter().collect();
        let newcomers = Newcomers::of(&ProjectFiles { roots, known, ..Default::default() }).unwrap();
        let appeared = || -> Vec<String> {
            let paths = newcomers.appeared();
            paths.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect()
        };
        assert!(appeared().is_empty());
        make("new/er/.git");
        make("new/too/deep/.git");
        make("node_modules/x/.git");
        for name in [".git/modules/sub", "bare.git"] {
            make(&format!("{name}/objects"));
            fs::write(root.join(name).join("HEAD"), "").unwrap();
        }
        fs::write(root.join("lefthook.yml"), "").unwrap();
        fs::write(root.join("old/file"), "").unwrap();
        make(".husky");
        let placed = std::time::UNIX_EPOCH + std::time::Duration::from_secs(project::PLACED_AT as u64);
        fs::File::open(root.join(".husky")).unwrap().set_modified(placed).unwrap();
        assert_eq!(appeared(), [".git/modules/sub", "bare.git", "lefthook.yml", "new/er/.git"]);
        assert!(appeared().is_empty(), "each counts once");
        fs::remove_file(root.join("lefthook.yml")).unwrap();
        assert!(appeared().is_empty());
        fs::write(root.join("lefthook.yml"), "").unwrap();
        assert_eq!(appeared(), ["lefthook.yml"], "it has come back");
    }

    #[test]
    fn what_is_too_much_for_one_report_follows_in_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let newcomers = Newcomers::of(&ProjectFiles { roots: vec![root.clone()], ..Default::default() }).unwrap();
        let made: BTreeSet<PathBuf> = (0..MAX_REPORTED + 5).map(|number| root.join(format!("{number}/.git"))).collect();
        made.iter().for_each(|path| fs::create_dir_all(path).unwrap());
        let reported = [newcomers.appeared(), newcomers.appeared()];
        assert_eq!(reported.each_ref().map(Vec::len), [MAX_REPORTED, 5]);
        assert_eq!(reported.concat().into_iter().collect::<BTreeSet<_>>(), made);
        assert!(newcomers.appeared().is_empty());
    }
}
