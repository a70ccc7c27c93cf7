//! What the fuzz targets check. `crates/core/tests/fuzz_bodies.rs` runs the same on the corpora and on random bytes.

use nacre_core::exec::OutputStream::{Stderr, Stdout};
use nacre_core::fuzzing::{bounded_log, restore_text};
use nacre_core::process_log::ProcessLog;
use nacre_protocol::files;
use nacre_protocol::shell::Reply;
use nacre_protocol::supervisor::{Order, Report};
use serde_json::{from_slice, to_vec};

/// Bytes of a reply's header.
const HEADER: usize = 48;

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

/// A message between host and supervisor: what can be read is written as something that reads the same.
pub fn supervisor(data: &[u8]) {
    if let Ok(order) = from_slice::<Order>(data) {
        assert_eq!(from_slice::<Order>(&to_vec(&order).unwrap()).unwrap(), order);
    }
    if let Ok(report) = from_slice::<Report>(data) {
        assert_eq!(from_slice::<Report>(&to_vec(&report).unwrap()).unwrap(), report);
    }
}

/// A message between host and files helper: what can be read is written as something that reads the same.
pub fn files(data: &[u8]) {
    if let Ok(request) = files::decode::<files::Request>(data) {
        assert_eq!(files::decode::<files::Request>(&files::encode(&request).unwrap()).unwrap(), request);
    }
    if let Ok(reply) = files::decode::<files::Reply>(data) {
        assert_eq!(files::decode::<files::Reply>(&files::encode(&reply).unwrap()).unwrap(), reply);
    }
}

/// A shell's state as it wrote it down: the script stays in proportion and is one that bash can take.
pub fn checkpoint(data: &[u8]) {
    let Some(script) = restore_text(data) else { return };
    assert!(!script.contains(&0), "bash ends a script at NUL");
    assert!(script.len() <= 8 * data.len() + 4096, "{} bytes from {}", script.len(), data.len());
}

/// The log of a process, against a model that keeps everything. The bytes choose what is written and read.
pub fn log(data: &[u8]) {
    let mut bytes = data.iter().copied();
    let mut next = || usize::from(bytes.next().unwrap_or(0));
    let limit = next() * 16;
    let log = bounded_log(limit as u64, 64 + next(), next() % 4);
    let mut written: Vec<u8> = Vec::new();
    for step in data.chunks_exact(3).skip(1).take(500) {
        let (kind, length, fill) = (step[0], usize::from(step[1]), step[2]);
        if kind % 3 == 0 {
            check_read(&log, &written, length * 7 % (written.len() + 9), usize::from(fill) * 3);
        } else {
            let piece: Vec<u8> = (0..length).map(|at| fill.wrapping_add(at as u8)).collect();
            log.push(if kind % 3 == 1 { Stdout } else { Stderr }, &piece);
            written.extend(piece);
        }
    }
    log.end();
    assert!(check_read(&log, &written, 0, usize::MAX) <= limit, "more is kept than the limit");
}

/// Compares a slice with what was written, and returns how many bytes it has.
fn check_read(log: &ProcessLog, written: &[u8], cursor: usize, most: usize) -> usize {
    let slice = log.read(cursor as u64, most);
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
