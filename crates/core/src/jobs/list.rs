//! Lists all jobs of a root.

use super::status::{Status, status};
use super::store::{Job, Store};
use crate::error::Error;
use nacre_containment::job::meta::Meta;
use nacre_containment::job::{layout, leftover};
use std::fs;

/// Lists all jobs that can be attached to, in start order. Also removes leftovers of interrupted starts and removals; a
/// directory that is not provably a leftover stays ([`leftover`]).
///
/// # Errors
/// `STATE_DIR_UNAVAILABLE`.
pub fn list(store: &Store) -> Result<Vec<(Meta, Status)>, Error> {
    let mut found: Vec<(Meta, Status)> = Vec::new();
    if !store.exists()? {
        return Ok(found);
    }
    for entry in fs::read_dir(store.root()).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if layout::is_unfinished(&name) {
            // Another process may be removing it too, or the disk may fail. The next listing tries again.
            let _ = leftover::sweep(&entry.path());
        } else if let Ok(job) = store.find(&name) {
            found.extend(attach(&job));
        }
    }
    found.sort_by(|(left, _), (right, _)| (&left.created_at, &left.job_id).cmp(&(&right.created_at, &right.job_id)));
    Ok(found)
}

/// A job, unless its `meta.json` is missing or damaged.
pub fn attach(job: &Job) -> Option<(Meta, Status)> {
    let meta = job.meta().ok()??;
    let status = status(job).ok()?;
    Some((meta, status))
}
