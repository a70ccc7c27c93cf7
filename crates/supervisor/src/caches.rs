//! Removes the caches that tools have kept for projects, when these do not need them any more.

use nacre_containment::file_tree::remove_forced;
use nacre_isolation::caches::unneeded;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Removes what a sweep finds in a directory of places. What fails is left to the next one.
pub fn sweep(root: &Path) {
    let Ok(places) = unneeded(root) else { return };
    let Ok(directory) = File::open(root) else { return };
    let directory = directory.into();
    for place in places {
        if let Some(name) = place.directory.file_name() {
            let _ = remove_forced(&directory, name.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_isolation::caches::{Held, Identity, place};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_caches_of_a_removed_project_are_removed_whatever_they_contain() {
        let state = tempfile::tempdir().unwrap();
        let [project, kept] = ["project", "kept"].map(|name| state.path().join(name));
        fs::create_dir(&kept).unwrap();
        let places = [&project, &kept].map(|project| {
            let (project, write) = (project.clone(), Vec::new());
            let identity = Identity { project, write, mounts: Vec::new(), user: 0, is_layered: false };
            let place = place(state.path(), &identity).unwrap();
            let held = Held::open(&place, None).unwrap();
            fs::create_dir_all(place.files.join("go/mod")).unwrap();
            fs::write(place.files.join("go/mod/file"), "").unwrap();
            std::os::unix::fs::symlink(&kept, place.files.join("link")).unwrap();
            // As Go makes them.
            fs::set_permissions(place.files.join("go/mod"), fs::Permissions::from_mode(0o555)).unwrap();
            held.release();
            place
        });
        let root = state.path().join("caches");
        sweep(&root);
        assert_eq!(places.each_ref().map(|place| place.files.parent().unwrap().exists()), [false, true]);
        assert!(kept.is_dir());
        assert_eq!(fs::read_dir(&root).unwrap().count(), 2, "the other place, and the time of the sweep");
    }
}
