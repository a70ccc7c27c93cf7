//! The state of a job, determined from its record and its supervisor.
//!
//! The record is read, the supervisor is looked up, and the record is read again. If a job ends between the first two
//! steps, the third finds its record. `crashed` is therefore reported only if the supervisor died without a record,
//! never if it ended normally.

use super::foreign;
use super::store::{Job, not_found};
use crate::error::{Code, Error};
use nacre_containment::job::file;
use nacre_containment::job::layout::{END, EXIT, META};
use nacre_containment::job::lock;
use nacre_containment::job::meta::Meta;
use nacre_containment::job::record::{End, parse_exit};
use nacre_containment::proc_table;
use std::io;

/// The recorded end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// From the file `exit`.
    pub exit: i32,
    /// From `end.json`, which only nacre writes.
    pub end: Option<End>,
}

/// Whether the supervisor is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The supervisor is running.
    Alive,
    /// The supervisor was killed.
    Died,
    /// The system was rebooted.
    Rebooted,
}

/// The state of a job according to its directory and /proc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The current stage.
    pub state: State,
    /// True while any process of the job runs, including background processes that the command left behind.
    pub alive: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The command is running.
    Running,
    /// The command has ended.
    Exited(Record),
    /// The supervisor died without writing a record.
    Crashed(Life),
}

impl Status {
    /// True when the command itself has ended.
    pub fn is_over(&self) -> bool {
        self.state != State::Running
    }
}

/// Reads the current status.
///
/// # Errors
/// `JOB_NOT_FOUND` for a directory whose start did not finish, and if another kind of file is in place of a
/// job file.
pub fn status(job: &Job) -> Result<Status, Error> {
    let first = read_record(job)?;
    if let Some(record) = first.as_ref().filter(|record| record.end.as_ref().is_some_and(|end| !end.left_behind)) {
        return Ok(Status { state: State::Exited(record.clone()), alive: false });
    }
    let meta = job.meta()?;
    if meta.is_none() && first.is_none() && file::stat(&job.directory, META).is_none() {
        return Err(not_found(&job.id));
    }
    let life = life(job, meta.as_ref()).map_err(|error| {
        Error::new(Code::EngineError, format!("the supervisor of job '{}' cannot be looked up: {error}", job.id))
    })?;
    decide(first, life, || read_record(job))
}

fn decide(
    first: Option<Record>,
    life: Life,
    second: impl FnOnce() -> Result<Option<Record>, Error>,
) -> Result<Status, Error> {
    let alive = life == Life::Alive;
    let state = match first {
        Some(record) => State::Exited(record),
        None if alive => State::Running,
        None => second()?.map_or(State::Crashed(life), State::Exited),
    };
    Ok(Status { state, alive })
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

/// Whether the supervisor is alive: by its identity if that can be looked up, otherwise by the lock. It cannot be
/// looked up if `meta.json` is damaged or from another pid namespace, or if `/proc` hides processes of other users.
///
/// # Errors
/// Nothing is known, because this process has no descriptor left.
fn life(job: &Job, meta: Option<&Meta>) -> io::Result<Life> {
    let by_lock = || if lock::is_held(&job.directory) { Life::Alive } else { Life::Died };
    Ok(match meta.map(|meta| (meta, meta.own.as_ref())) {
        Some((_, Some(own))) if !own.is_of_this_boot() => Life::Rebooted,
        Some((_, Some(own))) if own.is_of_this_namespace() && proc_table::is_alive(own.identity())? => Life::Alive,
        Some((meta, None)) => {
            if foreign::members(meta, &job.directory).is_empty() {
                Life::Died
            } else {
                Life::Alive
            }
        }
        Some((_, Some(_))) | None => by_lock(),
    })
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
        let ended = decide(None, Life::Died, || Ok(Some(record(3)))).unwrap();
        assert_eq!(ended, Status { state: State::Exited(record(3)), alive: false });
        assert_eq!(decide(None, Life::Died, || Ok(None)).unwrap().state, State::Crashed(Life::Died));
        assert_eq!(decide(None, Life::Rebooted, || Ok(None)).unwrap().state, State::Crashed(Life::Rebooted));
    }

    #[test]
    fn a_live_job_is_not_asked_twice_and_what_it_left_behind_counts_as_alive() {
        let running = decide(None, Life::Alive, || panic!("not needed")).unwrap();
        assert_eq!(running, Status { state: State::Running, alive: true });
        let left = decide(Some(record(0)), Life::Alive, || panic!("not needed")).unwrap();
        assert_eq!(left, Status { state: State::Exited(record(0)), alive: true });
    }

    #[test]
    fn a_damaged_meta_leaves_the_record_and_the_lock() {
        let root = tempfile::tempdir().unwrap();
        let job = Job { id: "j".into(), directory: root.path().join("j") };
        fs::create_dir(&job.directory).unwrap();
        assert!(status(&job).is_err());
        fs::write(job.directory.join(META), "{\"jobId\":\"j\",\"pgi").unwrap();
        assert_eq!(status(&job).unwrap().state, State::Crashed(Life::Died));
        let held = lock::take(&job.directory).unwrap();
        assert_eq!(status(&job).unwrap().state, State::Running);
        fs::write(job.directory.join(EXIT), "").unwrap();
        assert_eq!(status(&job).unwrap().state, State::Running);
        fs::write(job.directory.join(EXIT), "7\n").unwrap();
        assert_eq!(status(&job).unwrap().state, State::Exited(record(7)));
        // Also while a parallel test forks.
        held.unwrap().unlock().unwrap();
        assert_eq!(status(&job).unwrap(), Status { state: State::Exited(record(7)), alive: false });
    }
}
