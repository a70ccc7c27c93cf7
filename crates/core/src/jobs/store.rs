//! The directory of all jobs, and the one of a job.

use crate::error::{Code, Error};
use nacre_containment::job::layout;
use nacre_containment::job::meta::Meta;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The root.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// A job's directory, which is there.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name.
    pub id: String,
    /// Its path.
    pub directory: PathBuf,
}

impl Store {
    /// Makes nothing yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A job that somebody has started, or the remains of one.
    ///
    /// # Errors
    /// `JOB_NOT_FOUND`, also for what is no id.
    pub fn find(&self, id: &str) -> Result<Job, Error> {
        let directory = self.root.join(id);
        let exists = layout::is_id(id) && fs::symlink_metadata(&directory).is_ok_and(|info| info.is_dir());
        if exists { Ok(Job { id: id.into(), directory }) } else { Err(not_found(id)) }
    }

    /// Makes the root. Whoever owns it can put anything into it, so one of another user is refused.
    ///
    /// # Errors
    /// `STATE_DIR_UNAVAILABLE`.
    pub fn create_root(&self) -> Result<(), Error> {
        let refused = |error: io::Error| {
            let message =
                format!("the directory of jobs {} can not be used: {error}; see jobsRoot", self.root.display());
            Error::new(Code::StateDirUnavailable, message)
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root).map_err(refused)?;
        if is_trusted(&self.root) {
            return Ok(());
        }
        Err(refused(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else")))
    }
}

impl Job {
    /// Its `meta.json`, unless that is missing or damaged.
    pub fn meta(&self) -> Option<Meta> {
        Meta::read(&self.directory)
    }

    /// Whether what stands in it may decide about signals: only when it is ours, or root's.
    ///
    /// # Errors
    /// `STATE_DIR_UNAVAILABLE`.
    pub fn check_trust(&self) -> Result<(), Error> {
        if is_trusted(&self.directory) {
            return Ok(());
        }
        let message = format!("the directory of job '{}' belongs to another user", self.id);
        Err(Error::new(Code::StateDirUnavailable, message))
    }
}

fn is_trusted(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|info| info.uid() == 0 || info.uid() == nix::unistd::geteuid().as_raw())
}

/// The error for an id that names no job.
pub fn not_found(id: &str) -> Error {
    Error::new(Code::JobNotFound, format!("there is no job '{id}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_names_no_job() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        fs::create_dir(root.path().join("~b")).unwrap();
        std::os::unix::fs::symlink("/tmp", root.path().join("link")).unwrap();
        let store = Store::new(root.path());
        assert!(store.find("a").is_ok());
        for id in ["", ".", "..", "~b", "b", "link", "a/../a", "../x"] {
            assert_eq!(store.find(id).unwrap_err().code, Code::JobNotFound, "{id}");
        }
    }
}
