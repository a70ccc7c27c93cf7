//! Files of a project that programs of the machine run or obey later: git, a shell, a package manager, an editor, an agent.
//!
//! A sandboxed program that writes one of them leaves the sandbox when the user next runs such a program. The project's own
//! sources are not listed, although a build runs them too: `package.json`, `Makefile` or `build.rs` are what the sandbox is
//! there to change.

use std::collections::BTreeSet;

/// What protects a file that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileMissing {
    /// An empty directory takes its place, which git does not list.
    Directory,
    /// A file with this text takes its place. Only in a directory of git.
    File(&'static str),
    /// Nothing: a directory there would be seen, or what reads it would fail.
    Unprotected,
}

/// A file or directory of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProgram {
    /// Its path in a directory of git, or in a project.
    pub name: &'static str,
    /// See there.
    pub missing: WhileMissing,
    /// Which program runs or obeys it.
    pub reason: &'static str,
}

const fn entry(name: &'static str, missing: WhileMissing, reason: &'static str) -> HostProgram {
    HostProgram { name, missing, reason }
}

use WhileMissing::{Directory, File, Unprotected};

/// In each directory of git: of a repository, of a submodule and, as far as it has them, of a linked worktree.
pub const IN_GIT: [HostProgram; 8] = [
    entry("hooks", Directory, "git runs its programs at a commit, a push, a checkout and so on"),
    entry(
        "config",
        Unprotected,
        "git runs what core.fsmonitor, core.hooksPath, filters, aliases and others name, even at `git status`",
    ),
    entry("config.worktree", File(""), "git obeys it like config"),
    entry("commondir", File(".\n"), "git takes config and hooks from the directory that it names"),
    entry("gitdir", Unprotected, "git finds the work tree of a linked worktree by it"),
    entry("info/attributes", File(""), "git filters files by programs of the config as it says"),
    entry("remotes", Directory, "git takes the URLs of remotes from its files"),
    entry("branches", Directory, "git takes the URLs of remotes from its files"),
];

/// In a project, and in the top directory of its work tree.
pub const IN_PROJECT: [HostProgram; 35] = [
    entry(".gitattributes", Directory, "git filters and merges files by programs of the config as it says"),
    entry(".gitmodules", Unprotected, "git fetches submodules from where it says"),
    entry(".githooks", Directory, "a usual place of git hooks"),
    entry(".husky", Directory, "git runs its programs as hooks"),
    entry("lefthook.yml", Unprotected, "git hooks of lefthook run what it says"),
    entry(".pre-commit-config.yaml", Directory, "git hooks of pre-commit run what it says"),
    entry(".envrc", Directory, "direnv runs it in the user's shell"),
    entry(".tool-versions", Directory, "asdf and mise choose the programs that the user's shell runs"),
    entry("mise.toml", Unprotected, "mise runs its hooks and sets variables in the user's shell"),
    entry(".mise.toml", Directory, "mise runs its hooks and sets variables in the user's shell"),
    entry(".mise", Directory, "mise runs its hooks and sets variables in the user's shell"),
    entry(".vscode", Directory, "the editor runs its tasks, launches and the programs that its settings name"),
    entry(".idea", Directory, "the editor runs its run configurations and watchers"),
    entry(".zed", Directory, "the editor runs its tasks and the programs that its settings name"),
    entry(".devcontainer", Directory, "editors run its commands, also on the host"),
    entry(".devcontainer.json", Directory, "editors run its commands, also on the host"),
    entry(".mcp.json", Directory, "agents start the servers that it names"),
    entry(".claude", Directory, "the agent runs its hooks and obeys its permissions"),
    entry(".cursor", Directory, "the agent starts its servers, and obeys its rules"),
    entry(".codex", Directory, "the agent starts its servers, and obeys its rules"),
    entry(".gemini", Directory, "the agent starts its servers, and obeys its rules"),
    entry(".windsurf", Directory, "the agent obeys its rules"),
    entry(".aider.conf.yml", Directory, "the agent runs its test and lint commands"),
    entry("opencode.json", Unprotected, "the agent starts its servers"),
    entry(".npmrc", Directory, "npm obeys its registry, script-shell and node-options"),
    entry(".yarnrc", Directory, "yarn runs the program of yarn-path"),
    entry(".yarnrc.yml", Unprotected, "yarn runs its yarnPath and plugins"),
    entry(".yarn/releases", Unprotected, "yarn runs the release that yarnPath names"),
    entry(".yarn/plugins", Unprotected, "yarn loads its plugins"),
    entry(".pnpmfile.cjs", Unprotected, "pnpm runs it at installations"),
    entry("bunfig.toml", Unprotected, "bun loads its preload scripts"),
    entry(".cargo", Directory, "cargo runs the linker, wrapper, runner and aliases of its config"),
    entry("rust-toolchain.toml", Unprotected, "rustup runs the toolchain of its path"),
    entry(".bazelrc", Unprotected, "bazel obeys its options"),
    entry("pip.conf", Unprotected, "pip obeys its index"),
];

