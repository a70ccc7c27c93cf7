//! All jobs of a root.

use super::status::{Status, status};
use super::store::{Job, Store};
use nacre_containment::job::meta::Meta;
use nacre_containment::job::{layout, lock};
use std::fs;
use std::path::Path;

/// Everything that can be attached to, in the order of the starts. What a start that was cut short has left behind is
/// removed on the way.
pub fn list(store: &Store) -> Vec<(Meta, Status)> {
    let mut found: Vec<(Meta, Status)> = Vec::new();
    for entry in fs::read_dir(store.root()).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if layout::is_unfinished(&name) {
            sweep(&entry.path());
        } else if let Ok(job) = store.find(&name) {
            found.extend(attach(&job));
        }
    }
    found.sort_by(|(left, _), (right, _)| (&left.created_at, &left.job_id).cmp(&(&right.created_at, &right.job_id)));
    found
}

/// A job, unless its `meta.json` is missing or damaged.
pub fn attach(job: &Job) -> Option<(Meta, Status)> {
    let meta = job.meta()?;
    let status = status(job).ok()?;
    Some((meta, status))
}

/// Nobody holds the lock: whoever was at it is dead.
fn sweep(path: &Path) {
    if let Ok(Some(_lock)) = lock::take(path) {
        let _ = fs::remove_dir_all(path);
    }
}
