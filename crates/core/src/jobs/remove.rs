//! Removing a job's directory.

use super::cancel;
use super::status::{Record, State, Status, status};
use super::store::{Job, Store};
use crate::error::{Code, Error};
use nacre_containment::job::layout;
use nacre_containment::job::record::Reason;
use std::fs;
use std::io;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What a timeout or a cancel has killed together with the command may take a moment longer to go.
const LEAVING: Duration = Duration::from_secs(1);

/// Removes a job that is over. Under another name first: a job that can be seen is whole.
///
/// # Errors
/// `JOB_NOT_FOUND`, `JOB_RUNNING`, `STATE_DIR_UNAVAILABLE`.
pub async fn remove(store: &Store, job: &Job) -> Result<(), Error> {
    job.check_trust()?;
    let give_up = Instant::now() + LEAVING;
    // A directory without a job in it is removed as well.
    while let Some(status) = status(job).ok().filter(|status| status.alive) {
        if !is_being_ended(&status) || Instant::now() > give_up {
            return Err(Error::new(Code::JobRunning, format!("job '{}' still runs: cancel it first", job.id)));
        }
        sleep(Duration::from_millis(10)).await;
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

/// Whether what is left is being killed. What a command that has exited left in the background is not.
fn is_being_ended(status: &Status) -> bool {
    let State::Exited(Record { end: Some(end), .. }) = &status.state else { return false };
    !matches!(end.reason, Reason::Exit | Reason::Signal)
}
