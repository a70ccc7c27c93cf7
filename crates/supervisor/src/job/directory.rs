//! A job's directory: built under another name, with a lock, and renamed into place as a whole.
//!
//! So a visible job is complete, whichever process is killed at any moment. The next start with that id, or the next
//! listing, removes what an interrupted start left behind.

use super::hold::Room;
use nacre_containment::job::file;
use nacre_containment::job::layout::{END, END_ROOM, EXIT, EXIT_ROOM, GRACE, META, OUTPUT, STDIN, unfinished};
use nacre_containment::job::meta::Meta;
use nacre_containment::job::record::{End, ROOM_BYTES};
use nacre_containment::job::{leftover, lock};
use nacre_protocol::job::{JobRefusal, JobRequest};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Why a job was not started.
pub type Refused = (JobRefusal, String);

/// An empty directory that is locked and marked as unfinished. The guard makes it and shares it with the supervisor, so
/// the lock is held until both have ended.
pub struct Claimed {
    /// The open directory.
    open: File,
    /// Its path until the job is published.
    path: PathBuf,
}

impl Claimed {
    /// Removes the directory, unless the job was published.
    pub fn discard(&self) {
        if let Ok(true) = leftover::is_same(&self.open, &self.path) {
            let _ = leftover::remove(&self.open, &self.path);
        }
    }
}

/// See the module.
pub struct Directory {
    root: PathBuf,
    claimed: Claimed,
    /// Its path once it is published.
    place: PathBuf,
    /// Space reserved for the records.
    exit: Record,
    end: Record,
    /// Open for appending: standard output and standard error.
    pub output: File,
}

impl Directory {
    /// Creates everything in the directory except `meta.json`.
    pub fn begin(claimed: Claimed, request: &JobRequest) -> Result<Self, Refused> {
        let place = request.root.join(&request.id);
        let files = || -> io::Result<(Record, Record, File)> {
            let at = |name| leftover::within(&claimed.open, name);
            let output = private_file().append(true).open(at(OUTPUT))?;
            own(&output, request)?;
            Ok((room(&at(EXIT_ROOM))?, room(&at(END_ROOM))?, output))
        };
        match files() {
            Ok((exit, end, output)) => Ok(Self { root: request.root.clone(), claimed, place, exit, end, output }),
            Err(error) => {
                claimed.discard();
                Err(unwritable(&place, &error))
            }
        }
    }

    /// Stores the command's standard input in the directory and opens it for reading.
    pub fn keep_stdin(&self, source: &OwnedFd, request: &JobRequest) -> Result<OwnedFd, Refused> {
        let keep = || -> io::Result<File> {
            let mut file = private_file().write(true).open(self.at(STDIN))?;
            io::copy(&mut File::open(format!("/proc/self/fd/{}", source.as_raw_fd()))?, &mut file)?;
            own(&file, request)?;
            let kept = file::open(&self.claimed.open, STDIN).map_err(io::Error::other)?;
            kept.ok_or_else(|| io::ErrorKind::NotFound.into())
        };
        keep().map(OwnedFd::from).map_err(|error| unwritable(&self.place, &error))
    }

    /// The path of a file in the directory, wherever that is now.
    fn at(&self, name: &str) -> PathBuf {
        leftover::within(&self.claimed.open, name)
    }

    /// The grace time of a caller that cannot send it with its signal.
    pub fn wanted_grace(&self) -> Option<Duration> {
        let text = file::read(&self.claimed.open, GRACE, file::MOST_RECORD_BYTES).ok()??;
        let hundredths: u64 = std::str::from_utf8(&text).ok()?.trim().parse().ok()?;
        Some(Duration::from_millis(hundredths.saturating_mul(10)))
    }

    /// Releases the lock: nothing of the job is left.
    pub fn release(&self) {
        lock::release(&self.claimed.open);
    }

    /// The path of the published job.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Its path now, and its path once it is published, without links.
    pub fn places(&self) -> (PathBuf, PathBuf) {
        let root = self.root.canonicalize().unwrap_or_else(|_| self.root.clone());
        let without_links = |path: &Path| root.join(path.file_name().unwrap_or_default());
        (without_links(&self.claimed.path), without_links(&self.place))
    }

