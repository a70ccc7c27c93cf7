//! The state of a job, determined from its record and its supervisor.
//!
//! The record is read, the lock is tested, and the record is read again. If a job ends between the first two steps, the
//! third finds its record. `crashed` is therefore reported only if the supervisor died without a record,
//! never if it ended normally.
//!
//! At last, the directory must still be in its place: then the job was complete for as long as it was read.

use super::foreign;
use super::store::{Job, not_found, unknown};
use crate::error::Error;
use nacre_containment::job::file;
use nacre_containment::job::layout::{END, EXIT, META};
use nacre_containment::job::lock;
use nacre_containment::job::meta::Meta;
use nacre_containment::job::record::{End, parse_exit};
use std::io;

/// The recorded end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// From the file `exit`.
    pub exit: i32,
    /// From `end.json`, which only nacre writes.
    pub end: Option<End>,
}

/// Whether the supervisor, or the guard of a killed one, is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobLife {
    /// It is running.
    Alive,
    /// The supervisor was killed.
    Died,
    /// The system was rebooted.
    Rebooted,
}

/// The state of a job according to its directory and /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The current stage.
    pub state: JobState,
    /// True while any process of the job runs, including background processes that the command left behind.
    pub alive: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// The command is running.
    Running,
    /// The command has ended.
    Exited(Record),
    /// The supervisor died without writing a record.
    Crashed(JobLife),
}

impl JobStatus {
    /// True when the command itself has ended.
    pub fn is_over(&self) -> bool {
        self.state != JobState::Running
    }
}

/// Reads the current status.
///
/// # Errors
/// `JOB_NOT_FOUND` for a directory whose start did not finish, for a job that is removed meanwhile, and if another kind
/// of file is in place of a job file; `ENGINE_ERROR` if anything cannot be read.
pub fn status(job: &Job) -> Result<JobStatus, Error> {
    let found = look(job)?;
    job.still_there()?;
    Ok(found)
}

fn look(job: &Job) -> Result<JobStatus, Error> {
    let first = read_record(job)?;
    if let Some(record) = first.as_ref().filter(|record| record.end.as_ref().is_some_and(|end| !end.left_behind)) {
        return Ok(JobStatus { state: JobState::Exited(record.clone()), alive: false });
    }
    let meta = job.meta()?;
    let has_meta = || file::stat(&job.directory, META).map_err(|reason| job.unreadable(META, &reason));
    if meta.is_none() && first.is_none() && has_meta()?.is_none() {
        return Err(not_found(&job.id));
    }
    let life = life(job, meta.as_ref()).map_err(|error| unknown(&job.id, &error))?;
    decide(first, life, || read_record(job))
}

fn decide(
    first: Option<Record>,
    life: JobLife,
    second: impl FnOnce() -> Result<Option<Record>, Error>,
) -> Result<JobStatus, Error> {
    let alive = life == JobLife::Alive;
    let state = match first {
        Some(record) => JobState::Exited(record),
        None if alive => JobState::Running,
        None => second()?.map_or(JobState::Crashed(life), JobState::Exited),
    };
    Ok(JobStatus { state, alive })
}

/// Reads `exit` and `end.json`. An `exit` without a number is still being written, by a program that does not rename.
fn read_record(job: &Job) -> Result<Option<Record>, Error> {
    let read = |name| {
        file::read(&job.directory, name, file::MOST_RECORD_BYTES).map_err(|reason| job.unreadable(name, &reason))
    };
    let Some(exit) = read(EXIT)?.and_then(|text| parse_exit(&text)) else { return Ok(None) };
    let end = read(END)?.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(Some(Record { exit, end }))
}

/// Whether the job is alive: by its lock, which its supervisor and its guard share. So it also counts as alive while the
/// guard of a killed supervisor ends what is left.
///
/// # Errors
/// Nothing is known, for example because this process has no descriptor left.
fn life(job: &Job, meta: Option<&Meta>) -> io::Result<JobLife> {
    let is_alive = match meta.map(|meta| (meta, meta.own.as_ref())) {
        Some((_, Some(own))) if !own.is_of_this_boot()? => return Ok(JobLife::Rebooted),
        Some((meta, None)) => foreign::is_alive(meta, &job.directory)?,
        Some((_, Some(_))) | None => lock::is_held(&job.directory)?,
    };
    Ok(if is_alive { JobLife::Alive } else { JobLife::Died })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn record(exit: i32) -> Record {
        Record { exit, end: None }
    }

    #[test]
    fn an_end_between_the_two_looks_is_no_crash() {
        let ended = decide(None, JobLife::Died, || Ok(Some(record(3)))).unwrap();
        assert_eq!(ended, JobStatus { state: JobState::Exited(record(3)), alive: false });
        assert_eq!(decide(None, JobLife::Died, || Ok(None)).unwrap().state, JobState::Crashed(JobLife::Died));
        assert_eq!(decide(None, JobLife::Rebooted, || Ok(None)).unwrap().state, JobState::Crashed(JobLife::Rebooted));
    }

    #[test]
    fn a_live_job_is_not_asked_twice_and_what_it_left_behind_counts_as_alive() {
        let running = decide(None, JobLife::Alive, || panic!("not needed")).unwrap();
        assert_eq!(running, JobStatus { state: JobState::Running, alive: true });
        let left = decide(Some(record(0)), JobLife::Alive, || panic!("not needed")).unwrap();
        assert_eq!(left, JobStatus { state: JobState::Exited(record(0)), alive: true });
    }

    #[test]
    fn a_damaged_meta_leaves_the_record_and_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("j");
        fs::create_dir(&path).unwrap();
        let job = Job::at(&path);
        assert!(status(&job).is_err());
        fs::write(path.join(META), "{\"jobId\":\"j\",\"pgi").unwrap();
        assert_eq!(status(&job).unwrap().state, JobState::Crashed(JobLife::Died));
        let held = lock::take(&path).unwrap().unwrap();
        assert_eq!(status(&job).unwrap().state, JobState::Running);
        fs::write(path.join(EXIT), "").unwrap();
        assert_eq!(status(&job).unwrap().state, JobState::Running);
        fs::write(path.join(EXIT), "7\n").unwrap();
        assert_eq!(status(&job).unwrap().state, JobState::Exited(record(7)));
        // Also while a parallel test forks.
        lock::release(&held);
        assert_eq!(status(&job).unwrap(), JobStatus { state: JobState::Exited(record(7)), alive: false });
    }
}
