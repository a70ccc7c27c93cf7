//! The directory of all jobs, and the directory of a job.

use crate::blocking::Turns;
use crate::error::{Code, Error};
use crate::private_directory::{self, RefusedDirectory};
use nacre_containment::job::file::Unreadable;
use nacre_containment::job::meta::Meta;
use nacre_containment::job::{layout, leftover};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The root directory of all jobs.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    turns: Turns,
}

/// The directory of a job, opened once: a later job with this id has another one.
#[derive(Clone, Debug)]
pub struct Job {
    /// The job's id, which is the directory's name.
    pub id: String,
    /// The directory.
    pub directory: Arc<File>,
    /// Where it was opened.
    pub path: PathBuf,
    turns: Turns,
}

impl Store {
    /// Creates nothing on disk yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { turns: Turns::of(&root), root }
    }

    /// The root's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Runs work on files of jobs on a thread that may block.
    ///
    /// # Errors
    /// Those of the work, and of [`Turns::run`].
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let own = self.clone();
        self.turns.run(move || work(&own)).await
    }

    /// Whether the root exists. Without a root, there are no jobs.
    ///
    /// # Errors
    /// `STATE_DIR_UNAVAILABLE` for a root that other users can change, which is not read.
    pub fn exists(&self) -> Result<bool, Error> {
        private_directory::check(&self.root).map_err(|reason| self.refused(&reason))
    }

    /// Finds a job, or the remains of a job.
    ///
    /// # Errors
    /// `JOB_NOT_FOUND`, also for an invalid id; `STATE_DIR_UNAVAILABLE` if other users can change the root or the
    /// directory of the job; `ENGINE_ERROR` if it cannot be opened now.
    pub fn find(&self, id: &str) -> Result<Job, Error> {
        if !layout::is_id(id) || !self.exists()? {
            return Err(not_found(id));
        }
        let path = self.root.join(id);
        match private_directory::open(&path) {
            Ok(Some(directory)) => {
                Ok(Job { id: id.into(), directory: Arc::new(directory), path, turns: self.turns.clone() })
            }
            Ok(None) | Err(RefusedDirectory::Symlink | RefusedDirectory::NotDirectory) => Err(not_found(id)),
            Err(RefusedDirectory::Io(error)) if error.kind() != io::ErrorKind::PermissionDenied => {
                Err(unknown(id, &error))
            }
            Err(reason) => {
                let message = format!("the directory of job '{id}' in jobsRoot cannot be used: {reason}");
                Err(Error::new(Code::StateDirUnavailable, message))
            }
        }
    }

    /// The error for a root that cannot be used.
    pub fn refused(&self, reason: &RefusedDirectory) -> Error {
        Error::new(
            Code::StateDirUnavailable,
            format!("jobsRoot '{}' cannot be used: {reason}; choose a directory of your own", self.root.display()),
        )
    }
}

impl Job {
    /// See [`Store::blocking`].
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let own = self.clone();
        self.turns.run(move || work(&own)).await
    }

    /// Its `meta.json`; `None` if that is missing or damaged.
    ///
    /// # Errors
    /// See [`Job::unreadable`].
    pub fn meta(&self) -> Result<Option<Meta>, Error> {
        Meta::read(&self.directory, &self.id).map_err(|reason| self.unreadable(layout::META, &reason))
    }

    /// Checks that the job has not been removed. What was read before then belongs to a complete job: a removal renames
    /// the directory first.
    ///
    /// # Errors
    /// `JOB_NOT_FOUND`.
    pub fn still_there(&self) -> Result<(), Error> {
        match leftover::is_same(&self.directory, &self.path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(not_found(&self.id)),
            Err(error) => Err(unknown(&self.id, &error)),
        }
    }

    /// The error for an unreadable file: `JOB_NOT_FOUND` if it is of another kind, which nacre never writes, and
    /// `ENGINE_ERROR` if the disk fails.
    pub fn unreadable(&self, name: &str, reason: &Unreadable) -> Error {
        let code = if matches!(reason, Unreadable::Io(_)) { Code::EngineError } else { Code::JobNotFound };
        Error::new(code, format!("job '{}' is damaged: its file '{name}' cannot be read: {reason}", self.id))
    }
}

/// The error for a job of which nothing is known: this process cannot look, for example without a descriptor.
pub fn unknown(id: &str, error: &io::Error) -> Error {
    Error::new(Code::EngineError, format!("job '{id}' cannot be looked up: {error}"))
}

/// The error for an unknown id.
pub fn not_found(id: &str) -> Error {
    Error::new(Code::JobNotFound, format!("there is no job '{id}'; list the jobs to see their ids"))
}

#[cfg(test)]
impl Job {
    /// The job `j` in a directory.
    pub fn at(path: &Path) -> Self {
        let directory = Arc::new(File::open(path).unwrap());
        Self { id: "j".into(), directory, path: path.into(), turns: Turns::of(path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

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

    #[test]
    fn a_root_or_a_job_that_others_can_change_is_not_even_read() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a");
        fs::create_dir(&directory).unwrap();
        let store = Store::new(root.path());
        for open in [directory.as_path(), root.path()] {
            fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
            let error = store.find("a").unwrap_err();
            assert_eq!(error.code, Code::StateDirUnavailable);
            assert!(error.message.contains("jobsRoot") && error.message.contains("0777"), "{}", error.message);
            fs::set_permissions(open, fs::Permissions::from_mode(0o700)).unwrap();
        }
        assert!(store.find("a").is_ok());
    }
}
