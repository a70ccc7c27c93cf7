//! The private directory for temporary files, used if a mount namespace cannot provide one.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::Path;

/// Creates the directory for a user. It already exists when a killed supervisor is being replaced.
///
/// # Errors
/// It cannot be created, or something else is in its place.
pub fn make(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    let context = |error: io::Error| io::Error::other(format!("cannot make {}: {error}", path.display()));
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = path.symlink_metadata().map_err(context)?;
            let expected = owner.map_or(nix::unistd::geteuid().as_raw(), |(uid, _)| uid);
            if !found.is_dir() || found.uid() != expected {
                return Err(context(io::ErrorKind::PermissionDenied.into()));
            }
        }
        Err(error) => return Err(context(error)),
    }
    match owner {
        Some((uid, gid)) => lchown(path, Some(uid), Some(gid)).map_err(context),
        None => Ok(()),
    }
}

/// Removes the directory with its content, without following links.
pub fn remove(path: &Path) {
    let _ = std::fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_in_the_way_is_refused_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let [kept, mine, link] = ["kept", "mine", "link"].map(|name| place.path().join(name));
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        symlink(&kept, &link).unwrap();
        make(&link, None).unwrap_err();
        make(&mine, None).unwrap();
        make(&mine, None).unwrap();
        symlink(&kept, mine.join("link")).unwrap();
        remove(&mine);
        assert!(!mine.exists() && kept.join("file").exists());
    }
}
