//! Files of a project that programs of the machine run or obey later: git, a shell, a package manager, an editor, an agent.
//!
//! A sandboxed program that writes one of them leaves the sandbox when the user next runs such a program. The project's own
//! sources are not listed, although a build runs them too: `package.json`, `Makefile` or `build.rs` are what the sandbox is
//! there to change.

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
pub const IN_GIT: [HostProgram; 6] = [
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

/// Why a path of a project counts, wherever in the project it lies: for comparisons that see all paths.
pub fn reason(path: &[u8]) -> Option<&'static str> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let matches = |found: &HostProgram, from: usize| {
        let wanted: Vec<&[u8]> = found.name.as_bytes().split(|byte| *byte == b'/').collect();
        names.get(from..).is_some_and(|rest| rest.starts_with(&wanted))
    };
    let in_project = || (0..names.len()).find_map(|from| IN_PROJECT.iter().find(|found| matches(found, from)));
    let git = names.iter().position(|name| *name == b".git");
    let in_git = || {
        let git = git?;
        // A file `.git` says where the repository is.
        if git + 1 == names.len() {
            return None;
        }
        let is_inner = |at: &usize| {
            *at == git + 1 || names.get(git + 1).is_some_and(|name| *name == b"modules" || *name == b"worktrees")
        };
        (git + 1..names.len()).filter(is_inner).find_map(|from| IN_GIT.iter().find(|found| matches(found, from)))
    };
    let found = if git.is_some() { in_git() } else { in_project() };
    found.map(|found| found.reason)
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
        let counts = |path: &str| reason(path.as_bytes()).is_some();
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
    }
}
