//! Removing a job's directory.

use super::cancel;
use super::status::status;
use super::store::{Job, Store};
use crate::error::{Code, Error};
use nacre_containment::job::layout;
use std::fs;
use std::io;

/// Removes a job that is over. Under another name first: a job that can be seen is whole.
///
/// # Errors
/// `JOB_NOT_FOUND`, `JOB_RUNNING`, `STATE_DIR_UNAVAILABLE`.
pub async fn remove(store: &Store, job: &Job) -> Result<(), Error> {
    job.check_trust()?;
    // A directory without a job in it is removed as well.
    if status(job).is_ok_and(|status| status.alive) {
        return Err(Error::new(Code::JobRunning, format!("job '{}' still runs: cancel it first", job.id)));
    }
    if let Some(own) = job.meta().and_then(|meta| meta.own).filter(|own| own.is_of_this_boot()) {
        cancel::sweep(job, &own).await;
    }
    let aside = layout::unfinished(store.root(), &job.id);
    let gone = match fs::rename(&job.directory, &aside) {
        Ok(()) => fs::remove_dir_all(&aside),
        Err(_) => fs::remove_dir_all(&job.directory),
    };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let message = format!("the directory of job '{}' can not be removed: {error}", job.id);
            Err(Error::new(Code::StateDirUnavailable, message))
        }
        _ => Ok(()),
    }
}
