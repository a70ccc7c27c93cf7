//! What is guarded in the projects of a session, and what git needs there.
//!
//! A directory `.git` belongs to whoever made it, and a file `.git` names any directory. So only those of this user, of root and
//! of the owner of the directory count, and a directory elsewhere only if it names the work tree in return.

use crate::paths::open_regular;
use nacre_protocol::confinement::{Placeholder, ProjectFiles};
use nacre_protocol::host_programs::{HostProgram, IN_GIT, IN_PROJECT, WhileMissing};
use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum bytes that are read of a file of git.
const MAX_BYTES: u64 = 64 * 1024;
/// Maximum directories in which repositories are searched for below a project.
const MAX_DIRECTORIES: usize = 256;
/// How deep they are.
const MAX_DEPTH: usize = 2;
/// Maximum directories of git in all projects of a session. Each takes some mounts.
const MAX_REPOSITORIES: usize = 200;
/// Directories without repositories of the project.
const SKIPPED: [&str; 3] = ["node_modules", "target", ".git"];
/// The modification time of a placeholder, in seconds: what a killed session has left behind is used and removed by the next one.
pub const PLACED_AT: i64 = 1;

/// The directories of git that the work tree of a workspace needs, and that lie outside of it: it has no layer for them.
pub fn outside(cwd: &Path, workspace: &Path) -> Vec<PathBuf> {
    let mut search = Search { owner: owner(cwd), found: ProjectFiles::default(), seen: BTreeSet::new(), left: 1 };
    let needed = search.top(cwd).and_then(|top| search.git(&top)).map(|git| git.needed).unwrap_or_default();
    needed.into_iter().filter(|path| !path.starts_with(workspace) && !workspace.starts_with(path)).collect()
}

/// What is guarded in the work tree around `cwd` and in other writable trees. `opens`: git may write to the repository. `layered`
/// is a copy-on-write workspace: nothing is guarded in it, since programs change only a layer.
pub fn find(cwd: &Path, write: &[PathBuf], opens: bool, layered: Option<&Path>) -> ProjectFiles {
    let mut search =
        Search { owner: owner(cwd), found: ProjectFiles::default(), seen: BTreeSet::new(), left: MAX_REPOSITORIES };
    let top = search.top(cwd);
    let is_writable = |path: &Path| write.iter().any(|root| path.starts_with(root));
    let roots: BTreeSet<&Path> =
        top.as_deref().into_iter().chain([cwd]).chain(write.iter().map(PathBuf::as_path)).collect();
    for root in roots {
        let git = search.git(root);
        if opens
            && is_writable(cwd)
            && Some(root) == top.as_deref()
            && let Some(git) = &git
        {
            search.found.shown.push(root.to_path_buf());
            search.found.write.extend(git.needed.iter().filter(|path| !is_writable(path)).cloned());
        }
        if is_writable(root) && !is_wide(root) {
            search.found.roots.push(root.to_path_buf());
            search.guard(root, &IN_PROJECT, git.is_some());
            search.nested(root);
        }
    }
    let ProjectFiles { mut protect, mut placeholders, mut copies, mut write, mut shown, mut roots, .. } = search.found;
    let is_layered = |path: &Path| layered.is_some_and(|workspace| path.starts_with(workspace));
    if layered.is_some() {
        // Its layers do not have what is outside: a discard would not take it back.
        write.clear();
        shown.retain(|path| !is_layered(path));
    }
    protect.retain(|path| !is_layered(path));
    placeholders.retain(|placeholder| !is_layered(&placeholder.path));
    copies.retain(|path| !is_layered(path));
    roots.retain(|path| !is_layered(path));
    ProjectFiles { protect, placeholders, copies, write, shown, roots, known: Vec::new() }
}

/// The directories of git of a work tree.
struct Git {
    /// In which git writes.
    needed: Vec<PathBuf>,
}

struct Search {
    owner: u32,
    found: ProjectFiles,
    seen: BTreeSet<PathBuf>,
    /// How many more directories of git are guarded.
    left: usize,
}

impl Search {
    /// The top of the work tree that a directory is in.
    fn top(&self, cwd: &Path) -> Option<PathBuf> {
        let mut above = cwd.ancestors().take_while(|path| !is_wide(path));
        above.find(|path| self.is_trusted(&path.join(".git"))).map(Path::to_path_buf)
    }

    fn is_trusted(&self, path: &Path) -> bool {
        let own = nix::unistd::geteuid().as_raw();
        path.symlink_metadata().is_ok_and(|found| !found.is_symlink() && [0, own, self.owner].contains(&found.uid()))
    }

