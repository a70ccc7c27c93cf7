//! A job's directory: built under another name, with a lock, and renamed into place as a whole.
//!
//! So a visible job is complete, whichever process is killed at any moment. The next start with that id, or the next
//! listing, removes what an interrupted start left behind.

use super::hold::Room;
use nacre_containment::job::file;
use nacre_containment::job::layout::{END, END_ROOM, EXIT, EXIT_ROOM, META, OUTPUT, STDIN, unfinished};
use nacre_containment::job::meta::Meta;
use nacre_containment::job::record::{End, ROOM_BYTES};
use nacre_containment::job::{leftover, lock};
use nacre_protocol::job::{Refusal, Request};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Why a job was not started.
pub type Refused = (Refusal, String);

/// See the module.
pub struct Directory {
    root: PathBuf,
    /// Its current path.
    path: PathBuf,
    /// Its path once it is published.
    place: PathBuf,
    /// Space reserved for the records.
    exit: Record,
    end: Record,
    /// Open for appending: standard output and standard error.
    pub output: File,
    /// This directory, open, with its lock. Held until this process exits.
    locked: File,
}

impl Directory {
    /// Creates the directory with everything except `meta.json`.
    pub fn begin(request: &Request) -> Result<Self, Refused> {
        let place = request.root.join(&request.id);
        let path = unfinished(&request.root, &request.id);
        let lock = claim(&path, &place, &request.id)?;
        let files = || -> io::Result<(Record, Record, File)> {
            let output = private_file().append(true).open(path.join(OUTPUT))?;
            own(&output, request)?;
            Ok((room(&path.join(EXIT_ROOM))?, room(&path.join(END_ROOM))?, output))
        };
        match files() {
            Ok((exit, end, output)) => {
                Ok(Self { root: request.root.clone(), path, place, exit, end, output, locked: lock })
            }
            Err(error) => {
                let refused = unwritable(&place, &error);
                let _ = leftover::remove(&path);
                Err(refused)
            }
        }
    }

    /// Stores the command's standard input in the directory and opens it for reading.
    pub fn keep_stdin(&self, source: &OwnedFd, request: &Request) -> Result<OwnedFd, Refused> {
        let keep = || -> io::Result<File> {
            let path = self.path.join(STDIN);
            let mut file = private_file().write(true).open(&path)?;
            io::copy(&mut File::open(format!("/proc/self/fd/{}", source.as_raw_fd()))?, &mut file)?;
            own(&file, request)?;
            let kept = file::open(&self.path, STDIN).map_err(io::Error::other)?;
            kept.ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        keep().map(OwnedFd::from).map_err(|error| unwritable(&self.place, &error))
    }

    /// The path of the published job.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Its path now, and its path once it is published, without links.
    pub fn places(&self) -> (PathBuf, PathBuf) {
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let without_links = |path: &Path| root.join(path.file_name().unwrap_or_default());
        (without_links(&self.path), without_links(&self.place))
    }

    /// Writes `meta.json` and renames the directory: from now on the job exists.
    pub fn publish(&mut self, meta: &Meta) -> Result<(), Refused> {
        let write = || -> io::Result<()> {
            let temporary = self.path.join("meta.json.tmp");
            let mut file = private_file().write(true).open(&temporary)?;
            let text = serde_json::to_vec(meta)?;
            if text.len() as u64 > file::MOST_META_BYTES {
                return Err(io::Error::other("meta.json would be longer than readers accept"));
            }
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&temporary, self.path.join(META))?;
            fs::rename(&self.path, &self.place)?;
            leftover::unmark(&self.place);
            // One commit of the file system's journal for everything; the second call then has nothing to do.
            File::open(&self.place)?.sync_all()?;
            File::open(&self.root)?.sync_all()
        };
        let written = write();
        if !self.path.exists() {
            self.path.clone_from(&self.place);
        }
        written.map_err(|error| unwritable(&self.place, &error))
    }

    /// Removes the directory.
    pub fn discard(&self) {
        let _ = leftover::remove(&self.path);
    }

