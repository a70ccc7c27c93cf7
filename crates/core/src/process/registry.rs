//! The processes of a sandbox, by id and in start order.

use super::Process;
use crate::error::{Code, Error};
use crate::exec::By;
use nacre_containment::lock::Lock;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// How long an ended process with `auto_cleanup` is kept.
const KEPT: Duration = Duration::from_secs(60);
/// Maximum number of such processes.
const MOST_KEPT: usize = 1000;
/// Maximum bytes of their logs. The logs of the newest few are always kept.
const MOST_KEPT_BYTES: u64 = 64 * 1024 * 1024;
const ALWAYS_KEPT: usize = 100;

/// See the module.
#[derive(Default)]
pub struct Registry {
    all: Lock<VecDeque<Arc<Process>>>,
    /// The commands that are no processes, by their numbers: those that run, and ended ones with a log.
    commands: Lock<BTreeMap<u64, Arc<Process>>>,
    /// The sandbox was destroyed.
    over: AtomicBool,
}

impl Registry {
    /// Adds a process. It takes the place of one of an earlier sandbox.
    ///
    /// # Errors
    /// `PROCESS_ALREADY_EXISTS`.
    pub fn add(&self, process: Arc<Process>) -> Result<(), Error> {
        let mut all = self.all.lock();
        tidy(&mut all, SystemTime::now());
        all.retain(|other| !other.is_restored || other.id != process.id);
        if all.iter().any(|other| other.id == process.id) {
            let message = format!("process '{}' already exists; choose another id", process.id);
            return Err(Error::new(Code::ProcessAlreadyExists, message));
        }
        all.push_back(process);
        Ok(())
    }

    /// Adds a command, which is not listed. Forgets the oldest logs of ended ones, of which callers may keep any number.
    pub fn add_command(&self, command: Arc<Process>) {
        let mut commands = self.commands.lock();
        if command.keeps_log {
            let mut kept = kept(commands.values().rev(), |_| true);
            commands.retain(|_, _| kept.pop().unwrap_or(true));
        }
        commands.insert(command.number, command);
    }

    /// Forgets a command.
    pub fn forget_command(&self, number: u64) {
        self.commands.lock().remove(&number);
    }

    /// Lists all processes.
    pub fn all(&self) -> Vec<Arc<Process>> {
        let mut all = self.all.lock();
        tidy(&mut all, SystemTime::now());
        all.iter().cloned().collect()
    }

    /// Finds the present process with this id.
    pub fn find(&self, id: &str) -> Option<Arc<Process>> {
        self.all.lock().iter().find(|process| process.id == id).cloned()
    }

    /// Finds a process by its number. After it was forgotten, another process can have its id, which is for messages.
    ///
    /// # Errors
    /// `PROCESS_NOT_FOUND`; `SANDBOX_DESTROYED` after [`Registry::clear`].
    pub fn get(&self, number: u64, id: &str) -> Result<Arc<Process>, Error> {
        let found = self.all.lock().iter().find(|process| process.number == number).cloned();
        found.or_else(|| self.commands.lock().get(&number).cloned()).ok_or_else(|| {
            match self.over.load(Ordering::Relaxed) {
                true => Error::sandbox_destroyed(),
                false => Error::new(
                    Code::ProcessNotFound,
                    format!("there is no process '{id}'; list the processes to see their ids"),
                ),
            }
        })
    }

    /// The processes of a session that have not ended.
    pub fn living_of(&self, session: &str) -> Vec<Arc<Process>> {
        let all = self.all.lock();
        all.iter().filter(|process| process.session.id() == session && process.life().end.is_none()).cloned().collect()
    }

    /// The ids of the processes that have not ended, the oldest first.
    pub fn living(&self) -> Vec<String> {
        let all = self.all.lock();
        all.iter().filter(|process| process.life().end.is_none()).map(|process| process.id.clone()).collect()
    }

    /// Records that one session, or every session, is being ended, as the reason for the end of its processes.
    pub fn end_with(&self, session: Option<&str>) {
        let all = self.all.lock();
        let with_it = |process: &&Arc<Process>| session.is_none_or(|id| process.session.id() == id);
        all.iter().filter(with_it).for_each(|process| process.doom(By::Session.into(), libc::SIGTERM));
    }

    /// Forgets a process in any state.
    pub fn remove(&self, process: &Arc<Process>) {
        self.all.lock().retain(|other| !Arc::ptr_eq(other, process));
    }

    /// Forgets the processes with these ids that have ended. Returns how many.
    pub fn forget(&self, ids: &HashSet<String>) -> usize {
        let mut all = self.all.lock();
        let before = all.len();
        all.retain(|process| process.life().end.is_none() || !ids.contains(&process.id));
        before - all.len()
    }

    /// Forgets all processes: the sandbox was destroyed.
    pub fn clear(&self) {
        let mut all = self.all.lock();
        self.over.store(true, Ordering::Relaxed);
        all.clear();
        self.commands.lock().clear();
    }
}

/// Forgets ended processes with `auto_cleanup`: those that are too old, and those beyond the newest.
fn tidy(all: &mut VecDeque<Arc<Process>>, now: SystemTime) {
    // A process that ended after `now` has no age yet.
    let mut kept = kept(all.iter().rev(), |at| now.duration_since(at).map_or(true, |age| age < KEPT));
    all.retain(|_| kept.pop().unwrap_or(true));
}

/// Which to keep, from the newest to the oldest: all that run, and the newest ended ones that are young by their end.
/// `retain` iterates the other way, and takes the decisions from the end.
fn kept<'a>(newest_first: impl Iterator<Item = &'a Arc<Process>>, is_young: impl Fn(SystemTime) -> bool) -> Vec<bool> {
    let (mut count, mut bytes) = (0, 0);
    newest_first
        .map(|process| {
            let Some((_, at)) = process.life().end.filter(|_| process.auto_cleanup) else { return true };
            count += 1;
            bytes += process.log.kept();
            is_young(at) && count <= MOST_KEPT && (bytes <= MOST_KEPT_BYTES || count <= ALWAYS_KEPT)
        })
        .collect()
}
