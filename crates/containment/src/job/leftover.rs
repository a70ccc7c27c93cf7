//! Unfinished directories (`~<id>`), and the proof that one of them is a leftover of nacre.
//!
//! A directory is unfinished while a supervisor prepares it and while it is being removed. A process that is killed in
//! between leaves it behind. The name alone proves nothing: a user can name a directory `~backup`. So an unfinished
//! directory holds a mark, an empty file that is named after the inode of the directory itself. A copy of the directory
//! has another inode, and so has a directory that was made by hand.
//!
//! The mark is removed last, so an interrupted removal can be resumed.

use super::lock;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The path of a file in an open directory, wherever the directory is now.
pub fn within(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// Marks a directory as unfinished. The caller holds its lock, or is about to rename it for its removal.
///
/// # Errors
/// Those of the file system.
pub fn mark(directory: &File) -> io::Result<()> {
    match File::options().write(true).create_new(true).mode(0o600).open(mark_of(directory)?) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Removes the mark of a complete directory. A mark that stays does no harm under the directory's final name.
pub fn unmark(directory: &File) {
    let _ = mark_of(directory).and_then(fs::remove_file);
}

/// True for a directory of this user that has its own mark.
///
/// # Errors
/// Those of the file system.
pub fn is_marked(directory: &File) -> io::Result<bool> {
    if directory.metadata()?.uid() != nix::unistd::geteuid().as_raw() {
        return Ok(false);
    }
    match fs::symlink_metadata(mark_of(directory)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        mark => mark.map(|mark| mark.is_file() && mark.len() == 0),
    }
}

/// Removes a leftover that no process is using. Returns false for anything else, which is left unchanged.
///
/// # Errors
/// Those of the file system.
pub fn sweep(path: &Path) -> io::Result<bool> {
    let directory = lock::open(path)?;
    // Before the lock: a start that has created its directory and not yet marked it must not find the lock taken.
    if !is_marked(&directory)? || !lock::try_lock(&directory)? {
        return Ok(false);
    }
    let is_leftover = is_same(&directory, path)? && is_marked(&directory)?;
    let swept = if is_leftover { remove(&directory, path) } else { Ok(()) };
    lock::release(&directory);
    swept.map(|()| is_leftover)
}

/// Removes everything in a directory, the mark last, and then the directory, whose path this is. Files that another
/// process removes meanwhile are no error.
///
/// # Errors
/// Those of the file system.
pub fn remove(directory: &File, path: &Path) -> io::Result<()> {
    let mark = mark_of(directory)?;
    for entry in fs::read_dir(within(directory, ""))? {
        let entry = entry?;
        if Some(entry.file_name().as_os_str()) == mark.file_name() {
            continue;
        }
        let is_directory = entry.file_type()?.is_dir();
        let removed = if is_directory { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        unless_missing(removed)?;
    }
    unless_missing(fs::remove_file(mark))?;
    unless_missing(fs::remove_dir(path))
}

/// True when an open directory is the one at this path.
///
/// # Errors
/// Those of the file system.
pub fn is_same(open: &File, path: &Path) -> io::Result<bool> {
    let open = open.metadata()?;
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        there => there.map(|there| (there.dev(), there.ino()) == (open.dev(), open.ino())),
    }
}

fn mark_of(directory: &File) -> io::Result<PathBuf> {
    Ok(within(directory, &format!(".unfinished-{}", directory.metadata()?.ino())))
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
        mark(&File::open(&marked).unwrap()).unwrap();
        assert!(sweep(&marked).unwrap() && !marked.exists());
        assert!(!sweep(&plain).unwrap() && plain.join("output.log").exists());
    }

    #[test]
    fn the_mark_of_another_directory_counts_for_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (marked, copy) = (filled(root.path(), "~marked"), filled(root.path(), "~copy"));
        mark(&File::open(&marked).unwrap()).unwrap();
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
        mark(&File::open(&marked).unwrap()).unwrap();
        symlink(&marked, root.path().join("~link")).unwrap();
        assert!(sweep(&root.path().join("~link")).is_err() && marked.join("output.log").exists());
    }

    #[test]
    fn a_removal_reaches_only_the_directory_that_it_has_opened() {
        let root = tempfile::tempdir().unwrap();
        let first = filled(root.path(), "a");
        let opened = File::open(&first).unwrap();
        fs::rename(&first, root.path().join("b")).unwrap();
        let second = filled(root.path(), "a");
        assert!(!is_same(&opened, &first).unwrap());
        assert!(remove(&opened, &first).is_err());
        assert!(second.join("output.log").exists() && !root.path().join("b/output.log").exists());
    }

    #[test]
    fn a_locked_directory_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let marked = filled(root.path(), "~marked");
        mark(&File::open(&marked).unwrap()).unwrap();
        let lock = lock::take(&marked).unwrap().unwrap();
        assert!(!sweep(&marked).unwrap());
        lock::release(&lock);
        assert!(sweep(&marked).unwrap());
    }
}