    /// Guards the repository of a work tree.
    fn git(&mut self, top: &Path) -> Option<Git> {
        let entry = top.join(".git");
        if !self.is_trusted(&entry) {
            return None;
        }
        if entry.is_dir() {
            self.repository(&entry, top);
            return Some(Git { needed: vec![entry] });
        }
        self.found.protect.push(entry.clone());
        let named = read(&entry)?;
        let own = top.join(named.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        if !self.is_trusted(&own) {
            return None;
        }
        let common = read(&own.join("commondir")).and_then(|named| own.join(named.trim()).canonicalize().ok());
        let Some(common) = common else { return self.submodule(top, own) };
        let back = read(&own.join("gitdir")).and_then(|named| own.join(named.trim()).canonicalize().ok());
        if back.as_ref() != Some(&entry) || own.parent() != Some(&common.join("worktrees")) || !self.is_trusted(&common)
        {
            return None;
        }
        self.repository(&common, top);
        Some(Git { needed: vec![common] })
    }

    /// A submodule names its work tree in its config.
    fn submodule(&mut self, top: &Path, own: PathBuf) -> Option<Git> {
        let config = read(&own.join("config"))?;
        let named =
            config.lines().find_map(|line| line.trim().strip_prefix("worktree")?.trim_start().strip_prefix('='))?;
        let is_mutual = own.join(named.trim()).canonicalize().ok().as_deref() == Some(top);
        if !is_mutual {
            return None;
        }
        self.repository(&own, top);
        Some(Git { needed: vec![own] })
    }

    /// Guards a directory of git, and those of its submodules and linked worktrees.
    fn repository(&mut self, directory: &Path, top: &Path) {
        let mut pending = VecDeque::from([directory.to_path_buf()]);
        while let Some(next) = pending.pop_front() {
            if !self.seen.insert(next.clone()) {
                continue;
            }
            let Some(left) = self.left.checked_sub(1) else { break };
            self.left = left;
            if is_repository(&next) {
                self.guard(&next, &IN_GIT, true);
                self.named(&next, top);
            }
            let is_module = |path: &PathBuf| path.is_dir() && !path.is_symlink();
            // The name of a submodule may have slashes.
            let modules = if is_repository(&next) { next.join("modules") } else { next.clone() };
            pending.extend(entries(&modules).into_iter().filter(is_module));
            for tree in entries(&next.join("worktrees")).into_iter().filter(is_module) {
                if let Some(left) = self.left.checked_sub(1) {
                    self.left = left;
                    self.guard(&tree, &IN_GIT[2..5], true);
                }
            }
        }
    }

    /// Guards what a config names as the directory of hooks, or includes.
    fn named(&mut self, directory: &Path, top: &Path) {
        let config = read(&directory.join("config")).unwrap_or_default();
        for (key, value) in config.lines().filter_map(|line| line.split_once('=')) {
            let from = match key.trim().to_ascii_lowercase().as_str() {
                "hookspath" => top,
                "path" => directory,
                _ => continue,
            };
            let named = from.join(value.trim().trim_matches('"')).canonicalize();
            // The whole work tree is no directory of hooks alone.
            self.found.protect.extend(named.ok().filter(|path| !top.starts_with(path)));
        }
    }

    /// Guards the repositories below a project.
    fn nested(&mut self, root: &Path) {
        for directory in directories(root).into_iter().skip(1) {
            if self.left > 0 && directory.join(".git").symlink_metadata().is_ok() {
                let is_repository = self.git(&directory).is_some();
                self.guard(&directory, &IN_PROJECT, is_repository);
            }
        }
    }

    /// Guards what is listed. A link is followed: no mount covers it.
    fn guard(&mut self, directory: &Path, list: &[HostProgram], has_placeholders: bool) {
        for HostProgram { name, missing, .. } in list {
            let path = directory.join(name);
            let found = path.symlink_metadata().ok();
            let text = match missing {
                WhileMissing::File(text) => Some((*text).to_string()),
                _ => None,
            };
            let is_placed = found.as_ref().is_none_or(|found| is_placeholder(found, text.is_some()));
            let is_possible = *missing != WhileMissing::Unprotected && has_placeholders;
            if is_possible && path.parent().is_some_and(Path::is_dir) {
                // Also in the place of what will be missing later.
                self.found.placeholders.push(Placeholder { path: path.clone(), text });
                if is_placed {
                    self.found.protect.push(path.clone());
                }
            }
            if is_placed {
                continue;
            }
            let Ok(path) = path.canonicalize() else { continue };
            if *name == "config" {
                self.found.copies.push(path.clone());
            }
            self.found.protect.push(path);
        }
    }
}

/// Whether a directory is too wide for a project: the home directory and those above it.
fn is_wide(path: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    path.parent().is_none() || home.is_some_and(|home| home.starts_with(path))
}

/// Whether an entry is what a session puts in the place of a missing one.
pub fn is_placeholder(found: &Metadata, is_file: bool) -> bool {
    (if is_file { found.is_file() } else { found.is_dir() }) && (found.mtime(), found.mtime_nsec()) == (PLACED_AT, 0)
}

/// Whether a directory is one of git.
pub fn is_repository(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir()
}

fn owner(path: &Path) -> u32 {
    path.metadata().map_or_else(|_| nix::unistd::geteuid().as_raw(), |found| found.uid())
}

/// A project and the directories in it that can have repositories.
pub fn directories(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), VecDeque::from([(root.to_path_buf(), 0)]));
    while let Some((directory, depth)) = pending.pop_front().filter(|_| found.len() < MAX_DIRECTORIES) {
        if depth < MAX_DEPTH {
            let is_inner = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default();
                path.symlink_metadata().is_ok_and(|found| found.is_dir())
                    && SKIPPED.iter().all(|skipped| name != *skipped)
            };
            pending.extend(entries(&directory).into_iter().filter(is_inner).map(|path| (path, depth + 1)));
        }
        found.push(directory);
    }
    found
}

