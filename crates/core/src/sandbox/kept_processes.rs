//! The background processes of a sandbox that is kept. The next sandbox lists them, with their logs, as far as they are not
//! forgotten: those that ran when this program ended as lost.

use crate::blocking::blocking;
use crate::exec::KillPolicy;
use crate::process::{Birth, Exit, Owner, Process, ProcessLife, Reason, Registry};
use crate::process_log::{LogCopy, ProcessLog, StateDirectory};
use nacre_containment::lock::Lock;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::tree::Tree;
use nacre_keep::Kept;
use nacre_protocol::message;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The format of [`ProcessEntry`]. Raise it with every change.
const FORMAT: u32 = 1;

/// What is written of a process.
#[derive(Serialize, Deserialize)]
struct ProcessEntry {
    format: u32,
    id: String,
    session: String,
    command: String,
    pid: i32,
    /// Milliseconds since the epoch.
    began: u64,
    /// `None` while it runs.
    end: Option<(Exit, u64)>,
    killed_by: Option<crate::exec::KilledBy>,
    auto_cleanup: bool,
    log_limit: u64,
    definition: Option<String>,
}

/// The hashes of what was written, by the numbers of processes. `None`: only on the disk so far.
type Written = Lock<BTreeMap<u64, Option<u64>>>;

/// The session of a process that has ended with its program.
struct EndedSession(String);

impl Owner for EndedSession {
    fn id(&self) -> &str {
        &self.0
    }

    fn kill_process(&self, _: u64, _: KillPolicy) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        Box::pin(std::future::ready(false))
    }

    fn signal_process(&self, _: u64, _: i32) {}
}

impl ProcessEntry {
    /// `None` for a process that has not started.
    fn of(process: &Process) -> Option<Self> {
        let ProcessLife { birth, end, killed_by } = process.life();
        let birth = birth?;
        Some(Self {
            format: FORMAT,
            id: process.id.clone(),
            session: process.session.id().into(),
            command: process.command.clone(),
            pid: birth.pid.raw(),
            began: milliseconds(birth.at),
            end: end.map(|(exit, at)| (exit, milliseconds(at))),
            killed_by,
            auto_cleanup: process.auto_cleanup,
            log_limit: process.log.limit(),
            definition: process.definition.clone(),
        })
    }

    /// The process as it is now: it has ended.
    fn restore(self, log: ProcessLog) -> Option<Process> {
        let Self { id, session, command, pid, began, end, killed_by, auto_cleanup, definition, .. } = self;
        let pid = Pid::new(pid)?;
        // No process has begun at this time, so nothing belongs to the tree.
        let root = Identity { pid, start_ticks: 0 };
        let tree = Tree { root, group: None, mark: String::new(), guardian: pid, spare: Vec::new() };
        let lost = || (Exit { code: None, signal: None, reason: Reason::HostLost }, SystemTime::now());
        let end = end.map_or_else(lost, |(exit, at)| (exit, time(at)));
        let life = ProcessLife { birth: Some(Birth { pid, at: time(began), tree }), end: Some(end), killed_by };
        let session = Box::new(EndedSession(session));
        Some(Process::restored((id, command), session, log, auto_cleanup, definition, life))
    }
}

/// See the module.
pub(super) struct ProcessKeeper {
    written: Written,
    hash: RandomState,
    /// The number of the last state or process.
    numbers: Arc<AtomicU64>,
    files: Weak<Kept>,
}

impl ProcessKeeper {
    /// Goes on with what is kept: adds the processes of an earlier sandbox. What cannot be read is left out. May block.
    pub(super) fn new(files: &Arc<Kept>, last: u64, place: &Arc<StateDirectory>, processes: &Registry) -> Self {
        let written = Written::default();
        let mut highest = last;
        for (number, content) in files.processes().unwrap_or_default() {
            highest = highest.max(number);
            written.lock().insert(number, None);
            let entry = message::decode::<ProcessEntry>(&content).ok().filter(|entry| entry.format == FORMAT);
            let restored = entry.and_then(|entry| {
                let log = ProcessLog::of_copy(place, entry.log_limit, &files.read_log(number));
                entry.restore(log)
            });
            if let Some(process) = restored {
                let _ = process.kept_as.set(number);
                let _ = processes.add(Arc::new(process));
            }
        }
        let numbers = Arc::new(highest.into());
        Self { written, hash: RandomState::new(), numbers, files: Arc::downgrade(files) }
    }

    /// The number of the last state or process.
    pub(super) fn numbers(&self) -> &Arc<AtomicU64> {
        &self.numbers
    }

    /// Keeps a process that is about to start, and its output from now on.
    pub(super) fn begin(&self, process: &Process) {
        let Some(files) = self.files.upgrade() else { return };
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        files.begin_log(number);
        process.log.copy_to(LogCopy::new(Weak::clone(&self.files), number, process.log.limit()));
        let _ = process.kept_as.set(number);
        // If it is forgotten before it is written, its log is removed.
        self.written.lock().insert(number, None);
    }

    /// Writes what has changed of the processes, and removes what the sandbox has forgotten. `is_last`: also what waits to be
    /// copied. Returns what could not be written, which is tried again when the next process changes.
    pub(super) async fn write(&self, present: Vec<Arc<Process>>, is_last: bool) -> Vec<io::Error> {
        let Some(files) = self.files.upgrade() else { return Vec::new() };
        let (mut changed, mut logs) = (Vec::new(), Vec::new());
        let mut gone: Vec<u64> = self.written.lock().keys().copied().collect();
        for process in present {
            let Some(number) = process.kept_as.get().copied() else { continue };
            gone.retain(|other| *other != number);
            logs.extend(is_last.then(|| process.log.clone()));
            let Some(Ok(content)) = ProcessEntry::of(&process).map(|entry| message::encode(&entry)) else { continue };
            let sum = Some(self.hash.hash_one(&content));
            if self.written.lock().insert(number, sum) != Some(sum) {
                changed.push((number, content));
            }
        }
        self.written.lock().retain(|number, _| !gone.contains(number));
        if changed.is_empty() && gone.is_empty() && logs.is_empty() {
            return Vec::new();
        }
        let write = move || {
            logs.iter().for_each(ProcessLog::write_copy);
            gone.into_iter().for_each(|number| drop(files.remove_process(number)));
            let failed =
                |(number, content): (u64, Vec<u8>)| Some((number, files.write_process(number, &content).err()?));
            Ok(changed.into_iter().filter_map(failed).collect::<Vec<_>>())
        };
        let mut errors = Vec::new();
        for (number, error) in blocking(write).await.unwrap_or_default() {
            self.written.lock().insert(number, None);
            errors.push(error);
        }
        errors
    }
}

fn milliseconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn time(milliseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(milliseconds)
}
