//! The processes of a sandbox, by id and in the order of their starts.

use super::{Process, Reason};
use crate::error::{Code, Error};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How long an ended process with `auto_cleanup` can still be asked after.
const KEPT: Duration = Duration::from_secs(60);
/// So many of them are kept at most.
const MOST_KEPT: usize = 1000;
/// And so many bytes of their logs; but at least the logs of the newest few.
const MOST_KEPT_BYTES: u64 = 64 * 1024 * 1024;
const ALWAYS_KEPT: usize = 100;

/// See the module.
#[derive(Default)]
pub struct Registry(Mutex<VecDeque<Arc<Process>>>);

impl Registry {
    /// Adds a process.
    ///
    /// # Errors
    /// `PROCESS_ALREADY_EXISTS`.
    pub fn add(&self, process: Arc<Process>) -> Result<(), Error> {
        let mut all = self.lock();
        tidy(&mut all, SystemTime::now());
        if all.iter().any(|other| other.id == process.id) {
            let message = format!("there is a process '{}' already", process.id);
            return Err(Error::new(Code::ProcessAlreadyExists, message));
        }
        all.push_back(process);
        Ok(())
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Process>> {
        let mut all = self.lock();
        tidy(&mut all, SystemTime::now());
        all.iter().cloned().collect()
    }

    /// One of them.
    ///
    /// # Errors
    /// `PROCESS_NOT_FOUND`.
    pub fn find(&self, id: &str) -> Result<Arc<Process>, Error> {
        let found = self.lock().iter().find(|process| process.id == id).cloned();
        found.ok_or_else(|| Error::new(Code::ProcessNotFound, format!("there is no process '{id}'")))
    }

    /// Takes note that a session, or every one, is being ended: whatever its processes now end by, that is the reason.
    pub fn end_with(&self, session: Option<&str>) {
        let all = self.lock();
        let with_it = |process: &&Arc<Process>| session.is_none_or(|id| process.session.id() == id);
        all.iter().filter(with_it).for_each(|process| process.doom(Reason::Killed, libc::SIGTERM));
    }

    /// Forgets one, whatever has become of it.
    pub fn remove(&self, process: &Arc<Process>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, process));
    }

    /// Forgets those that have ended, all or the one with this id. How many.
    pub fn clean_up(&self, id: Option<&str>) -> usize {
        let mut all = self.lock();
        let before = all.len();
        all.retain(|process| process.life().end.is_none() || id.is_some_and(|id| process.id != id));
        before - all.len()
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Process>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets ended processes that nobody promised to ask after again: the old, and those beyond the newest ones.
fn tidy(all: &mut VecDeque<Arc<Process>>, now: SystemTime) {
    let (mut count, mut bytes) = (0, 0);
    // From the newest on; `retain` then goes from the oldest on, and takes the answers from the other end.
    let mut kept: Vec<bool> = all
        .iter()
        .rev()
        .map(|process| {
            let Some((_, at)) = process.life().end.filter(|_| process.auto_cleanup) else { return true };
            count += 1;
            bytes += process.log.kept();
            // One that has ended since `now` has no age yet.
            let is_young = now.duration_since(at).map_or(true, |age| age < KEPT);
            is_young && count <= MOST_KEPT && (bytes <= MOST_KEPT_BYTES || count <= ALWAYS_KEPT)
        })
        .collect();
    all.retain(|_| kept.pop().unwrap_or(true));
}
