//! What the fuzz targets check. `crates/core/tests/integration/fuzz_bodies.rs` runs the same on the corpora and on random bytes.

use nacre_archive::fuzzing::forged;
use nacre_archive::{Archive, What};
use nacre_core::exec::OutputStream::{Stderr, Stdout};
use nacre_core::fuzzing::{bounded_log, restore_text};
use nacre_core::process_log::ProcessLog;
use nacre_protocol::shell::Reply;
use nacre_protocol::supervisor::{Order, Report};
use nacre_protocol::{files, message};
use std::io::Cursor;
use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};

/// Bytes of a reply's header.
const HEADER: usize = size_of::<nacre_protocol::shell::ReplyHeader>();

/// A message from a shell. Any process of the user's could write one.
pub fn reply(data: &[u8]) {
    let Some(reply) = Reply::decode(data) else { return };
    let text = match &reply {
        Reply::Done(done) => done.cwd.len(),
        Reply::Hello { version, .. } => version.chars().count(),
        Reply::Refused { about, .. } => about.chars().count(),
        _ => 0,
    };
    assert!(data.len() >= HEADER + text, "{} bytes hold {reply:?}", data.len());
}

/// What can be read is written as something that reads the same.
macro_rules! reads_back {
    ($kind:ty, $data:expr) => {
        if let Ok(read) = message::decode::<$kind>($data) {
            assert_eq!(message::decode::<$kind>(&message::encode(&read).unwrap()).unwrap(), read);
        }
    };
}

/// A message between host and supervisor.
pub fn supervisor(data: &[u8]) {
    reads_back!(Order, data);
    reads_back!(Report, data);
}

/// A message between host and files helper.
pub fn files(data: &[u8]) {
    reads_back!(files::FilesRequest, data);
    reads_back!(files::FilesReply, data);
}

/// The content of an archive: what can be unpacked stays below its directory.
pub fn archive(data: &[u8]) {
    let Ok(mut archive) = Archive::open(Cursor::new(forged(data).unwrap())) else { return };
    let Ok(states) = archive.states() else { return };
    assert!(states.len() <= data.len());
    let Ok(entries) = archive.entries(1 << 20) else { return };
    for (number, entry) in entries.iter().enumerate().skip(1) {
        assert!(
            (entry.parent as usize) < number && matches!(entries[entry.parent as usize].what, What::Directory { .. })
        );
        assert!(!entry.name.is_empty() && !entry.name.contains(&b'/') && entry.name != b"..");
        assert_eq!(entry.mode & !0o1777, 0);
    }
    let sizes = entries.iter().map(|entry| if let What::File(size) = entry.what { size } else { 0 });
    let is_whole = sizes.into_iter().all(|size| archive.content(size, |_| Ok(())).is_ok());
    let _ = is_whole && archive.end().is_ok();
}

/// A shell's state as it wrote it down: the script stays in proportion and is one that bash can take.
pub fn plain_state(data: &[u8]) {
    let Some(script) = restore_text(data) else { return };
    assert!(!script.contains(&0), "bash ends a script at NUL");
    assert!(script.len() <= 8 * data.len() + 4096, "{} bytes from {}", script.len(), data.len());
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().build().unwrap());

/// The log of a process, against a model that keeps everything. The bytes choose what is written and read.
pub fn log(data: &[u8]) {
    RUNTIME.block_on(check_log(data));
}

async fn check_log(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let mut next = || usize::from(bytes.next().unwrap_or(0));
    let limit = next() * 16;
    let log = bounded_log(limit as u64, 64 + next(), next() % 4);
    let mut written: Vec<u8> = Vec::new();
    for step in data.chunks_exact(3).skip(1).take(500) {
        let (kind, length, fill) = (step[0], usize::from(step[1]), step[2]);
        if kind % 3 == 0 {
            check_read(&log, &written, length * 7 % (written.len() + 9), usize::from(fill) * 3).await;
        } else {
            let piece: Vec<u8> = (0..length).map(|at| fill.wrapping_add(at as u8)).collect();
            log.room().await;
            log.push(if kind % 3 == 1 { Stdout } else { Stderr }, &piece);
            written.extend(piece);
        }
    }
    log.end();
    assert!(check_read(&log, &written, 0, usize::MAX).await <= limit, "more is kept than the limit");
}

/// Compares a slice with what was written, and returns how many bytes it has.
async fn check_read(log: &ProcessLog, written: &[u8], cursor: usize, most: usize) -> usize {
    let slice = log.read(cursor as u64, most).await;
    let count: usize = slice.pieces.iter().map(|piece| piece.bytes.len()).sum();
    let start = cursor.min(written.len());
    assert_eq!(slice.next, start as u64 + slice.dropped + slice.lost + count as u64);
    assert!(slice.next <= written.len() as u64 && count <= most.max(1));
    for piece in &slice.pieces {
        let at = piece.cursor as usize;
        assert_eq!(piece.bytes, written[at..at + piece.bytes.len()]);
    }
    count
}
