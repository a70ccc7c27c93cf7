//! Messages between the host and a bash process, over one SOCK_SEQPACKET socket per process.
//!
//! `crates/shell-builtin/builtin/protocol.h` has the same definitions in C. Numbers are in native byte order. A
//! message is a header followed by its payload. A payload above [`LONGEST_PAYLOAD`] travels in a file instead, whose
//! descriptor is the last one passed.

pub mod portable;
mod reply;
mod request;

pub use reply::*;
pub use request::*;

use std::ffi::CStr;

/// The name of a standby, which it has from birth: a program that kills the shell by its name must not meet both.
pub const STANDBY_NAME: &CStr = c"nacre-standby";

/// Maximum bytes of a checkpoint: programs can write it in the name of their shell.
pub const MAX_STATE_BYTES: usize = 64 << 20;

/// The kind of a checkpoint's last item; `checkpoint.c` describes the format.
const LAST_ITEM: u32 = 0x454e_444e;
/// The directory: its name is the logical one, its value the physical one.
const DIRECTORY: u32 = 13;
/// The kinds of the items that a new shell cannot have.
const JOBS: u32 = 19;
const DESCRIPTORS: u32 = 20;
/// Its number is `$?`.
const STATUS: u32 = 21;
/// Maximum number of texts about them.
const MOST_TEXTS: usize = 1000;
/// Maximum characters of a job's command in a text.
const SHOWN: usize = 200;

/// True for a checkpoint that was written to its end.
pub fn is_whole(checkpoint: &[u8]) -> bool {
    // The header of an item has 16 bytes. Two empty texts follow, each with a NUL.
    checkpoint.last_chunk::<18>().is_some_and(|last| last[..4] == LAST_ITEM.to_ne_bytes())
}

/// Whether the shell that has written a whole checkpoint holds something of a mount of the workspace, and so cannot change
/// over to another one: a directory, a named pipe or a locked file is open, or the name of its directory does not lead there.
pub fn holds_mount(checkpoint: &[u8]) -> bool {
    checkpoint.last_chunk::<18>().is_none_or(|last| last[4..8] != [0; 4])
}

/// What the shell that has written a whole checkpoint has, and a new shell cannot have: texts like `job 1: sleep 60` and
/// `descriptor 7`.
pub fn not_restored(checkpoint: &[u8]) -> Vec<String> {
    let mut missing = Vec::new();
    for Item { kind, value, .. } in items(checkpoint) {
        let value = String::from_utf8_lossy(value);
        match kind {
            JOBS => missing.extend(value.lines().filter_map(job)),
            DESCRIPTORS => missing.extend(value.split(' ').map(|number| format!("descriptor {number}"))),
            _ => {}
        }
    }
    missing.truncate(MOST_TEXTS);
    missing
}

/// `$?` and the directory of the shell that has written a whole checkpoint.
pub fn status_and_directory(checkpoint: &[u8]) -> (i32, &[u8]) {
    let (mut status, mut directory) = (0, &b""[..]);
    for Item { kind, number, name, value } in items(checkpoint) {
        match kind {
            DIRECTORY => directory = if value.is_empty() { name } else { value },
            STATUS => status = number.cast_signed(),
            _ => {}
        }
    }
    (status, directory)
}

/// The items of a checkpoint that a new shell gets.
pub fn restorable(checkpoint: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(checkpoint.len());
    items(checkpoint).filter(|item| !matches!(item.kind, JOBS | DESCRIPTORS)).for_each(|item| item.write(&mut kept));
    kept
}

/// An item of a checkpoint. What its parts mean depends on its kind.
#[derive(Clone, Copy)]
struct Item<'a> {
    kind: u32,
    number: u32,
    name: &'a [u8],
    value: &'a [u8],
}

impl Item<'_> {
    fn write(&self, to: &mut Vec<u8>) {
        for number in [self.kind, self.number, self.name.len() as u32, self.value.len() as u32] {
            to.extend(number.to_ne_bytes());
        }
        for text in [self.name, self.value] {
            to.extend_from_slice(text);
            to.push(0);
        }
    }
}

/// The whole items of a checkpoint.
fn items(mut checkpoint: &[u8]) -> impl Iterator<Item = Item<'_>> {
    std::iter::from_fn(move || {
        let (item, rest) = next_item(checkpoint)?;
        checkpoint = rest;
        Some(item)
    })
}

/// The first item, and what follows it. `None` if there is no whole item.
fn next_item(items: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (header, rest) = items.split_first_chunk::<16>()?;
    let number = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (name, rest) = rest.split_at_checked(number(8) as usize)?;
    let (value, rest) = rest.get(1..)?.split_at_checked(number(12) as usize)?;
    Some((Item { kind: number(0), number: number(4), name, value }, rest.get(1..)?))
}

