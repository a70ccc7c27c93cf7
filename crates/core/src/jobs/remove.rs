//! Removes a job's directory.

use super::cancel;
use super::status::{JobState, JobStatus, Record, status};
use super::store::{Job, Store, unknown};
use crate::error::{Code, Error};
use nacre_containment::job::record::Reason;
use nacre_containment::job::{layout, leftover, lock};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long to wait for processes that a timeout or a cancel has killed, which may exit later than the command.
const LEAVING: Duration = Duration::from_secs(1);
/// How long to wait for other removals, each of which takes the root for one rename.
const BUSY: Duration = Duration::from_secs(5);

/// Removes a job that has ended. Renames it first: a visible job is always complete.
///
/// # Errors
/// `JOB_NOT_FOUND`, `JOB_RUNNING`, `STATE_DIR_UNAVAILABLE`; `ENGINE_ERROR` if it cannot be looked up.
pub async fn remove(store: &Store, job: &Job) -> Result<(), Error> {
    let give_up = Instant::now() + LEAVING;
    loop {
        match job.blocking(life).await? {
            RemovedLife::Over => break,
            RemovedLife::Ending if Instant::now() <= give_up => sleep(Duration::from_millis(10)).await,
            _ => return Err(running(job)),
        }
    }
    let own = job.blocking(|job| match job.meta() {
        // A damaged meta.json does not name a group to clean up.
        Err(error) if error.code == Code::JobNotFound => Ok(None),
        meta => Ok(meta?.and_then(|meta| meta.own)),
    });
    if let Some(own) = own.await?
        && !cancel::sweep(job, &own).await?
    {
        return Err(running(job));
    }
    let store = store.clone();
    job.blocking(move |job| delete(&store, job)).await
}

fn running(job: &Job) -> Error {
    Error::new(Code::JobRunning, format!("job '{}' is still running: cancel it first", job.id))
}

/// Renames the directory and deletes it.
///
/// The race with another removal and a start of the same id: the path may lead to the new job. So removals take turns by
/// the lock of the root, and each first checks that the directory which it has opened is still in its place. Only a
/// removal takes it from there. The deletion uses the open directory.
fn delete(store: &Store, job: &Job) -> Result<(), Error> {
    let failed = |error: io::Error| {
        let message = format!("the directory of job '{}' in jobsRoot cannot be removed: {error}", job.id);
        Error::new(Code::StateDirUnavailable, message)
    };
    let inode = job.directory.metadata().map_err(|error| unknown(&job.id, &error))?.ino();
    let aside = layout::removed(store.root(), inode);
    let root = lock::open(store.root()).map_err(failed)?;
    let begun = Instant::now();
    while !lock::try_lock(&root).map_err(failed)? {
        if begun.elapsed() > BUSY {
            return Err(failed(io::Error::other("another program is removing a job")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let renamed = job.still_there().and_then(|()| {
        // Without the mark (full disk), an interrupted removal leaves files behind. That is no reason to reject the
        // removal.
        let _ = leftover::mark(&job.directory);
        fs::rename(&job.path, &aside).map_err(failed)
    });
    lock::release(&root);
    renamed?;
    leftover::remove(&job.directory, &aside).map_err(failed)
}

/// The state of a job, as far as its removal depends on it.
enum RemovedLife {
    Running,
    /// The remaining processes are being killed.
    Ending,
    Over,
}

/// The state of a job. A directory without a job can be removed too, unless something holds its lock. What cannot be
/// looked up may be running.
fn life(job: &Job) -> Result<RemovedLife, Error> {
    Ok(match status(job) {
        Ok(status) if !status.alive => RemovedLife::Over,
        Ok(status) if is_being_ended(&status) => RemovedLife::Ending,
        Ok(_) => RemovedLife::Running,
        Err(error) if error.code != Code::JobNotFound => return Err(error),
        Err(_) if lock::is_held(&job.directory).map_err(|error| unknown(&job.id, &error))? => RemovedLife::Running,
        Err(_) => RemovedLife::Over,
    })
}

/// Whether the remaining processes are being killed. Background processes of an exited command are not.
fn is_being_ended(status: &JobStatus) -> bool {
    let JobState::Exited(Record { end: Some(end), .. }) = &status.state else { return false };
    !matches!(end.reason, Reason::Exit | Reason::Signal)
}
