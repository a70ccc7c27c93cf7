//! Unfinished directories (`~<id>`), and the proof that one of them is a leftover of nacre.
//!
//! A directory is unfinished while a supervisor prepares it and while it is being removed. A process that is killed in
//! between leaves it behind. The name alone proves nothing: a user can name a directory `~backup`. So an unfinished
//! directory holds a mark, an empty file that is named after the inode of the directory itself. A copy of the directory
//! has another inode, and so has a directory that was made by hand.
//!
//! The mark is removed last, so an interrupted removal can be resumed.

use super::lock;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Marks a directory as unfinished. The caller holds its lock, or is about to rename it for its removal.
///
/// # Errors
/// Those of the file system.
pub fn mark(directory: &Path) -> io::Result<()> {
    let mark = mark_of(directory, &fs::symlink_metadata(directory)?);
    match File::options().write(true).create_new(true).mode(0o600).open(mark) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes the mark of a complete directory. A mark that stays does no harm under the directory's final name.
pub fn unmark(directory: &Path) {
    if let Ok(info) = fs::symlink_metadata(directory) {
        let _ = fs::remove_file(mark_of(directory, &info));
    }
}

/// True for a directory of this user that has its own mark.
pub fn is_marked(directory: &Path) -> bool {
    let Ok(info) = fs::symlink_metadata(directory) else { return false };
    let is_ours = info.is_dir() && info.uid() == nix::unistd::geteuid().as_raw();
    is_ours && fs::symlink_metadata(mark_of(directory, &info)).is_ok_and(|mark| mark.is_file() && mark.len() == 0)
}

/// Removes a leftover that no process is using. Returns false for anything else, which is left unchanged.
///
/// # Errors
/// Those of the file system.
pub fn sweep(directory: &Path) -> io::Result<bool> {
    // Before the lock: a start that has created its directory and not yet marked it must not find the lock taken.
    if !is_marked(directory) {
        return Ok(false);
    }
    let Some(lock) = lock::take(directory)? else { return Ok(false) };
    if !is_same(&lock, directory) || !is_marked(directory) {
        return Ok(false);
    }
    remove(directory)?;
    Ok(true)
}

/// Removes a directory with everything in it, the mark last. Files that another process removes meanwhile are no error.
///
/// # Errors
/// Those of the file system.
pub fn remove(directory: &Path) -> io::Result<()> {
    let mark = mark_of(directory, &fs::symlink_metadata(directory)?);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.path() == mark {
            continue;
        }
        let is_directory = entry.file_type()?.is_dir();
        let removed = if is_directory { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        unless_missing(removed)?;
    }
    unless_missing(fs::remove_file(mark))?;
    unless_missing(fs::remove_dir(directory))
}

/// True when an open directory is the one at this path.
pub fn is_same(open: &File, path: &Path) -> bool {
    let inode = |info: &Metadata| (info.dev(), info.ino());
    matches!((open.metadata(), path.symlink_metadata()), (Ok(open), Ok(there)) if inode(&open) == inode(&there))
}

fn mark_of(directory: &Path, info: &Metadata) -> PathBuf {
    directory.join(format!(".unfinished-{}", info.ino()))
}

fn unless_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn filled(root: &Path, name: &str) -> PathBuf {
        let directory = root.join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("output.log"), "text").unwrap();
        directory
    }

    #[test]
    fn only_a_marked_directory_is_swept() {
        let root = tempfile::tempdir().unwrap();
        let (marked, plain) = (filled(root.path(), "~marked"), filled(root.path(), "~plain"));
        mark(&marked).unwrap();
        assert!(sweep(&marked).unwrap() && !marked.exists());
        assert!(!sweep(&plain).unwrap() && plain.join("output.log").exists());
    }

    #[test]
    fn the_mark_of_another_directory_counts_for_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (marked, copy) = (filled(root.path(), "~marked"), filled(root.path(), "~copy"));
        mark(&marked).unwrap();
        let name = fs::read_dir(&marked).unwrap().map(|entry| entry.unwrap().file_name());
        for name in name.filter(|name| name != "output.log") {
            fs::write(copy.join(name), "").unwrap();
        }
        assert!(!sweep(&copy).unwrap() && copy.join("output.log").exists());
    }

    #[test]
    fn a_symlink_to_a_marked_directory_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let marked = filled(root.path(), "marked");
        mark(&marked).unwrap();
        symlink(&marked, root.path().join("~link")).unwrap();
        assert!(!sweep(&root.path().join("~link")).unwrap() && marked.join("output.log").exists());
    }

    #[test]
    fn a_locked_directory_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let marked = filled(root.path(), "~marked");
        mark(&marked).unwrap();
        let lock = lock::take(&marked).unwrap().unwrap();
        assert!(!sweep(&marked).unwrap());
        drop(lock);
        assert!(sweep(&marked).unwrap());
    }
}