/// A line of the builtin `jobs`, like `[1]+  Running                 sleep 60 &`. Further lines of
/// a command with several have no number.
fn job(line: &str) -> Option<String> {
    let (number, rest) = line.strip_prefix('[')?.split_once(']')?;
    // The mark of the current job, two blanks, and the state in 24 columns, or 27 since bash 5.3.
    let command: String = rest.chars().skip(3 + 24).collect();
    let command = command.trim_start();
    let command = command.strip_suffix(" &").unwrap_or(command);
    Some(format!("job {number}: {}", command.chars().take(SHOWN).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn reply(kind: u32, text: &[u8]) -> Vec<u8> {
        let mut message = vec![0; size_of::<ReplyHeader>()];
        let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(ReplyHeader, kind), &kind.to_ne_bytes());
        put(offset_of!(ReplyHeader, flags), &17u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, id), &7u64.to_ne_bytes());
        put(offset_of!(ReplyHeader, status), &143i32.to_ne_bytes());
        put(offset_of!(ReplyHeader, signal), &15i32.to_ne_bytes());
        put(offset_of!(ReplyHeader, forks), &2u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, pid), &99u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, reason), &2u32.to_ne_bytes());
        put(offset_of!(ReplyHeader, text_length), &u32::try_from(text.len()).unwrap().to_ne_bytes());
        message.extend_from_slice(text);
        message
    }

    fn item(kind: u32, number: u32, name: &[u8], value: &[u8]) -> Vec<u8> {
        let numbers = [kind, number, name.len() as u32, value.len() as u32];
        let header: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        [&header, name, b"\0", value, b"\0"].concat()
    }

    #[test]
    fn finds_what_the_host_needs_of_a_checkpoint() {
        let jobs = item(JOBS, 0, b"", b"[1]+  Running                 sleep 60 &\n");
        let last = item(LAST_ITEM, 0, b"", b"");
        let rest = [item(1, 0, b"x", b"1"), item(DIRECTORY, 0, b"/link", b"/real"), item(STATUS, 5, b"", b"")].concat();
        let whole = [&jobs[..], &rest, &last].concat();
        assert!(is_whole(&whole) && !holds_mount(&whole));
        assert_eq!(not_restored(&whole), ["job 1: sleep 60"]);
        assert_eq!(status_and_directory(&whole), (5, &b"/real"[..]));
        assert_eq!(status_and_directory(&item(DIRECTORY, 0, b"/gone", b"")), (0, &b"/gone"[..]));
        assert_eq!(restorable(&whole), [&rest[..], &last].concat());
        for length in 0..whole.len() {
            assert!(!is_whole(&whole[..length]), "{length} bytes");
            assert!(rest.starts_with(&restorable(&whole[..length])), "{length} bytes");
        }
    }

    #[test]
    fn encodes_a_request_in_the_order_of_the_c_structure() {
        let request = Request { flags: RequestFlags::ARGV, cwd: b"/tmp", env: b"A=1\0", ..Request::run(5, b"true\0") };
        let encoded = request.encode().unwrap();
        assert_eq!(encoded.file, None);
        assert_eq!(&encoded.message[64..], b"true\0/tmpA=1\0");
        let number = |at: usize| u32::from_ne_bytes(encoded.message[at..at + 4].try_into().unwrap());
        assert_eq!([number(0), number(4), number(8)], [1, 2, 5]);
        assert_eq!(number(offset_of!(RequestHeader, text_length)), 5);
        assert_eq!(number(offset_of!(RequestHeader, cwd_length)), 4);
        assert_eq!(number(offset_of!(RequestHeader, env_length)), 4);
        assert_eq!(encoded.message[offset_of!(RequestHeader, open_files)..][..16], [255; 16]);
    }

    #[test]
    fn puts_a_long_payload_into_a_file() {
        let text = vec![b'x'; LONGEST_PAYLOAD];
        assert_eq!(Request::run(1, &text).encode().unwrap().file, None);
        let encoded = Request { cwd: b"/", ..Request::run(1, &text) }.encode().unwrap();
        assert_eq!(encoded.message.len(), 64);
        assert_eq!(encoded.message[4], 1);
        assert_eq!(encoded.file.unwrap().len(), LONGEST_PAYLOAD + 1);
    }

    #[test]
    fn decodes_every_kind_of_reply() {
        let done = Reply::decode(&reply(2, b"/tmp")).unwrap();
        let flags = DoneFlags::EXITED | DoneFlags::STATE_KEPT;
        assert_eq!(
            done,
            Reply::Done(Done {
                id: 7,
                status: 143,
                signal: 15,
                flags,
                forks: 2,
                usage: Usage::default(),
                cwd: b"/tmp".to_vec()
            })
        );
        assert_eq!(Reply::decode(&reply(1, b"5.2")), Some(Reply::Hello { pid: 99, version: "5.2".into() }));
        assert_eq!(
            Reply::decode(&reply(3, b"UID")),
            Some(Reply::Refused { id: 7, reason: Refusal::ReadOnly, errno: 143, about: "UID".into() })
        );
        assert!(matches!(Reply::decode(&reply(4, b"")), Some(Reply::Forked { result: Err(143), .. })));
        assert_eq!(Reply::decode(&reply(5, b"")), Some(Reply::Begun { id: 7, pid: 99 }));
        assert_eq!(Reply::decode(&reply(6, b"")), Some(Reply::Promoted { pid: 99 }));
    }

    #[test]
    fn refuses_what_is_no_reply() {
        let message = reply(2, b"/tmp");
        for length in 0..message.len() {
            assert_eq!(Reply::decode(&message[..length]), None, "{length} bytes");
        }
        assert_eq!(Reply::decode(&reply(0, b"")), None);
        assert_eq!(Reply::decode(&reply(77, b"")), None);
        assert_eq!(Reply::decode(&[255; 56]), None);
    }
}