    /// Records the end: first `end.json`, then `exit`, which marks the job as ended. Each is written into its
    /// reserved blocks and then renamed. Neither step needs free space.
    pub fn record(&self, end: &End) {
        let words = serde_json::to_vec(end).unwrap_or_default();
        for (record, room, name, text) in
            [(&self.end, END_ROOM, END, words.as_slice()), (&self.exit, EXIT_ROOM, EXIT, end.exit_text().as_bytes())]
        {
            record.write(text);
            let _ = fs::rename(self.path.join(room), self.path.join(name));
        }
        let _ = self.locked.sync_all();
    }

    /// True if the disk has no room for more output. Checked by reserving a block after the end of the file, which
    /// later output then uses.
    pub fn is_full(&self) -> bool {
        let Ok(info) = self.output.metadata() else { return false };
        let (start, block) = (info.len() as libc::off_t, 4096);
        // SAFETY: a plain call on an open descriptor.
        let result = unsafe { libc::fallocate(self.output.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, start, block) };
        result < 0 && matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
    }
}

/// How long to wait for another process that starts or removes a job with this id.
const BUSY: Duration = Duration::from_secs(1);

/// Creates an empty directory at `path`, locks it and marks it as unfinished.
///
/// An existing directory that is locked belongs to a start in progress. An unlocked directory that was marked is a
/// leftover, and is removed. An empty directory was left before it was marked, and is reused. Any other directory is
/// not nacre's, and stays.
fn claim(path: &Path, place: &Path, id: &str) -> Result<File, Refused> {
    let exists = |why: &str| Err((Refusal::Exists, format!("job '{id}' {why}")));
    let begun = Instant::now();
    loop {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unwritable(place, &error)),
            _ => {}
        }
        let lock = match lock::take(path) {
            Ok(Some(lock)) => lock,
            // Another start publishes its job soon, and a removal ends soon.
            Ok(None) if begun.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Ok(None) => return exists("is already being started"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(in_the_way(path, &error)),
        };
        if !leftover::is_same(&lock, path) {
            continue;
        }
        if leftover::is_marked(path) {
            leftover::remove(path).map_err(|error| unwritable(place, &error))?;
            continue;
        }
        check_fresh(&lock, path).map_err(|error| in_the_way(path, &error))?;
        if place.symlink_metadata().is_ok() {
            let _ = fs::remove_dir(path);
            return exists("already exists");
        }
        leftover::mark(path).map_err(|error| unwritable(place, &error))?;
        return Ok(lock);
    }
}

/// Checks that a directory is in its initial state: empty, and owned by this user alone.
fn check_fresh(directory: &File, path: &Path) -> io::Result<()> {
    let info = directory.metadata()?;
    let is_private = info.uid() == nix::unistd::geteuid().as_raw() && info.mode() & 0o077 == 0;
    if is_private && fs::read_dir(path)?.next().is_none() {
        return Ok(());
    }
    Err(io::Error::other("nacre did not create it"))
}

fn in_the_way(path: &Path, error: &io::Error) -> Refused {
    (Refusal::Directory, format!("{} is in the way: {error}; remove it, or use another jobId", path.display()))
}

/// A file for a record, with its blocks reserved. None of its methods needs another descriptor or another block.
struct Record {
    file: File,
    room: Room,
}

impl Record {
    /// Writes the text. Where RLIMIT_FSIZE forbids the call, memory does not: a shorter file is always allowed.
    fn write(&self, text: &[u8]) {
        if self.file.write_all_at(text, 0).is_err_and(|error| error.raw_os_error() == Some(libc::EFBIG)) {
            self.room.write(text);
        }
        let _ = self.file.set_len(text.len() as u64);
        let _ = self.file.sync_data();
    }
}

/// Creates a file whose blocks are reserved now.
fn room(path: &Path) -> io::Result<Record> {
    let file = private_file().read(true).write(true).open(path)?;
    // SAFETY: a plain call on an open descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, ROOM_BYTES as libc::off_t) } {
        0 => Ok(Record { room: Room::map(&file, ROOM_BYTES as usize)?, file }),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn private_file() -> OpenOptions {
    let mut options = File::options();
    options.create_new(true).mode(0o600);
    options
}

/// Lets a command open its standard streams by name (`/dev/stdin`), which checks their owner.
fn own(file: &File, request: &Request) -> io::Result<()> {
    match &request.user {
        Some(user) => std::os::unix::fs::fchown(file, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}

fn unwritable(place: &Path, error: &io::Error) -> Refused {
    (Refusal::Directory, format!("the job's directory {} cannot be written: {error}", place.display()))
}
