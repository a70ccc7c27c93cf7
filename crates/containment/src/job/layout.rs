//! The files of a job. One job is one directory, whose name is the job's id.

use std::path::{Path, PathBuf};

/// Describes the job. Written before the command starts and never changed.
pub const META: &str = "meta.json";
/// Standard output and standard error together.
pub const OUTPUT: &str = "output.log";
/// The exit code as a decimal number. Exists once the command has ended.
pub const EXIT: &str = "exit";
/// Details of the end. Exists before [`EXIT`] does.
pub const END: &str = "end.json";
/// Space reserved at the start for [`EXIT`] and [`END`], so that they can be written to a full disk.
pub const EXIT_ROOM: &str = "exit.tmp";
/// See [`EXIT_ROOM`].
pub const END_ROOM: &str = "end.json.tmp";
/// The grace time of a cancel, in hundredths of a second. Written before the SIGTERM by callers that cannot send a value
/// with a signal, and for supervisors that cannot receive one.
pub const GRACE: &str = "cancel";
/// [`GRACE`], until it is complete.
pub const GRACE_ROOM: &str = "cancel.tmp";
/// The command's standard input, if it was given any.
pub const STDIN: &str = "stdin";

/// The character that the name of an unfinished directory begins with; ids cannot have it.
const UNFINISHED: char = '~';

/// 1 to 128 characters of `A-Z a-z 0-9 . _ -`, but neither `.` nor `..`: an id never leads out of the root.
pub fn is_id(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && text != "."
        && text != ".."
}

/// The directory in which a job is prepared before it gets its final name.
pub fn unfinished(root: &Path, id: &str) -> PathBuf {
    root.join(format!("{UNFINISHED}{id}"))
}

/// The directory that is being removed under a name that no other has: the inode of a directory is its own.
pub fn removed(root: &Path, inode: u64) -> PathBuf {
    unfinished(root, &format!("removed-{inode}"))
}

/// True for the name of an unfinished directory.
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
