//! Lists all jobs of a root.

use super::status::{JobStatus, status};
use super::store::{Job, Store};
use crate::error::{Code, Error};
use crate::private_directory::RefusedDirectory;
use nacre_containment::job::meta::Meta;
use nacre_containment::job::{layout, leftover};
use std::fs;
use std::io;

/// Lists all jobs that can be attached to, in start order. Also removes leftovers of interrupted starts and removals; a
/// directory that is not provably a leftover stays ([`leftover`]).
///
/// # Errors
/// `STATE_DIR_UNAVAILABLE`; `ENGINE_ERROR` if a job cannot be looked up, since a list without it would be wrong.
pub fn list(store: &Store) -> Result<Vec<(Meta, JobStatus)>, Error> {
    let mut found: Vec<(Meta, JobStatus)> = Vec::new();
    if !store.exists()? {
        return Ok(found);
    }
    let unreadable = |error: io::Error| store.refused(&RefusedDirectory::Io(error));
    for entry in fs::read_dir(store.root()).map_err(unreadable)? {
        let Ok(name) = entry.map_err(unreadable)?.file_name().into_string() else { continue };
        if layout::is_unfinished(&name) {
            // Another process may be removing it too, or the disk may fail. The next listing tries again.
            let _ = leftover::sweep(&store.root().join(&name));
        } else {
            match store.find(&name).and_then(|job| attach(&job)) {
                Err(error) if error.code == Code::EngineError => return Err(error),
                // Not a job, or a directory of another user.
                attached => found.extend(attached.ok().flatten()),
            }
        }
    }
    found.sort_by(|(left, _), (right, _)| (&left.created_at, &left.job_id).cmp(&(&right.created_at, &right.job_id)));
    Ok(found)
}

/// A job, unless it was removed or its `meta.json` is missing or damaged.
///
/// # Errors
/// `ENGINE_ERROR` if it cannot be looked up.
pub fn attach(job: &Job) -> Result<Option<(Meta, JobStatus)>, Error> {
    let look = || -> Result<_, Error> {
        let Some(meta) = job.meta()? else { return Ok(None) };
        Ok(Some((meta, status(job)?)))
    };
    match look() {
        Err(error) if error.code == Code::JobNotFound => Ok(None),
        found => found,
    }
}
