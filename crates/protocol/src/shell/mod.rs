//! Messages between the host and a bash process, over one SOCK_SEQPACKET socket per process.
//!
//! `crates/shell-builtin/builtin/protocol.h` has the same definitions in C. Numbers are in native byte order. A
//! message is a header followed by its payload. A payload above [`LONGEST_PAYLOAD`] travels in a file instead, whose
//! descriptor is the last one passed.

mod reply;
mod request;

pub use reply::*;
pub use request::*;

/// The kind of a checkpoint's last item; `checkpoint.c` describes the format.
const LAST_ITEM: u32 = 0x454e_444e;

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
        assert_eq!(done, Reply::Done(Done { id: 7, status: 143, signal: 15, flags, forks: 2, cwd: b"/tmp".to_vec() }));
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
        assert_eq!(Reply::decode(&[255; 48]), None);
    }
}
