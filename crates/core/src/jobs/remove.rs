//! Removes a job's directory.

use super::cancel;
use super::status::{Record, State, Status, status};
use super::store::{Job, Store};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use nacre_containment::job::record::Reason;
use nacre_containment::job::{layout, leftover, lock};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long to wait for processes that a timeout or a cancel has killed, which may exit later than the command.
const LEAVING: Duration = Duration::from_secs(1);

/// Removes a job that has ended. Renames it first: a visible job is always complete.
///
/// # Errors
/// `JOB_NOT_FOUND`, `JOB_RUNNING`, `STATE_DIR_UNAVAILABLE`.
pub async fn remove(store: &Store, job: &Job) -> Result<(), Error> {
    let give_up = Instant::now() + LEAVING;
    loop {
        let looked = job.clone();
        match blocking(move || Ok(life(&looked))).await? {
            Life::Over => break,
            Life::Ending if Instant::now() <= give_up => sleep(Duration::from_millis(10)).await,
            _ => return Err(running(job)),
        }
    }
    let looked = job.clone();
    // An unreadable meta.json does not name a group to clean up.
    let own = blocking(move || Ok(looked.meta().ok().flatten().and_then(|meta| meta.own))).await?;
    if let Some(own) = own.filter(|own| own.is_of_this_boot()) {
        cancel::sweep(job, &own).await?;
    }
    let (store, job) = (store.clone(), job.clone());
    blocking(move || delete(&store, &job)).await
}

fn running(job: &Job) -> Error {
    Error::new(Code::JobRunning, format!("job '{}' is still running: cancel it first", job.id))
}

/// Deletes the directory. Holds its lock meanwhile: otherwise a start with the same id would find a leftover, and this
/// deletion could reach the new job's files.
fn delete(store: &Store, job: &Job) -> Result<(), Error> {
    let begun = Instant::now();
    let _lock = loop {
        match lock::take(&job.directory) {
            Ok(Some(lock)) if leftover::is_same(&lock, &job.directory) => break Some(lock),
            Ok(Some(_)) => {}
            // Its supervisor is about to exit.
            Ok(None) if begun.elapsed() < LEAVING => std::thread::sleep(Duration::from_millis(1)),
            Ok(None) => return Err(running(job)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) => break None,
        }
    };
    let aside = layout::unfinished(store.root(), &job.id);
    // Without the mark (full disk), an interrupted removal leaves files behind. That is no reason to reject the
    // removal.
    let _ = leftover::mark(&job.directory);
    let renamed = loop {
        match rename_to_nothing(&job.directory, &aside) {
            // A start with this id is about to find that the job exists.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && begun.elapsed() < LEAVING => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => break other,
        }
    };
    let gone = match renamed {
        Ok(()) => leftover::remove(&aside),
        Err(_) => leftover::remove(&job.directory),
    };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let message = format!("the directory of job '{}' in jobsRoot cannot be removed: {error}", job.id);
            Err(Error::new(Code::StateDirUnavailable, message))
        }
        _ => Ok(()),
    }
}

/// Renames a file, unless there is one with the new name: rename(2) would replace the empty directory of a start.
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    let [from, to] = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (from, to) = (from?, to?);
    let here = libc::AT_FDCWD;
    // SAFETY: both paths outlive the call.
    let done =
        unsafe { libc::syscall(libc::SYS_renameat2, here, from.as_ptr(), here, to.as_ptr(), libc::RENAME_NOREPLACE) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The state of a job, as far as its removal depends on it.
enum Life {
    Running,
    /// The remaining processes are being killed.
    Ending,
    Over,
}

/// The state of a job. A directory without a job can be removed too, unless a supervisor holds its lock.
fn life(job: &Job) -> Life {
    match status(job) {
        Ok(status) if !status.alive => Life::Over,
        Ok(status) if is_being_ended(&status) => Life::Ending,
        Ok(_) => Life::Running,
        Err(_) if lock::is_held(&job.directory) => Life::Running,
        Err(_) => Life::Over,
    }
}

/// Whether the remaining processes are being killed. Background processes of an exited command are not.
fn is_being_ended(status: &Status) -> bool {
    let State::Exited(Record { end: Some(end), .. }) = &status.state else { return false };
    !matches!(end.reason, Reason::Exit | Reason::Signal)
}