    /// Writes `meta.json` and renames the directory: from now on the job exists. If that fails, nothing is left.
    pub fn publish(&self, meta: &Meta) -> Result<(), Refused> {
        let write = || -> io::Result<()> {
            let temporary = self.at("meta.json.tmp");
            let mut file = private_file().write(true).open(&temporary)?;
            let text = serde_json::to_vec(meta)?;
            if text.len() as u64 > file::MOST_META_BYTES {
                return Err(io::Error::other("meta.json would be longer than readers accept"));
            }
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&temporary, self.at(META))?;
            // Before the job is visible, so that no reader ever sees a job whose start fails.
            self.claimed.open.sync_all()?;
            fs::rename(&self.claimed.path, &self.place)
        };
        write().map_err(|error| unwritable(&self.place, &error))?;
        leftover::unmark(&self.claimed.open);
        let _ = File::open(&self.root).and_then(|root| root.sync_all());
        Ok(())
    }

    /// Removes the directory of a job that was not published.
    pub fn discard(&self) {
        self.claimed.discard();
    }

    /// Records the end: first `end.json`, then `exit`, which marks the job as ended. Each is written into its
    /// reserved blocks and then renamed. Neither step needs free space.
    pub fn record(&self, end: &End) {
        let words = serde_json::to_vec(end).unwrap_or_default();
        for (record, room, name, text) in
            [(&self.end, END_ROOM, END, words.as_slice()), (&self.exit, EXIT_ROOM, EXIT, end.exit_text().as_bytes())]
        {
            record.write(text);
            let _ = fs::rename(self.at(room), self.at(name));
        }
        let _ = self.claimed.open.sync_all();
    }

    /// Bytes of output so far.
    pub fn printed(&self) -> u64 {
        self.output.metadata().map_or(0, |info| info.len())
    }

    /// True if the disk has no room for more output. Checked by reserving a block after the end of the file, which
    /// later output then uses.
    pub fn is_full(&self) -> bool {
        let Ok(info) = self.output.metadata() else { return false };
        let reserved = fallocate(&self.output, FallocateFlags::KEEP_SIZE, info.len(), 4096);
        matches!(reserved, Err(Errno::NOSPC | Errno::DQUOT))
    }
}

/// How long to wait for another process that starts a job with this id.
const BUSY: Duration = Duration::from_secs(1);

/// Creates an empty directory, locks it and marks it as unfinished.
///
/// An existing directory that is locked belongs to a start in progress. An unlocked directory that was marked is a
/// leftover, and is removed. An empty directory was left before it was marked, and is reused. Any other directory is
/// not nacre's, and stays.
pub fn claim(request: &JobRequest) -> Result<Claimed, Refused> {
    let id = &request.id;
    let (path, place) = (unfinished(&request.root, id), request.root.join(id));
    let exists = |why: &str| Err((JobRefusal::Exists, format!("job '{id}' {why}")));
    let begun = Instant::now();
    loop {
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unwritable(&place, &error)),
            _ => {}
        }
        let open = match lock::take(&path) {
            Ok(Some(open)) => open,
            // Another start publishes its job soon.
            Ok(None) if begun.elapsed() < BUSY => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Ok(None) => return exists("is already being started"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(in_the_way(&path, &error)),
        };
        let look = |error: io::Error| unwritable(&place, &error);
        if !leftover::is_same(&open, &path).map_err(look)? {
            continue;
        }
        if leftover::is_marked(&open).map_err(look)? {
            leftover::remove(&open, &path).map_err(look)?;
            continue;
        }
        check_fresh(&open).map_err(|error| in_the_way(&path, &error))?;
        if place.symlink_metadata().is_ok() {
            let _ = fs::remove_dir(&path);
            return exists("already exists");
        }
        leftover::mark(&open).map_err(look)?;
        return Ok(Claimed { open, path });
    }
}

/// Checks that a directory is in its initial state: empty, and owned by this user alone.
fn check_fresh(directory: &File) -> io::Result<()> {
    let info = directory.metadata()?;
    let is_private = info.uid() == nix::unistd::geteuid().as_raw() && info.mode() & 0o077 == 0;
    if is_private && fs::read_dir(leftover::within(directory, ""))?.next().is_none() {
        return Ok(());
    }
    Err(io::Error::other("nacre did not create it"))
}

fn in_the_way(path: &Path, error: &io::Error) -> Refused {
    (JobRefusal::Directory, format!("{} is in the way: {error}; remove it, or use another jobId", path.display()))
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
fn own(file: &File, request: &JobRequest) -> io::Result<()> {
    match &request.user {
        Some(user) => std::os::unix::fs::fchown(file, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}

fn unwritable(place: &Path, error: &io::Error) -> Refused {
    (JobRefusal::Directory, format!("the job's directory {} cannot be written: {error}", place.display()))
}
