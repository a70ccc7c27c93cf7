//! The record of this program in a state directory: its name in the marks of its processes.
//!
//! If the program and a supervisor are killed at the same moment, often nothing is left to clean up. The next program with
//! the same directory finds the record, kills what has its name, and removes its control groups. The record is a file that
//! is locked as long as its program lives (flock(2)), so no pid is compared, which could be reused or belong to another pid
//! namespace.
//!
//! The race: another program finds a record before it is locked. So the file gets its name afterwards.

use crate::private_directory;
use nacre_containment::cgroup;
use nacre_containment::job::lock;
use nacre_containment::lock::Lock;
use nacre_containment::session_mark::{self, Marks, Program};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Prefix of a record's name.
const NAME: &str = "program-";
/// Suffix while it is not locked.
const UNLOCKED: &str = ".new";
/// How often a record is written whose file another program has taken for a leftover.
const ATTEMPTS: u32 = 3;
/// How many entries of the directory are looked at.
const MOST_ENTRIES: usize = 10_000;
/// How many records of ended programs are held open at the same time.
const MOST_ENDED: usize = 64;
/// How long the directory may take to respond.
const ANSWER: Duration = Duration::from_secs(1);

/// The records of this program.
static RECORDS: Lock<BTreeMap<PathBuf, Weak<ProgramRecord>>> = Lock::new(BTreeMap::new());

/// See the module. Sandboxes with the same directory share it.
#[derive(Debug)]
pub struct ProgramRecord {
    /// The marks of this program's supervisors.
    pub marks: Arc<Marks>,
    directory: PathBuf,
    /// It is locked.
    file: Lock<Option<File>>,
    /// Whether it has been written, and the leftovers of ended programs killed.
    begun: watch::Receiver<bool>,
}

impl ProgramRecord {
    /// The record in a directory. The first one is written, and looks for leftovers, beside what the caller does.
    pub fn of(directory: &Path) -> Arc<Self> {
        let mut known = RECORDS.lock();
        known.retain(|_, record| record.strong_count() > 0);
        if let Some(record) = known.get(directory).and_then(Weak::upgrade) {
            return record;
        }
        let (done, begun) = watch::channel(false);
        let record =
            Arc::new(Self { marks: Arc::default(), directory: directory.into(), file: Lock::default(), begun });
        known.insert(directory.into(), Arc::downgrade(&record));
        let own = Arc::clone(&record);
        let begin = move || {
            if let Err(error) = own.begin() {
                tracing::debug!(directory = %own.directory.display(), "processes of ended programs may be left: {error}");
            }
            drop(own);
            done.send_replace(true);
        };
        let started = crate::runtime::spawn(async move { drop(tokio::task::spawn_blocking(begin).await) });
        if let Err(error) = started {
            tracing::debug!("this program is not recorded: {error}");
        }
        record
    }

