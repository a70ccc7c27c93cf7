//! The log of requests: a file with one line of JSON for each request of commands that has ended.
//!
//! A thread writes it, so that a slow disk delays no request. Several programs may write to one file: each line is one write to the
//! end of the file, and a lock on the full file makes one of them rename it.

use crate::Ended;
use nacre_containment::job::clock;
use nacre_containment::lock::Lock;
use nix::fcntl::{Flock, FlockArg};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a file that is full.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum lines that wait to be written. Later ones are counted.
const MOST_WAITING: usize = 4096;

/// The place of the file before the last one.
pub fn old(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// A request for the log.
struct LogEntry {
    request: Ended,
    at: SystemTime,
    session: Arc<str>,
    /// The id of the logger that receives what fails.
    log: u64,
}

/// See the module. Sandboxes with the same file share one of these.
#[derive(Debug)]
pub struct RequestLog {
    path: PathBuf,
    /// Ends the thread when it is dropped. Set by the first request; `None` if the thread cannot be created.
    sender: OnceLock<Option<SyncSender<LogEntry>>>,
    /// How many requests have no line.
    missing: Arc<AtomicU64>,
}

impl RequestLog {
    /// The log with this path. Creates the file, so that the views of sessions can hide it.
    ///
    /// # Errors
    /// The file cannot be opened, or is a link.
    pub fn open(path: &Path) -> io::Result<Arc<Self>> {
        static OPEN: Lock<Vec<Weak<RequestLog>>> = Lock::new(Vec::new());
        open(path)?;
        let mut list = OPEN.lock();
        list.retain(|log| log.strong_count() > 0);
        if let Some(known) = list.iter().filter_map(Weak::upgrade).find(|log| log.path == path) {
            return Ok(known);
        }
        let new = Arc::new(Self { path: path.into(), sender: OnceLock::new(), missing: Arc::default() });
        list.push(Arc::downgrade(&new));
        Ok(new)
    }

    /// Adds a request that has just ended. Does not block. `log`: the id of the logger that receives what fails.
    pub fn add(&self, request: Ended, session: Arc<str>, log: u64) {
        let entry = LogEntry { request, at: SystemTime::now(), session, log };
        let sender = self.sender.get_or_init(|| self.start().ok()).as_ref();
        if sender.is_none_or(|sender| sender.try_send(entry).is_err()) {
            self.missing.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn start(&self) -> io::Result<SyncSender<LogEntry>> {
        let (sender, receiver) = sync_channel(MOST_WAITING);
        let missing = Arc::clone(&self.missing);
        let writer = LogWriter { missing, ..LogWriter::new(self.path.clone(), MOST_BYTES) };
        thread::Builder::new().name("nacre-requests".into()).spawn(move || writer.run(&receiver))?;
        Ok(sender)
    }
}

struct LogWriter {
    path: PathBuf,
    file: Option<File>,
    missing: Arc<AtomicU64>,
    /// The last line could not be written.
    has_failed: bool,
    /// A full disk has a part of it.
    is_torn: bool,
    most_bytes: u64,
}

impl LogWriter {
    fn new(path: PathBuf, most_bytes: u64) -> Self {
        Self { path, file: None, missing: Arc::default(), has_failed: false, is_torn: false, most_bytes }
    }

    fn run(mut self, entries: &Receiver<LogEntry>) {
        for entry in entries {
            self.add(&entry);
        }
    }

    fn add(&mut self, entry: &LogEntry) {
        let missing = self.missing.load(Ordering::Relaxed);
        let gap = (missing > 0).then(|| line(&json!({ "time": time(entry.at), "type": "lost", "count": missing })));
        let end = if self.is_torn { "\n" } else { "" };
        let text = end.to_owned() + &gap.unwrap_or_default() + &line(&of(entry));
        match self.write(text.as_bytes()) {
            Ok(()) => {
                self.has_failed = false;
                self.missing.fetch_sub(missing, Ordering::Relaxed);
            }
            Err(error) => {
                self.missing.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut self.has_failed, true) {
                    let (log, path) = (entry.log, self.path.display());
                    tracing::error!(log, session = %entry.session, %error, "isolation.network.log cannot be written: make {path} writable, and look for free space");
                }
            }
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            // Another program may have renamed it.
            Some(file) if is_at(&self.path, &file)? => file,
            _ => open(&self.path)?,
        };
        if file.metadata()?.len() >= self.most_bytes {
            let full = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| io::Error::from(errno))?;
            if is_at(&self.path, &full)? {
                fs::rename(&self.path, old(&self.path))?;
            }
            file = open(&self.path)?;
        }
        // One call for the whole line, or those of other programs could get into it.
        let written = file.write(text)?;
        self.is_torn = written < text.len();
        self.file = Some(file);
        if self.is_torn { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

/// Opens a log at its end. What a command could have made there is refused: a link, or a file with another name.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = File::options().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(io::Error::other("it is not a plain file with one name: remove it"));
    }
    Ok(file)
}

fn is_at(path: &Path, file: &File) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn time(at: SystemTime) -> String {
    clock::iso(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64)
}

fn line(value: &serde_json::Value) -> String {
    format!("{value}\n")
}

/// The members of the event.
fn of(LogEntry { request, at, session, .. }: &LogEntry) -> serde_json::Value {
    let Ended { origin, method, path, status, sent, received, duration, secrets, denied, protocol } = request;
    let mut made = json!({
        "time": time(*at), "type": "request", "sessionId": &**session, "host": origin.to_string(), "method": method,
        "path": path, "status": status, "sent": sent, "received": received, "ms": milliseconds(*duration),
        "protocol": protocol,
    });
    if !secrets.is_empty() {
        made["secrets"] = json!(secrets);
    }
    if let Some(reason) = denied {
        made["denied"] = json!(reason.as_str());
    }
    made
}

/// With two decimal places.
fn milliseconds(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Reason};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    fn request(path: &str) -> Ended {
        Ended {
            origin: Origin { host: "api.example".into(), port: 443 },
            method: "GET".into(),
            path: path.into(),
            status: Some(200),
            sent: 0,
            received: 5,
            duration: Duration::from_micros(1234),
            secrets: vec!["TOKEN".into()],
            denied: Some(Reason::Rule),
            protocol: "h2",
        }
    }

    fn entry(path: &str) -> LogEntry {
        LogEntry { request: request(path), at: UNIX_EPOCH, session: "default".into(), log: 0 }
    }

    fn writer(path: &Path, most_bytes: u64) -> LogWriter {
        LogWriter::new(path.into(), most_bytes)
    }

    fn paths(file: &Path) -> Vec<String> {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.map(|line| line["path"].as_str().map_or_else(|| line["count"].to_string(), str::to_owned)).collect()
    }

    #[test]
    fn a_line_has_the_members_of_the_event() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        writer(&path, 1000).add(&entry("/a\n"));
        let line: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let wanted = json!({
            "time": "1970-01-01T00:00:00.000Z", "type": "request", "sessionId": "default", "host": "api.example:443",
            "method": "GET", "path": "/a\n", "status": 200, "sent": 0, "received": 5, "ms": 1.23, "protocol": "h2",
            "secrets": ["TOKEN"], "denied": "rule",
        });
        assert_eq!(line, wanted);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_file_is_renamed_also_if_another_writer_has_done_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let (mut one, mut other) = (writer(&path, 300), writer(&path, 300));
        one.add(&entry("/1"));
        other.add(&entry("/2"));
        one.add(&entry("/3"));
        other.add(&entry("/4"));
        assert_eq!(
            (paths(&old(&path)), paths(&path)),
            (vec!["/1".into(), "/2".into()], vec!["/3".into(), "/4".into()])
        );
        fs::remove_file(&path).unwrap();
        one.add(&entry("/5"));
        assert_eq!(paths(&path), ["/5"]);
    }

    #[test]
    fn a_link_or_another_name_is_never_written_to_and_a_line_says_how_many_are_missing() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("log"), directory.path().join("other"));
        fs::write(&other, "").unwrap();
        let mut writer = writer(&path, 1000);
        symlink(&other, &path).unwrap();
        assert!(RequestLog::open(&path).is_err());
        writer.add(&entry("/1"));
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        writer.add(&entry("/2"));
        fs::remove_file(&path).unwrap();
        writer.add(&entry("/3"));
        assert_eq!((paths(&other), paths(&path)), (Vec::<String>::new(), vec!["2".into(), "/3".into()]));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_never_waits() {
        let directory = tempfile::tempdir().unwrap();
        let log = RequestLog::open(&directory.path().join("log")).unwrap();
        assert!(Arc::ptr_eq(&log, &RequestLog::open(&log.path).unwrap()));
        let (sender, receiver) = sync_channel(1);
        log.sender.set(Some(sender)).unwrap();
        (0..3).for_each(|number| log.add(request(&format!("/{number}")), "s".into(), 0));
        let mut writer = LogWriter { missing: Arc::clone(&log.missing), ..writer(&log.path, 1000) };
        writer.add(&receiver.recv().unwrap());
        assert_eq!(paths(&log.path), ["2", "/0"]);
        assert_eq!(log.missing.load(Ordering::Relaxed), 0);
    }
}