/// Why a path of a project counts, wherever in the project it lies: for comparisons that see all paths. A directory `.git` has
/// what counts and what does not.
pub fn reason(path: &[u8], is_directory: bool) -> Option<&'static str> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let Some(git) = names.iter().position(|name| *name == b".git") else {
        return (0..names.len()).find_map(|from| listed(&IN_PROJECT, names.get(from..)?));
    };
    if git + 1 == names.len() {
        return (!is_directory).then_some("git takes config and hooks from the directory that it names");
    }
    let is_inner = |at: &usize| {
        *at == git + 1 || names.get(git + 1).is_some_and(|name| *name == b"modules" || *name == b"worktrees")
    };
    (git + 1..names.len()).filter(is_inner).find_map(|from| listed(&IN_GIT, names.get(from..)?))
}

fn listed(list: &[HostProgram], names: &[&[u8]]) -> Option<&'static str> {
    let is_meant = |found: &&HostProgram| {
        names.starts_with(&found.name.as_bytes().split(|byte| *byte == b'/').collect::<Vec<_>>())
    };
    list.iter().find(is_meant).map(|found| found.reason)
}

/// The same for changed paths, which can show more: a repository without a work tree has no `.git` in its path.
pub struct Changed {
    /// Such repositories that are new.
    bare: BTreeSet<Vec<u8>>,
}

impl Changed {
    /// For all changed paths.
    pub fn new<'a>(paths: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let holding = |wanted: &'static [u8]| {
            paths.clone().filter_map(move |path| {
                let above = path.strip_suffix(wanted)?;
                if above.is_empty() { Some(above) } else { above.strip_suffix(b"/") }
            })
        };
        let heads: BTreeSet<&[u8]> = holding(b"HEAD").collect();
        Self { bare: holding(b"objects").filter(|path| heads.contains(path)).map(<[u8]>::to_vec).collect() }
    }

    /// See [`reason`].
    pub fn reason(&self, path: &[u8], is_directory: bool) -> Option<&'static str> {
        let is_split = |at: &usize| path.get(*at) == Some(&b'/');
        let inside = (0..path.len()).filter(is_split).filter_map(|at| Some((path.get(..at)?, path.get(at + 1..)?)));
        let of_bare = || {
            let (_, inner) = inside.chain([(&b""[..], path)]).find(|(above, _)| self.bare.contains(*above))?;
            listed(&IN_GIT, &inner.split(|byte| *byte == b'/').collect::<Vec<_>>())
        };
        reason(path, is_directory).or_else(of_bare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_the_list() {
        let text = include_str!("../../../docs/projects.md");
        for HostProgram { name, missing, reason } in IN_GIT.iter().chain(&IN_PROJECT) {
            let is_masked = if *missing == Unprotected { "no" } else { "yes" };
            let line = format!("| `{name}` | {is_masked} | {reason} |");
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }

    #[test]
    fn a_path_counts_wherever_it_lies() {
        let counts = |path: &str| reason(path.as_bytes(), path.ends_with(".git")).is_some();
        let listed = [
            ".git/hooks/pre-commit",
            ".git/config",
            "sub/.git/config",
            ".git/modules/a/hooks",
            ".git/modules/a/modules/b/config",
            ".git/worktrees/w/config.worktree",
            ".envrc",
            "deep/er/.npmrc",
            ".vscode/tasks.json",
            "packages/a/.cargo/config.toml",
            ".yarn/releases/yarn.cjs",
        ];
        assert_eq!(listed.into_iter().find(|path| !counts(path)), None);
        let others = [
            "",
            "Makefile",
            "package.json",
            ".git/objects/hooks",
            ".git/refs/heads/config",
            ".git/HEAD",
            "vscode",
            ".envrc.txt",
            ".yarn/cache",
            ".git",
        ];
        assert_eq!(others.into_iter().find(|path| counts(path)), None);
        assert!(reason(b"sub/.git", false).is_some(), "a file leads git elsewhere");
    }

    #[test]
    fn a_new_repository_counts_without_a_work_tree() {
        let paths = [
            "a/b.git",
            "a/b.git/HEAD",
            "a/b.git/config",
            "a/b.git/hooks/update",
            "a/b.git/objects",
            "c/HEAD",
            "c/config",
        ];
        let changed = Changed::new(paths.iter().map(|path| path.as_bytes()));
        let counted: Vec<&str> =
            paths.into_iter().filter(|path| changed.reason(path.as_bytes(), false).is_some()).collect();
        assert_eq!(counted, ["a/b.git/config", "a/b.git/hooks/update"]);
        let top = Changed::new([&b"HEAD"[..], b"objects", b"config"].into_iter());
        assert!(top.reason(b"config", false).is_some() && top.reason(b"refs/config", false).is_none());
    }
}