/// The first entries of a directory.
pub fn entries(directory: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_DIRECTORIES);
    listed.map(|entry| entry.path()).collect()
}

/// The beginning of a regular file.
fn read(path: &Path) -> Option<String> {
    let file = open_regular(path).ok()??;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn repository(&self, name: &str) {
            for inner in ["objects", "hooks", "info"] {
                fs::create_dir_all(self.at(name).join(inner)).unwrap();
            }
            self.write(&format!("{name}/HEAD"), "ref: refs/heads/main\n");
            self.write(&format!("{name}/config"), "[core]\n");
        }

        /// What is found in a directory that is writable.
        fn find(&self, cwd: &str) -> ProjectFiles {
            find(&self.at(cwd), &[self.at(cwd)], true, None)
        }

        fn paths(&self, paths: &[PathBuf]) -> Vec<String> {
            let root = self.at("");
            let mut names: Vec<String> =
                paths.iter().map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn git_can_write_where_its_directories_name_the_work_tree_in_return() {
        let place = Place::new();
        place.repository("main/.git");
        place.write("main/sub/file", "");
        let found = place.find("main/sub");
        assert_eq!(
            (place.paths(&found.write), place.paths(&found.shown)),
            (vec!["main/.git".into()], vec!["main".into()])
        );
        let elsewhere = find(&place.at("main/sub"), &[place.at("w")], true, None);
        assert_eq!(elsewhere.write, Vec::<PathBuf>::new(), "programs cannot write to the working directory");
        let linked = "main/.git/worktrees/w";
        place.write("w/.git", &format!("gitdir: {}\n", place.at(linked).display()));
        place.write(&format!("{linked}/commondir"), "../..\n");
        place.write(&format!("{linked}/gitdir"), &format!("{}\n", place.at("other/.git").display()));
        assert_eq!(place.find("w").write, Vec::<PathBuf>::new(), "it names another work tree");
        place.write(&format!("{linked}/gitdir"), &format!("{}\n", place.at("w/.git").display()));
        assert_eq!(place.paths(&place.find("w").write), ["main/.git"]);
        let protected = place.paths(&place.find("w").protect);
        for name in ["main/.git/config", "main/.git/hooks", "main/.git/worktrees/w/commondir", "w/.git", "w/.envrc"] {
            assert!(protected.iter().any(|path| path == name), "{name}: {protected:?}");
        }
        place.write("thief/.git", &format!("gitdir: {}\n", place.at("main/.git").display()));
        assert_eq!(place.find("thief").write, Vec::<PathBuf>::new(), "a repository that does not name it");
        place.repository("main/.git/modules/m");
        place.write("main/m/.git", "gitdir: ../.git/modules/m\n");
        assert_eq!(place.find("main/m").write, Vec::<PathBuf>::new(), "a submodule without a work tree");
        place.write("main/.git/modules/m/config", "[core]\n\tworktree = ../../../m\n");
        assert_eq!(place.paths(&place.find("main/m").write), ["main/.git/modules/m"]);
        symlink(place.at("main/.git"), place.at("thief/link")).unwrap();
        fs::remove_file(place.at("thief/.git")).unwrap();
        fs::rename(place.at("thief/link"), place.at("thief/.git")).unwrap();
        assert_eq!(place.find("thief").write, Vec::<PathBuf>::new(), "a link");
    }

    #[test]
    fn what_a_config_names_and_nested_repositories_are_guarded() {
        let place = Place::new();
        place.repository("main/.git");
        place.repository("main/deep/nested/.git");
        place.repository("main/.git/modules/a/b");
        place
            .write("main/.git/config", "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = \"../shared.config\"\n");
        place.write("main/tools/hooks/pre-commit", "");
        place.write("main/shared.config", "");
        place.write("main/elsewhere/settings.json", "");
        symlink("elsewhere", place.at("main/.vscode")).unwrap();
        let found = place.find("main");
        let protected = place.paths(&found.protect);
        let expected = [
            "main/tools/hooks",
            "main/shared.config",
            "main/deep/nested/.git/hooks",
            "main/deep/nested/.envrc",
            "main/.git/modules/a/b/hooks",
            "main/elsewhere",
        ];
        for name in expected {
            assert!(protected.iter().any(|path| path == name), "{name}: {protected:?}");
        }
        let copies = ["main/.git/config", "main/.git/modules/a/b/config", "main/deep/nested/.git/config"];
        assert_eq!(place.paths(&found.copies), copies);
        let layered = find(&place.at("main"), &[place.at("main")], true, Some(&place.at("main")));
        assert_eq!(layered, ProjectFiles::default(), "programs change only a layer");
    }
}