    fn begin(&self) -> io::Result<()> {
        private_directory::create(&self.directory)?;
        let file = self.write()?;
        *self.file.lock() = Some(file);
        self.kill_leftovers()
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("{NAME}{}", self.marks.program))
    }

    fn write(&self) -> io::Result<File> {
        let path = self.path();
        let unlocked = self.directory.join(format!("{NAME}{}{UNLOCKED}", self.marks.program));
        for _ in 0..ATTEMPTS {
            let file = File::options().write(true).create_new(true).mode(0o600).open(&unlocked)?;
            match lock::try_lock(&file) {
                Ok(true) if fs::rename(&unlocked, &path).is_ok() => return Ok(file),
                _ => drop(fs::remove_file(&unlocked)),
            }
        }
        Err(io::Error::other("the record cannot be locked"))
    }

    fn kill_leftovers(&self) -> io::Result<()> {
        let ended = self.ended()?;
        let is_ended = |program: Program| ended.iter().any(|(one, ..)| *one == Some(program));
        if ended.iter().any(|(program, ..)| program.is_some()) {
            let killed = session_mark::kill_all(is_ended);
            cgroup::end_leftovers(|word| word.parse().is_ok_and(is_ended));
            killed?;
        }
        // Their locks are held until here, so no other program does the same.
        ended.iter().for_each(|(_, path, _)| drop(fs::remove_file(path)));
        Ok(())
    }

    /// The records of ended programs, with their locks; those of which only the file is left have no name.
    fn ended(&self) -> io::Result<Vec<(Option<Program>, PathBuf, File)>> {
        // A leftover of an ended program, in which this one runs, does not end itself.
        let own = session_mark::own()?;
        let mut ended = Vec::new();
        for entry in fs::read_dir(&self.directory)?.take(MOST_ENTRIES) {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            let Some(name) = name.to_str().and_then(|name| name.strip_prefix(NAME)) else { continue };
            let program = name.strip_suffix(UNLOCKED).unwrap_or(name).parse().ok();
            let Some(program) = program.filter(|program| *program != self.marks.program && Some(*program) != own)
            else {
                continue;
            };
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let Ok(file) = File::options().read(true).custom_flags(flags).open(&path) else { continue };
            if file.metadata()?.is_file() && lock::try_lock(&file)? {
                ended.push(((!name.ends_with(UNLOCKED)).then_some(program), path, file));
            }
            if ended.len() == MOST_ENDED {
                break;
            }
        }
        Ok(ended)
    }

    /// Removes the record when the last sandbox that uses it has ended.
    pub async fn end(self: Arc<Self>) {
        let mut begun = self.begun.clone();
        // An error means that nothing was begun.
        let _ = timeout(ANSWER, begun.wait_for(|begun| *begun)).await;
        if let Some(record) = Arc::into_inner(self) {
            let _ = timeout(ANSWER, tokio::task::spawn_blocking(move || record.remove())).await;
        }
    }

    fn remove(self) {
        // It stays locked until then.
        if self.file.lock().is_some() {
            let _ = fs::remove_file(self.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_containment::pid::Pid;
    use std::os::unix::fs::symlink;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    fn record(directory: &Path) -> ProgramRecord {
        let (_, begun) = watch::channel(true);
        ProgramRecord { marks: Arc::default(), directory: directory.into(), file: Lock::default(), begun }
    }

    fn process(marks: &Marks) -> Child {
        let mark = marks.next().unwrap();
        let mut command = Command::new("sleep");
        // SAFETY: two system calls.
        unsafe { command.arg("60").pre_exec(move || session_mark::take(mark)) };
        command.spawn().unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_an_ended_program_with_the_same_directory_has_left_is_killed() {
        let (directory, another) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [dead, live, own] = [(); 3].map(|()| record(directory.path()));
        let elsewhere = record(another.path());
        for record in [&dead, &live, &elsewhere] {
            *record.file.lock() = Some(record.write().unwrap());
        }
        let mut children = [&dead, &live, &own, &elsewhere].map(|record| process(&record.marks));
        for record in [&dead, &elsewhere] {
            *record.file.lock() = None;
        }
        own.begin().unwrap();
        children[0].wait().unwrap();
        assert!(children[1..].iter_mut().all(|child| child.try_wait().unwrap().is_none()));
        for child in &mut children[1..] {
            assert!(Pid::new(child.id() as i32).is_some());
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let mut left = [&live, &own].map(|record| format!("{NAME}{}", record.marks.program));
        left.sort();
        assert_eq!(names(directory.path()), left);
        own.remove();
        live.remove();
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn what_only_looks_like_a_record_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let mut kept = ["program-", "program-1", "program-8000000000x", "program-800000000g", "program.8000000000"];
        kept.iter().for_each(|name| fs::write(at(name), "").unwrap());
        symlink(at("program-1"), at("program-8000000001")).unwrap();
        fs::create_dir(at("program-8000000002")).unwrap();
        nix::unistd::mkfifo(&at("program-8000000003"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        // Its program has ended before it had locked it.
        fs::write(at("program-8000000004.new"), "").unwrap();
        record(directory.path()).kill_leftovers().unwrap();
        kept.sort();
        let mut expected: Vec<String> = kept.iter().map(ToString::to_string).collect();
        expected.extend((1..4).map(|number| format!("program-800000000{number}")));
        expected.sort();
        assert_eq!(names(directory.path()), expected);
    }

    /// A slow start of one program is no reason for another to end its processes.
    #[test]
    fn a_record_that_another_program_has_removed_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let (own, other) = (record(directory.path()), record(directory.path()));
        let unlocked = directory.path().join(format!("{NAME}{}{UNLOCKED}", own.marks.program));
        fs::write(&unlocked, "").unwrap();
        assert!(own.write().is_err());
        other.kill_leftovers().unwrap();
        assert!(own.write().is_ok());
    }
}
