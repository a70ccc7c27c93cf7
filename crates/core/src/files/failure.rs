//! Converts failures of the files helper to errors.

use crate::error::{Code, Error};
use nacre_protocol::files::{Failure, Kind, MAX_ENTRIES, MAX_LIST_BYTES, Reason};
use std::io;

/// Creates an error about a file.
pub fn error(code: Code, path: &[u8], what: impl std::fmt::Display) -> Error {
    let path = shown(path);
    Error { path: Some(path.clone()), ..Error::new(code, format!("'{path}' {what}")) }
}

/// A path as text.
pub fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// The error for a failure of the helper.
pub fn error_of(Failure { reason, path }: &Failure) -> Error {
    match *reason {
        Reason::System(errno) => system_error(path, errno),
        Reason::NotRegular(kind) => error(Code::InvalidPath, path, format!("is {}, not a regular file", name_of(kind))),
        Reason::NeedsRecursive => {
            error(Code::IsADirectory, path, "is a directory with content; the option 'recursive' includes that")
        }
        Reason::Cwd(errno) => {
            let failed = system_error(path, errno);
            Error { message: format!("the session's directory {}", failed.message), ..failed }
        }
        Reason::Protected => {
            let what = "is '.', '..', the root, or a directory that holds the session's directory";
            error(Code::InvalidPath, path, what)
        }
        Reason::Outside => error(Code::PermissionDenied, path, "leads out of the root"),
        Reason::SameFile => error(Code::InvalidPath, path, "is the file to be copied"),
        Reason::Inside => error(Code::InvalidPath, path, "is inside the directory to be copied or renamed"),
        Reason::TooMany(most) => {
            let bytes = MAX_LIST_BYTES / 1024 / 1024;
            let what =
                format!("has more than {most} entries, or {bytes} MiB of paths; list a part of it, or fewer levels");
            error(Code::FileTooLarge, path, what)
        }
        Reason::WatchLimit(libc::EMFILE) => {
            let what = "cannot be watched: all inotify instances of this user are in use \
                        (fs.inotify.max_user_instances); end other watches, or raise that limit";
            error(Code::EngineError, path, what)
        }
        Reason::WatchLimit(_) => {
            let what = format!(
                "cannot be watched: it has more than {MAX_ENTRIES} entries, or more directories than this user may \
                 still watch (fs.inotify.max_user_watches); watch a part of it"
            );
            error(Code::FileTooLarge, path, what)
        }
        Reason::SetUp(errno) => {
            let reason = io::Error::from_raw_os_error(errno);
            Error::new(Code::SpawnFailed, format!("the files helper cannot take on the session's user: {reason}"))
        }
    }
}

/// The error for a failed system call.
pub fn system_error(path: &[u8], errno: i32) -> Error {
    use Code::{
        EngineError, FileExists, FileNotFound, FileTooLarge, InvalidPath, IsADirectory, NoSpace, NotADirectory,
        PermissionDenied,
    };
    let reason = io::Error::from_raw_os_error(errno);
    let (code, what) = match errno {
        libc::ENOENT if path.starts_with(b"/") => (FileNotFound, "does not exist; check the path".to_string()),
        libc::ENOENT => {
            (FileNotFound, "does not exist; a relative path starts at the directory of the session".to_string())
        }
        libc::EEXIST => (FileExists, "already exists; remove it, or choose another path".to_string()),
        libc::ENOTEMPTY => (FileExists, "is a directory that is not empty; empty it first".to_string()),
        libc::ENOTDIR => (NotADirectory, "is not a directory, or leads through a file; check the path".to_string()),
        libc::EISDIR => (IsADirectory, "is a directory; give the path of a file".to_string()),
        libc::EACCES | libc::EPERM => (PermissionDenied, format!("cannot be accessed: {reason}")),
        libc::EROFS => (
            PermissionDenied,
            "is on a read-only file system; with isolation, `filesystem.write` allows more".to_string(),
        ),
        libc::EBUSY | libc::ETXTBSY => (PermissionDenied, format!("is in use, or a mount point: {reason}")),
        libc::EFBIG => (FileTooLarge, format!("cannot be so large: {reason}")),
        libc::ENOSPC | libc::EDQUOT => (NoSpace, format!("does not fit: {reason}; remove files to make space")),
        libc::ELOOP => (InvalidPath, "leads through too many symbolic links".to_string()),
        libc::ENAMETOOLONG => (InvalidPath, "has a name or a path that is too long".to_string()),
        libc::EXDEV => {
            // A workspace without root: overlayfs has no place for the new name of a directory that it has not made.
            let what = "is on another file system, or a directory that a workspace without root has from before";
            (InvalidPath, format!("{what}; copy it and remove the original"))
        }
        libc::ENXIO | libc::EINVAL | libc::ENODEV => (InvalidPath, format!("cannot be used as a file: {reason}")),
        _ => (EngineError, format!("failed: {reason}")),
    };
    error(code, path, what)
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "a file",
        Kind::Directory => "a directory",
        Kind::Symlink => "a symlink",
        Kind::Fifo => "a FIFO",
        Kind::Socket => "a socket",
        Kind::Device => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file_and_has_its_path() {
        let failed = error_of(&Failure { reason: Reason::System(libc::ENOENT), path: b"a\xff".to_vec() });
        assert_eq!((failed.code, failed.path.as_deref()), (Code::FileNotFound, Some("a\u{fffd}")));
        assert_eq!(
            failed.message,
            "'a\u{fffd}' does not exist; a relative path starts at the directory of the session"
        );
        let failed = error_of(&Failure { reason: Reason::NotRegular(Kind::Fifo), path: b"p".to_vec() });
        assert_eq!((failed.code, failed.message.as_str()), (Code::InvalidPath, "'p' is a FIFO, not a regular file"));
    }
}
