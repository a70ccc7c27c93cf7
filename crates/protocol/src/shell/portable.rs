//! The state of a shell for another environment: without what it has from its own, and with its directories elsewhere.
//!
//! Variables that are as the environment has them are left out, so that the next shell gets those of its own environment: its
//! `PATH` and `HOME`, and the values that only the program of the host knows.

use super::{DESCRIPTORS, DIRECTORY, Item, JOBS, items};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Kinds of items.
const VARIABLE: u32 = 1;
const PUSHED: u32 = 7;
const PROGRAM: u32 = 9;
/// The number of a variable that is exported and has a value, and nothing else.
const INHERITED: u32 = 1 | 1 << 30;
/// Variables with the path of a directory of the shell.
const DIRECTORIES: [&[u8]; 2] = [b"PWD", b"OLDPWD"];
/// Variables that bash sets, whatever it inherits.
const OWN: [&[u8]; 6] = [b"PWD", b"OLDPWD", b"SHLVL", b"_", b"SHELLOPTS", b"BASHOPTS"];

/// An environment.
pub type Variables = [(OsString, OsString)];

/// The items without what is as in `env`, and without the paths of programs. Returns also the names in `env` for which the state
/// has something else, or nothing.
pub fn without_inherited(state: &[u8], env: &Variables) -> (Vec<u8>, Vec<Vec<u8>>) {
    let inherited: HashMap<&[u8], &OsStr> = inherited(env).collect();
    let mut own: HashSet<&[u8]> = inherited.keys().copied().collect();
    let mut kept = Vec::with_capacity(state.len());
    for item in items(state) {
        let is_same = |value: &&OsStr| value.as_bytes() == item.value;
        if matches!(item.kind, PROGRAM | JOBS | DESCRIPTORS) {
            continue;
        }
        if (item.kind, item.number) == (VARIABLE, INHERITED) && inherited.get(item.name).is_some_and(is_same) {
            own.remove(item.name);
            continue;
        }
        item.write(&mut kept);
    }
    let mut own: Vec<Vec<u8>> = own.into_iter().map(<[u8]>::to_vec).collect();
    own.sort_unstable();
    (kept, own)
}

/// The items with what is in `env`, except for the names in `own`.
pub fn with_inherited(state: &[u8], env: &Variables, own: &[Vec<u8>]) -> Vec<u8> {
    let mut known: HashSet<&[u8]> = own.iter().map(Vec::as_slice).collect();
    known.extend(items(state).filter(|item| item.kind == VARIABLE).map(|item| item.name));
    let mut all = Vec::with_capacity(state.len());
    for (name, value) in inherited(env).filter(|(name, _)| !known.contains(name)) {
        Item { kind: VARIABLE, number: INHERITED, name, value: value.as_bytes() }.write(&mut all);
    }
    all.extend_from_slice(state);
    all
}

/// What shells inherit as variables. Exported functions are items of their own kind.
pub fn inherited(env: &Variables) -> impl Iterator<Item = (&[u8], &OsStr)> {
    let is_name = |name: &[u8]| {
        name.first().is_some_and(|first| !first.is_ascii_digit())
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    let all = env.iter().map(|(name, value)| (name.as_bytes(), value.as_os_str()));
    all.filter(move |(name, _)| is_name(name) && !OWN.contains(name))
}

/// A directory that is elsewhere now: where it was, and where it is.
pub type Move = (Vec<u8>, Vec<u8>);

/// The items with the directories of the shell where they are now.
pub fn moved(state: &[u8], moves: &[Move]) -> Vec<u8> {
    let mut all = Vec::with_capacity(state.len());
    for item in items(state) {
        let (name, value) = match item.kind {
            VARIABLE if DIRECTORIES.contains(&item.name) => (None, moved_path(item.value, moves)),
            PUSHED => (None, moved_path(item.value, moves)),
            DIRECTORY => (moved_path(item.name, moves), moved_path(item.value, moves)),
            _ => (None, None),
        };
        let name = name.as_deref().unwrap_or(item.name);
        Item { name, value: value.as_deref().unwrap_or(item.value), ..item }.write(&mut all);
    }
    all
}

/// Where a path is now that was in one of these directories: in the first that has it. `None` for another one.
pub fn moved_path(path: &[u8], moves: &[Move]) -> Option<Vec<u8>> {
    let below = |(from, to): &Move| {
        let rest = path.strip_prefix(&from[..])?;
        (rest.is_empty() || rest.starts_with(b"/")).then(|| [to, rest].concat())
    };
    moves.iter().find_map(below)
}

/// The names and paths of the programs that the shell has run.
pub fn programs(state: &[u8]) -> Vec<(&[u8], &[u8])> {
    items(state).filter(|item| item.kind == PROGRAM).map(|item| (item.name, item.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(items: &[(u32, u32, &str, &str)]) -> Vec<u8> {
        let mut state = Vec::new();
        for (kind, number, name, value) in items {
            Item { kind: *kind, number: *number, name: name.as_bytes(), value: value.as_bytes() }.write(&mut state);
        }
        state
    }

    fn shown(state: &[u8]) -> Vec<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        items(state).map(|item| format!("{} {}={}", item.kind, text(item.name), text(item.value))).collect()
    }

    fn env(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn a_state_takes_the_environment_of_its_new_place() {
        let before =
            env(&[("PATH", "/old"), ("HOME", "/root"), ("GONE", "1"), ("SET", "a"), ("TOKEN", "x"), ("a-b", "")]);
        let kept = state(&[
            (1, INHERITED, "PATH", "/venv:/old"),
            (1, INHERITED, "HOME", "/root"),
            (1, INHERITED, "SET", "a"),
            // It is not exported any more.
            (1, 1 << 30, "TOKEN", "x"),
            (1, INHERITED, "OWN", "o"),
            (9, 0, "git", "/old/git"),
            (19, 0, "", "[1]+"),
            (0x454e_444e, 0, "", ""),
        ]);
        let (carried, own) = without_inherited(&kept, &before);
        assert_eq!(shown(&carried), ["1 PATH=/venv:/old", "1 TOKEN=x", "1 OWN=o", "1162757198 ="]);
        assert_eq!(own, [&b"GONE"[..], b"PATH", b"TOKEN"]);
        let after =
            env(&[("PATH", "/new"), ("HOME", "/home/u"), ("GONE", "2"), ("NEW", "n"), ("OWN", "other"), ("PWD", "/")]);
        assert_eq!(
            shown(&with_inherited(&carried, &after, &own)),
            ["1 HOME=/home/u", "1 NEW=n", "1 PATH=/venv:/old", "1 TOKEN=x", "1 OWN=o", "1162757198 ="]
        );
    }

    #[test]
    fn directories_of_the_shell_move() {
        let kept = state(&[
            (1, 1, "PWD", "/a/b"),
            (1, 1, "OLDPWD", "/a/bc"),
            (1, 1, "TEXT", "/a/b"),
            (7, 0, "", "/a/b/c"),
            (13, 0, "/a/b/d", "/real/d"),
        ]);
        assert_eq!(
            shown(&moved(&kept, &[(b"/a/b".to_vec(), b"/new".to_vec()), (b"/".to_vec(), b"/no".to_vec())])),
            ["1 PWD=/new", "1 OLDPWD=/a/bc", "1 TEXT=/a/b", "7 =/new/c", "13 /new/d=/real/d"]
        );
    }
}
