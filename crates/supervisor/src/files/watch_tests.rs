//! A watch against a model: what its events say, one after the other, is what is there in the end.

use super::tests::{Helper, reply};
use crate::testing::own_process::{in_own_process, until};
use nacre_protocol::files::{Call, Event, FileChange, FilesReply};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

/// A watch, and the paths that exist according to its events.
struct Watched {
    connection: OwnedFd,
    paths: BTreeSet<String>,
    seen: Vec<Event>,
    is_over: bool,
    has_overflown: bool,
}

impl Watched {
    fn start(helper: &Helper, path: &str) -> Self {
        let connection = helper.call(Call::Watch { path: path.into(), recursive: true });
        assert_eq!(reply(&connection).0, FilesReply::Done);
        Self { connection, paths: BTreeSet::new(), seen: Vec::new(), is_over: false, has_overflown: false }
    }

    /// Takes the events that have arrived.
    fn take(&mut self) {
        while !self.is_over {
            let mut fds = [PollFd::new(self.connection.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::ZERO) != Ok(1) {
                return;
            }
            match reply(&self.connection).0 {
                FilesReply::Events(events) => events.into_iter().for_each(|event| self.apply(event)),
                other => self.is_over = other == FilesReply::Done,
            }
        }
    }

    /// Waits for changes, from this call on.
    fn until_seen(&mut self, are_these: impl Fn(&[FileChange]) -> bool) {
        let mut seen = Vec::new();
        until("the changes are seen", || {
            self.take();
            seen.extend(self.seen.drain(..).map(|event| event.change));
            are_these(&seen)
        });
    }

    fn apply(&mut self, event: Event) {
        let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
        let path = text(&event.path);
        match event.change {
            FileChange::Created => drop(self.paths.insert(path)),
            FileChange::Deleted => drop(self.remove(&path)),
            FileChange::Renamed => {
                let moved = self.remove(&text(event.old_path.as_deref().unwrap()));
                self.remove(&path);
                self.paths.extend(moved.into_iter().map(|rest| format!("{path}{rest}")));
                self.paths.insert(path);
            }
            FileChange::Modified => {}
            FileChange::Overflow => self.has_overflown = true,
        }
        self.seen.push(event);
    }

    /// Removes a path and everything below it; returns what follows the path in each of them.
    fn remove(&mut self, path: &str) -> Vec<String> {
        let rest = |other: &String| {
            let rest = other.strip_prefix(path)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_string())
        };
        let removed = self.paths.iter().filter_map(rest).collect();
        self.paths.retain(|other| rest(other).is_none());
        removed
    }

    /// Waits until the events agree with what is there.
    fn agree(&mut self, directory: &Path, what: &str) {
        let mut found = BTreeSet::new();
        find(directory, "", &mut found);
        if std::mem::take(&mut self.has_overflown) {
            // What was lost is looked up, once nothing from before comes any more.
            let marker = format!("marker-{}", self.seen.len());
            fs::write(directory.join(&marker), "").unwrap();
            until("the marker is seen", || {
                self.take();
                self.paths.contains(&marker)
            });
            found.insert(marker);
            self.paths = found;
            return;
        }
        let start = self.seen.len().saturating_sub(60);
        for _ in 0..1000 {
            self.take();
            if self.has_overflown {
                return self.agree(directory, what);
            }
            if self.paths == found {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let shown = |event: &Event| {
            let old = event.old_path.as_deref().unwrap_or_default().escape_ascii().to_string();
            format!("{:?} {} {old}", event.change, event.path.escape_ascii())
        };
        let last: Vec<String> = self.seen[start..].iter().map(shown).collect();
        let unseen: Vec<_> = found.difference(&self.paths).collect();
        let gone: Vec<_> = self.paths.difference(&found).collect();
        panic!("{what}: unseen {unseen:?}, gone {gone:?}\n{}", last.join("\n"));
    }
}

fn find(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            find(&entry.path(), &format!("{path}/"), found);
        }
        found.insert(path);
    }
}

/// A small generator of numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// A path of one to three names, of which few exist, so that calls meet.
    fn path(&mut self) -> String {
        let depth = 1 + self.below(3);
        let names: Vec<_> = (0..depth).map(|_| ["a", "b", "c", "d"][self.below(4) as usize]).collect();
        names.join("/")
    }
}

