//! Lists a directory or a tree.

use super::connection::Connection;
use super::failure::{Stop, about, below, failure};
use super::info::info_at;
use super::way::{Start, Way};
use nacre_containment::file_tree::Cursor;
use nacre_protocol::files::{BATCH_BYTES, FilesReply, Kind, ListedEntry, MAX_LIST_BYTES, Reason};
use rustix::io::Errno;

/// Sends the entries in no particular order. Entries that disappear meanwhile are left out.
pub fn list(connection: &Connection, start: Start<'_>, path: &[u8], depth: u32, most: usize) -> Result<(), Stop> {
    let way = Way::of(start, path, true)?;
    let open =
        if way.follows { Cursor::open(&way.origin, &way.path) } else { Cursor::open_exactly(&way.origin, &way.path) };
    let mut cursor = open.map_err(about(path))?;
    let mut levels = vec![cursor.names().map_err(about(path))?];
    let mut prefix: Vec<u8> = Vec::new();
    let mut batch = Batch { connection, entries: Vec::new(), bytes: 0, most, total: 0, all_bytes: 0 };
    while let Some(names) = levels.last_mut() {
        let Some(name) = names.next() else {
            levels.pop();
            while !levels.is_empty() {
                // Cuts the prefix back to the previous slash.
                prefix.pop();
                prefix.truncate(prefix.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1));
                match cursor.leave() {
                    Ok(_) => break,
                    // The parent directory has been moved or removed, with what was left in it.
                    Err(Errno::STALE) => drop(levels.pop()),
                    Err(errno) => return Err(about(&below(path, &prefix))(errno).into()),
                }
            }
            continue;
        };
        let own = [&prefix[..], &name[..]].concat();
        let full = below(path, &own);
        let failed = about(&full);
        let info = match info_at(&cursor, &name) {
            Err(Errno::NOENT) => continue,
            found => found.map_err(&failed)?,
        };
        let descends = info.kind == Kind::Directory && levels.len() < depth as usize;
        batch.add(ListedEntry { path: own, info }, path)?;
        if descends {
            match cursor.enter(&name) {
                // It was removed, or has been replaced.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                entered => entered.map_err(&failed)?,
            }
            levels.push(cursor.names().map_err(&failed)?);
            prefix.extend_from_slice(&name);
            prefix.push(b'/');
        }
    }
    batch.send()?;
    connection.send(&FilesReply::Done)
}

struct Batch<'a> {
    connection: &'a Connection,
    entries: Vec<ListedEntry>,
    bytes: usize,
    most: usize,
    total: usize,
    all_bytes: usize,
}

/// Bytes of an entry in addition to its path.
const ENTRY_BYTES: usize = 48;

impl Batch<'_> {
    fn add(&mut self, entry: ListedEntry, path: &[u8]) -> Result<(), Stop> {
        self.total += 1;
        if self.total > self.most {
            return Err(failure(Reason::TooMany(self.most), path).into());
        }
        let bytes = ENTRY_BYTES + entry.path.len() + entry.info.target.as_ref().map_or(0, Vec::len);
        self.bytes += bytes;
        self.all_bytes += bytes;
        if self.all_bytes > MAX_LIST_BYTES {
            return Err(failure(Reason::TooMany(self.most), path).into());
        }
        self.entries.push(entry);
        if self.bytes >= BATCH_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Stop> {
        self.bytes = 0;
        let entries = std::mem::take(&mut self.entries);
        if entries.is_empty() { Ok(()) } else { self.connection.send(&FilesReply::Entries(entries)) }
    }
}
