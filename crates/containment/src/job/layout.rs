//! Where everything of a job lies. One job is one directory, whose name is the job's id.

use std::path::{Path, PathBuf};

/// Who the job is; written before the command starts, never changed.
pub const META: &str = "meta.json";
/// Standard output and standard error together.
pub const OUTPUT: &str = "output.log";
/// The exit code as a decimal number, there once the command has ended.
pub const EXIT: &str = "exit";
/// How it ended, in more words; there before [`EXIT`] is.
pub const END: &str = "end.json";
/// The room for [`EXIT`] and [`END`], taken at the start so that a full disk can not keep them from being written.
pub const EXIT_ROOM: &str = "exit.tmp";
/// See [`EXIT_ROOM`].
pub const END_ROOM: &str = "end.json.tmp";
/// What the command reads as its standard input, when it was given something.
pub const STDIN: &str = "stdin";

/// The character that the name of an unfinished directory begins with; ids can not have it.
const UNFINISHED: char = '~';

/// 1 to 128 characters of `A-Z a-z 0-9 . _ -`, but neither `.` nor `..`: an id never leads out of the root.
pub fn is_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && text != "."
        && text != ".."
}

/// Where a job's directory is put together, before it gets its name.
pub fn unfinished(root: &Path, id: &str) -> PathBuf {
    root.join(format!("{UNFINISHED}{id}"))
}

/// True for the name of such a directory.
pub fn is_unfinished(name: &str) -> bool {
    name.strip_prefix(UNFINISHED).is_some_and(is_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_is_a_path() {
        for good in ["a", "...", ".hidden", "A-Z_0.9", &"x".repeat(128)] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "../x", "a\0", "~a", "ä", "a b", "a\n", &"x".repeat(129)] {
            assert!(!is_id(bad), "{bad}");
        }
        assert!(is_unfinished("~a") && !is_unfinished("a") && !is_unfinished("~") && !is_unfinished("~../x"));
    }
}