/// Makes a random change, which may fail. `outside` is a directory that is not watched.
fn change(random: &mut Random, root: &Path, outside: &Path) {
    let (one, other) = (root.join(random.path()), root.join(random.path()));
    let away = outside.join(["a", "b"][random.below(2) as usize]);
    match random.below(12) {
        0..=2 => drop(fs::create_dir(&one)),
        3 => drop(fs::create_dir_all(&one)),
        4 => drop(fs::write(&one, "text")),
        5 | 6 => drop(fs::rename(&one, &other)),
        // What installers do: a name is used again at once.
        7 => {
            let _ = fs::create_dir(root.join("t"));
            let _ = fs::write(root.join("t/f"), "");
            let _ = fs::rename(root.join("t"), &one);
        }
        8 => renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap_or_default(),
        9 => drop(fs::rename(&one, away)),
        10 => drop(fs::rename(away, &one)),
        _ => drop(fs::remove_dir_all(&one).or_else(|_| fs::remove_file(&one))),
    }
}

#[test]
fn a_storm_of_changes_is_seen() {
    let seed = std::env::var("NACRE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()) + 1);
    let rounds: u64 = std::env::var("NACRE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    in_own_process(|| {
        for seed in seed..seed + rounds {
            let helper = Helper::start();
            let (root, outside) = (helper.path("root"), helper.path("outside"));
            [&root, &outside].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
            let mut watched = Watched::start(&helper, "root");
            for burst in 0..10 {
                std::thread::scope(|scope| {
                    for thread in 0..2 {
                        let (root, outside) = (&root, &outside);
                        scope.spawn(move || {
                            let mut random =
                                Random((seed * 1000 + burst * 10 + thread).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                            (0..60).for_each(|_| change(&mut random, root, outside));
                        });
                    }
                });
                watched.agree(&root, &format!("NACRE_SEED={seed}, burst {burst}"));
            }
        }
    });
}

#[test]
fn directories_that_are_made_and_renamed_at_once_are_watched() {
    in_own_process(|| {
        let helper = Helper::start();
        fs::create_dir(helper.path("root")).unwrap();
        let mut watched = Watched::start(&helper, "root");
        let root = helper.path("root");
        for number in 0..300 {
            fs::create_dir(root.join("t")).unwrap();
            fs::rename(root.join("t"), root.join(format!("x{number}"))).unwrap();
        }
        watched.agree(&root, "the directories");
        (0..300).for_each(|number| fs::write(root.join(format!("x{number}/f")), "").unwrap());
        watched.agree(&root, "the files in them");
        assert!(!watched.has_overflown);
    });
}

#[test]
fn a_directory_that_replaces_one_that_was_moved_out_is_watched() {
    in_own_process(|| {
        let helper = Helper::start();
        let root = helper.path("root");
        fs::create_dir_all(root.join("p")).unwrap();
        let mut watched = Watched::start(&helper, "root");
        fs::rename(root.join("p"), helper.path("away")).unwrap();
        fs::create_dir(root.join("p")).unwrap();
        watched.agree(&root, "the directories");
        let changes: Vec<FileChange> = watched.seen.iter().map(|event| event.change).collect();
        assert_eq!(changes, [FileChange::Deleted, FileChange::Created]);
        fs::write(root.join("p/f"), "").unwrap();
        watched.agree(&root, "the file in the new one");
    });
}

#[test]
fn after_an_exchange_each_directory_has_its_own_path() {
    in_own_process(|| {
        let helper = Helper::start();
        let root = helper.path("root");
        let mut watched = {
            fs::create_dir(&root).unwrap();
            Watched::start(&helper, "root")
        };
        for path in ["a/in-a", "b/in-b"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        watched.agree(&root, "the directories");
        renameat_with(CWD, root.join("a"), CWD, root.join("b"), RenameFlags::EXCHANGE).unwrap();
        watched.agree(&root, "the exchange");
        for path in ["a/x", "b/y", "a/in-b/x", "b/in-a/y"] {
            fs::write(root.join(path), "").unwrap();
        }
        watched.agree(&root, "the files");
    });
}

#[test]
fn an_exchange_that_a_look_has_seen_before_loses_no_directory() {
    in_own_process(|| {
        let helper = Helper::start();
        let root = helper.path("root");
        fs::create_dir(&root).unwrap();
        let mut watched = Watched::start(&helper, "root");
        helper.signal(libc::SIGSTOP);
        until("the helper is stopped", || helper.is_stopped());
        for path in ["a", "b"] {
            fs::create_dir(root.join(path)).unwrap();
        }
        renameat_with(CWD, root.join("a"), CWD, root.join("b"), RenameFlags::EXCHANGE).unwrap();
        fs::rename(root.join("a"), helper.path("away")).unwrap();
        helper.signal(libc::SIGCONT);
        watched.agree(&root, "the directory that stays");
        fs::write(root.join("b/f"), "").unwrap();
        watched.agree(&root, "the file in it");
    });
}

#[test]
fn a_watch_of_a_file_follows_links_and_ends_with_the_file() {
    in_own_process(|| {
        let helper = Helper::start();
        fs::create_dir(helper.path("d")).unwrap();
        fs::write(helper.path("d/one"), "").unwrap();
        fs::write(helper.path("d/two"), "").unwrap();
        symlink("one", helper.path("d/current")).unwrap();
        symlink("d/current", helper.path("link")).unwrap();
        let mut watched = Watched::start(&helper, "link");
        let expect = |watched: &mut Watched, change| watched.until_seen(|seen| seen.contains(&change));
        fs::write(helper.path("d/other"), "").unwrap();
        fs::write(helper.path("d/one"), "1").unwrap();
        expect(&mut watched, FileChange::Modified);
        // The link is replaced in one step, as a deployment does it.
        symlink("two", helper.path("d/next")).unwrap();
        fs::rename(helper.path("d/next"), helper.path("d/current")).unwrap();
        expect(&mut watched, FileChange::Modified);
        fs::write(helper.path("d/two"), "2").unwrap();
        expect(&mut watched, FileChange::Modified);
        // An editor moves the file away, and writes it anew.
        fs::rename(helper.path("d/two"), helper.path("d/two~")).unwrap();
        fs::write(helper.path("d/two"), "3").unwrap();
        expect(&mut watched, FileChange::Created);
        fs::remove_file(helper.path("d/two")).unwrap();
        expect(&mut watched, FileChange::Deleted);
        until("the watch is over", || {
            watched.take();
            watched.is_over
        });
    });
}

#[test]
fn a_file_whose_directory_was_exchanged_by_a_link_is_watched_at_its_new_place() {
    in_own_process(|| {
        let helper = Helper::start();
        for version in ["v1", "v2"] {
            fs::create_dir(helper.path(version)).unwrap();
            fs::write(helper.path(version).join("f"), "").unwrap();
        }
        symlink("v1", helper.path("current")).unwrap();
        let mut watched = Watched::start(&helper, "current/f");
        symlink("v2", helper.path("next")).unwrap();
        fs::rename(helper.path("next"), helper.path("current")).unwrap();
        // Nothing is known of links to directories until the old file ends.
        fs::remove_file(helper.path("v1/f")).unwrap();
        watched.until_seen(|seen| seen.ends_with(&[FileChange::Deleted, FileChange::Created]));
        fs::write(helper.path("v2/f"), "new").unwrap();
        watched.until_seen(|seen| seen.ends_with(&[FileChange::Modified]));
    });
}

#[test]
fn after_an_overflow_the_watch_knows_the_tree_again() {
    in_own_process(|| {
        let helper = Helper::start();
        let root = helper.path("root");
        fs::create_dir(&root).unwrap();
        let mut watched = Watched::start(&helper, "root");
        let most = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let most: usize = most.trim().parse().unwrap();
        helper.signal(libc::SIGSTOP);
        // Until then, it takes events from the queue.
        until("the helper is stopped", || helper.is_stopped());
        for number in 0..most / 2 + 10 {
            fs::write(root.join("x"), "").unwrap();
            fs::remove_file(root.join("x")).unwrap();
            if number % 1000 == 0 {
                fs::create_dir_all(root.join(format!("d{number}/inner"))).unwrap();
            }
        }
        fs::create_dir_all(root.join("late/inner")).unwrap();
        helper.signal(libc::SIGCONT);
        until("the overflow is seen", || {
            watched.take();
            watched.has_overflown
        });
        watched.agree(&root, "the tree");
        fs::write(root.join("late/inner/f"), "").unwrap();
        fs::write(root.join("d0/inner/f"), "").unwrap();
        watched.agree(&root, "the files in it");
    });
}

#[test]
fn files_without_a_name_are_no_changes() {
    in_own_process(|| {
        let helper = Helper::start();
        let root = helper.path("root");
        fs::create_dir(&root).unwrap();
        let mut watched = Watched::start(&helper, "root");
        let unnamed = rustix::fs::openat(
            CWD,
            &root,
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::TMPFILE,
            rustix::fs::Mode::from_raw_mode(0o600),
        );
        rustix::io::write(unnamed.unwrap(), b"text").unwrap();
        fs::write(root.join("f"), "").unwrap();
        watched.agree(&root, "the file");
        assert_eq!(watched.seen[0].path, b"f", "{:?}", watched.seen);
    });
}
