//! A call reaches the job that it has found, and never a later one with the same id.
//!
//! Every call opens the directory of its job once. So a call that was overtaken by a removal and a new start is a call
//! with a directory that was opened before them.

use super::list::attach;
use super::reader::read;
use super::remove::remove;
use super::status::status;
use super::store::{Job, Store};
use crate::error::{Code, Error};
use nacre_containment::job::layout::{EXIT, META, OUTPUT};
use nacre_containment::job::lock;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Of a group without processes.
const DESCRIPTION: &str = r#"{"jobId":"j","pgid":2147483646,"outputFile":"o","exitFile":"e","dir":"/"}"#;

/// A root with the job `j`, which has ended.
struct Place {
    root: TempDir,
    store: Store,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(root.path());
        let place = Self { root, store };
        place.make("old\n");
        place
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("j")
    }

    /// Makes the directory of the job, which is complete before it gets its name.
    fn make(&self, output: &str) {
        let unfinished = self.root.path().join("~new");
        fs::create_dir(&unfinished).unwrap();
        for (name, text) in [(META, DESCRIPTION), (OUTPUT, output), (EXIT, "0\n")] {
            fs::write(unfinished.join(name), text).unwrap();
        }
        fs::rename(unfinished, self.path()).unwrap();
    }

    /// Removes the job like another program.
    fn clear(&self) {
        let aside = self.root.path().join("~old");
        fs::rename(self.path(), &aside).unwrap();
        fs::remove_dir_all(aside).unwrap();
    }

    fn find(&self) -> Job {
        self.store.find("j").unwrap()
    }

    fn output(&self) -> String {
        fs::read_to_string(self.path().join(OUTPUT)).unwrap()
    }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

#[test]
fn a_call_on_a_job_that_was_replaced_does_not_reach_the_new_one() {
    let place = Place::new();
    let job = place.find();
    assert_eq!(read(&job, 0, 100).unwrap().bytes, b"old\n");
    assert!(attach(&job).unwrap().is_some());
    place.clear();
    for _ in ["without a new job", "with a new job"] {
        assert!(attach(&job).unwrap().is_none());
        let refused: [Result<(), Error>; 3] =
            [status(&job).map(drop), read(&job, 0, 100).map(drop), run(remove(&place.store, &job))];
        for outcome in refused {
            assert_eq!(outcome.unwrap_err().code, Code::JobNotFound);
        }
        if !place.path().exists() {
            place.make("new\n");
        }
    }
    assert_eq!(place.output(), "new\n");
}

/// What a read finds while a removal deletes file after file is half of the truth.
#[test]
fn a_read_beside_a_removal_returns_the_whole_truth_or_no_job() {
    for deleted in [&[][..], &[OUTPUT], &[EXIT], &[OUTPUT, EXIT], &[OUTPUT, EXIT, META]] {
        let place = Place::new();
        let job = place.find();
        let aside = place.root.path().join("~old");
        fs::rename(place.path(), &aside).unwrap();
        for name in deleted {
            fs::remove_file(aside.join(name)).unwrap();
        }
        assert_eq!(status(&job).unwrap_err().code, Code::JobNotFound, "{deleted:?}");
        assert_eq!(read(&job, 0, 100).map(|slice| slice.bytes).unwrap_err().code, Code::JobNotFound, "{deleted:?}");
        assert!(attach(&job).unwrap().is_none(), "{deleted:?}");
    }
}

#[test]
fn of_two_removals_the_second_leaves_the_next_job_alone() {
    let place = Place::new();
    let job = place.find();
    let first = lock::take(place.root.path()).unwrap().unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| run(remove(&place.store, &job)));
        // It has seen that the job has ended, and waits for its turn.
        let give_up = Instant::now() + Duration::from_secs(20);
        while count_open(place.root.path()) < 2 {
            assert!(Instant::now() < give_up && !second.is_finished(), "the removal does not wait for its turn");
            thread::yield_now();
        }
        place.clear();
        place.make("new\n");
        lock::release(&first);
        assert_eq!(second.join().unwrap().unwrap_err().code, Code::JobNotFound);
    });
    assert_eq!(place.output(), "new\n");
}

/// How many descriptors of this process are of this directory.
fn count_open(directory: &Path) -> usize {
    let inode = fs::metadata(directory).unwrap().ino();
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    descriptors.filter(|entry| fs::metadata(entry.path()).is_ok_and(|found| found.ino() == inode)).count()
}
