//! Checks of the directories whose path the caller chooses: `stateDir` and `jobsRoot`.
//!
//! The owner of a directory and every user with write access can put anything into it. The directory must therefore
//! belong to this user or to root and be writable only by its owner. It must not be a symlink, because the owner of the
//! link can redirect it at any time. The check changes nothing, and never a mode.

use nacre_containment::job::lock;
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why a directory is refused.
#[derive(Debug, thiserror::Error)]
pub enum RefusedDirectory {
    /// Its last component is a symlink.
    #[error("it is a symlink; name the directory that it leads to")]
    Symlink,
    /// It is not a directory.
    #[error("it is not a directory")]
    NotDirectory,
    /// It belongs to neither this user nor root, but to this uid.
    #[error("it belongs to another user (uid {0})")]
    Owner(u32),
    /// Its group or all users can write to it; its mode.
    #[error("other users can write to it (mode {0:04o}); run chmod go-w, or name another directory")]
    Mode(u32),
    /// It cannot be inspected or created.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<RefusedDirectory> for io::Error {
    fn from(refused: RefusedDirectory) -> Self {
        match refused {
            RefusedDirectory::Io(error) => error,
            other => Self::new(io::ErrorKind::PermissionDenied, other),
        }
    }
}

/// Returns true if the directory exists and can be used, false if it does not exist.
///
/// # Errors
/// See [`RefusedDirectory`].
pub fn check(path: &Path) -> Result<bool, RefusedDirectory> {
    match fs::symlink_metadata(without_slash(path)) {
        Ok(info) => judge(&info).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory; `None` if it does not exist.
///
/// # Errors
/// See [`RefusedDirectory`].
pub fn open(path: &Path) -> Result<Option<File>, RefusedDirectory> {
    match lock::open(&without_slash(path)) {
        Ok(directory) => judge(&directory.metadata()?).map(|()| Some(directory)),
        // What is in its place says why.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => check(path).map(|_| None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Creates the directory with mode 0700, and its parents, unless it exists. Then checks it.
///
/// # Errors
/// See [`RefusedDirectory`].
pub fn create(path: &Path) -> Result<(), RefusedDirectory> {
    if check(path)? {
        return Ok(());
    }
    let path = without_slash(path);
    DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    judge(&fs::symlink_metadata(path)?)
}

fn judge(info: &Metadata) -> Result<(), RefusedDirectory> {
    if info.is_symlink() {
        return Err(RefusedDirectory::Symlink);
    }
    if !info.is_dir() {
        return Err(RefusedDirectory::NotDirectory);
    }
    if info.uid() != 0 && info.uid() != nix::unistd::geteuid().as_raw() {
        return Err(RefusedDirectory::Owner(info.uid()));
    }
    if info.mode() & 0o022 != 0 {
        return Err(RefusedDirectory::Mode(info.mode() & 0o7777));
    }
    Ok(())
}

/// The path without a final slash, with which a symlink would be followed.
fn without_slash(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_private_directory_is_made_and_found() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        assert!(!check(&path).unwrap());
        create(&path).unwrap();
        assert!(check(&path).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        create(&path).unwrap();
    }

    #[test]
    fn a_symlink_is_refused_with_and_without_a_slash() {
        let root = tempfile::tempdir().unwrap();
        let (real, link) = (root.path().join("real"), root.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
        symlink(&real, &link).unwrap();
        for path in [link.clone(), root.path().join("link/"), root.path().join("link/.")] {
            assert!(matches!(check(&path), Err(RefusedDirectory::Symlink)), "{path:?}");
            assert!(matches!(create(&path), Err(RefusedDirectory::Symlink)), "{path:?}");
        }
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o755);
        symlink(root.path().join("nowhere"), root.path().join("dangling")).unwrap();
        assert!(matches!(create(&root.path().join("dangling")), Err(RefusedDirectory::Symlink)));
    }

    #[test]
    fn a_file_and_a_directory_that_others_can_write_to_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (file, open) = (root.path().join("file"), root.path().join("open"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&open).unwrap();
        assert!(matches!(check(&file), Err(RefusedDirectory::NotDirectory)));
        for mode in [0o777, 0o1777, 0o770, 0o702] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(create(&open), Err(RefusedDirectory::Mode(found)) if found == mode), "{mode:o}");
            assert_eq!(fs::metadata(&open).unwrap().mode() & 0o7777, mode);
        }
    }

    #[test]
    fn the_directory_of_another_user_is_refused() {
        let root = tempfile::tempdir().unwrap();
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::chown(root.path(), Some(65534), None).unwrap();
        assert!(matches!(check(root.path()), Err(RefusedDirectory::Owner(65534))));
    }
}
