//! The state directory, and unnamed files in it.
//!
//! Such a file never has a name that outlives the call that opens it, so it disappears however this process ends. If
//! the file system does not support O_TMPFILE, the file has a name briefly. The next call removes files of processes
//! that were killed at that point.

use crate::blocking::Turns;
use crate::error::{Code, Error};
use crate::private_directory;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Prefix of a file's temporary name.
const NAME: &str = "log-";

/// How long the state directory may take to be inspected.
const ANSWER: Duration = Duration::from_secs(1);

/// A sandbox's state directory.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    turns: Turns,
    /// It could be used when it was inspected. Each file that is created checks it again.
    is_checked: AtomicBool,
}

impl StateDirectory {
    /// Looks at nothing.
    pub fn new(path: PathBuf) -> Self {
        Self { turns: Turns::of(&path), path, is_checked: AtomicBool::new(false) }
    }

    /// Checks, once, that the directory can hold logs. The first log that needs it creates it.
    ///
    /// # Errors
    /// `STATE_DIR_UNAVAILABLE` if other users can change it, or it does not respond.
    pub async fn check(self: &Arc<Self>) -> Result<(), Error> {
        if self.is_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let directory = Arc::clone(self);
        let check = move || private_directory::check(&directory.path).map_err(|why| directory.refusal(&why));
        // A check that is given up goes on, and keeps its turn. So those of a directory that hangs take few threads.
        match timeout(ANSWER, self.turns.run(check)).await {
            Ok(checked) => checked.map(|_| self.is_checked.store(true, Ordering::Relaxed)),
            Err(_) => Err(self.refusal(&"it does not respond")),
        }
    }

    /// The turns of work on the directory.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    fn refusal(&self, why: &dyn Display) -> Error {
        let message = format!("stateDir '{}' cannot be used: {why}", self.path.display());
        Error::new(Code::StateDirUnavailable, message)
    }

    /// Creates an unnamed file of mode 0600 in the directory, which is created if missing. May block.
    pub fn open(&self) -> io::Result<File> {
        private_directory::create(&self.path)?;
        open_unnamed(&self.path)
    }
}

fn open_unnamed(directory: &Path) -> io::Result<File> {
    match private().custom_flags(libc::O_TMPFILE).open(directory) {
        // EOPNOTSUPP: the file system does not support it. EISDIR: the kernel does not.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => open_unlinked(directory),
        result => result,
    }
}

/// Does the same without O_TMPFILE: the file has a name for a moment.
fn open_unlinked(directory: &Path) -> io::Result<File> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    sweep(directory);
    let name = format!("{NAME}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = directory.join(name);
    let file = private().create_new(true).open(&path)?;
    match std::fs::remove_file(&path) {
        // Another process has swept the file.
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(file),
    }
}

/// Removes files of processes that died between creating a file and removing its name.
///
/// Nothing is written before the name is removed, and a live process keeps its descriptor, so it loses nothing either.
/// There is no need to guess from a pid whether the process is alive.
fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(is_name);
        let is_empty = || entry.metadata().is_ok_and(|info| info.is_file() && info.len() == 0);
        if is_ours && is_empty() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// True for `log-<pid>-<count>`.
fn is_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-'));
    numbers.is_some_and(|(pid, count)| is_number(pid) && is_number(count))
}

fn private() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn checks_of_a_directory_that_does_not_respond_leave_threads_for_others() {
        let builder = || tokio::runtime::Builder::new_current_thread();
        let runtime = builder().enable_time().max_blocking_threads(33).build().unwrap();
        let root = tempfile::tempdir().unwrap();
        runtime.block_on(async {
            let slow = Arc::new(StateDirectory::new(root.path().join("slow")));
            let (release, hang) = std::sync::mpsc::channel::<()>();
            let hang = Arc::new(std::sync::Mutex::new(hang));
            let hanging: Vec<_> = (0..32)
                .map(|_| {
                    let (turns, hang) = (slow.turns().clone(), Arc::clone(&hang));
                    let wait = move || {
                        drop(hang.lock().map(|hang| hang.recv()));
                        Ok(())
                    };
                    tokio::spawn(async move { turns.run(wait).await })
                })
                .collect();
            tokio::task::yield_now().await;
            let checks: Vec<_> =
                (0..4).map(|_| Arc::clone(&slow)).map(|slow| tokio::spawn(async move { slow.check().await })).collect();
            for check in checks {
                let refused = check.await.unwrap().unwrap_err();
                assert_eq!(refused.code, Code::StateDirUnavailable);
                assert!(refused.message.contains("does not respond"), "{refused}");
            }
            let other = Arc::new(StateDirectory::new(root.path().join("other")));
            other.check().await.unwrap();
            drop(release);
            for one in hanging {
                one.await.unwrap().unwrap();
            }
            slow.check().await.unwrap();
        });
    }

    #[test]
    fn the_file_is_private_and_has_no_name() {
        for open in [open_unnamed, open_unlinked] {
            let directory = tempfile::tempdir().unwrap();
            let file = open(directory.path()).unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!((metadata.mode() & 0o777, metadata.nlink()), (0o600, 0));
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn empty_files_of_dead_processes_are_swept_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["log-999999-0", "log-1-1", "log-1-x", "log-", "notes"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::fs::write(at("log-7-7"), "text").unwrap();
        std::fs::create_dir(at("log-8-8")).unwrap();
        std::os::unix::fs::symlink(at("notes"), at("log-9-9")).unwrap();
        open_unlinked(directory.path()).unwrap();
        let mut left: Vec<String> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["log-", "log-1-x", "log-7-7", "log-8-8", "log-9-9", "notes"]);
    }
}
