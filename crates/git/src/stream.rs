//! Reads what a stream of `git fast-import` has after its head: whole files, links and deletions.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

/// Maximum bytes of a line. A path has at most 4096 of them, each as four characters.
const MAX_LINE: u64 = 64 * 1024;

/// A file or a link with its content.
#[derive(Debug)]
pub struct Entry {
    /// Where its lines begin in the stream.
    pub start: u64,
    /// Where the stream has its path.
    pub name: Range<u64>,
    /// Where the stream has its content.
    pub content: Range<u64>,
    /// Its path.
    pub path: Vec<u8>,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// The files and links of a stream from this place on.
pub fn entries(mut stream: &File, from: u64) -> io::Result<Vec<Entry>> {
    stream.seek(SeekFrom::Start(from))?;
    let mut reader = BufReader::new(stream);
    let (mut at, mut found) = (from, Vec::new());
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "the stream for git is damaged");
    loop {
        let start = at;
        let line = line(&mut reader, &mut at)?;
        if line == b"done" {
            return Ok(found);
        }
        if line.starts_with(b"D ") {
            continue;
        }
        // "M 100644 inline path"
        let (mode, name) = line.strip_prefix(b"M ").and_then(|rest| rest.split_at_checked(6)).ok_or_else(invalid)?;
        let name = name.strip_prefix(b" inline ").ok_or_else(invalid)?;
        let path = unquoted(name).ok_or_else(invalid)?;
        let is_file = matches!(mode, b"100644" | b"100755");
        let name = at - 1 - name.len() as u64..at - 1;
        let length = self::line(&mut reader, &mut at)?;
        let length = length.strip_prefix(b"data ").and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
        let length: i64 = length.ok_or_else(invalid)?;
        let content = at..at.checked_add_signed(length).ok_or_else(invalid)?;
        // A newline follows.
        reader.seek_relative(length + 1)?;
        at = content.end + 1;
        found.push(Entry { start, name, content, path, is_file });
    }
}

/// The next line, without its newline.
fn line(reader: &mut BufReader<&File>, at: &mut u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    *at += reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A path, which may be quoted like a string in C.
fn unquoted(name: &[u8]) -> Option<Vec<u8>> {
    let Some(quoted) = name.strip_prefix(b"\"") else { return Some(name.to_vec()) };
    let mut bytes = quoted.strip_suffix(b"\"")?.iter();
    let mut path = Vec::new();
    while let Some(byte) = bytes.next() {
        if *byte != b'\\' {
            path.push(*byte);
            continue;
        }
        path.push(match bytes.next()? {
            b'a' => 0x07,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            digit @ b'0'..=b'3' => {
                let mut value = *digit - b'0';
                for _ in 0..2 {
                    let digit = bytes.next().filter(|digit| matches!(digit, b'0'..=b'7'))?;
                    value = value << 3 | (*digit - b'0');
                }
                value
            }
            other => *other,
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn files_are_found_between_links_and_deletions() {
        let mut file = tempfile::tempfile().unwrap();
        let head = b"commit x\ndata 4\ndone\n";
        let rest = b"D a\nM 100644 inline a\ndata 5\ndone\n\nM 120000 inline l\ndata 1\na\nD \"q\\\"\\303\\244\"\nM 100755 inline \"q\\\"\\303\\244\"\ndata 0\n\ndone\n";
        file.write_all(&[&head[..], rest].concat()).unwrap();
        let found = entries(&file, head.len() as u64).unwrap();
        let whole = [&head[..], rest].concat();
        let shown: Vec<_> = found
            .iter()
            .map(|entry| {
                let part = |range: &Range<u64>| whole[range.start as usize..range.end as usize].to_vec();
                (entry.path.clone(), part(&entry.name), part(&entry.content), entry.is_file)
            })
            .collect();
        let odd = "q\"ä".as_bytes().to_vec();
        assert_eq!(
            shown,
            [
                (b"a".to_vec(), b"a".to_vec(), b"done\n".to_vec(), true),
                (b"l".to_vec(), b"l".to_vec(), b"a".to_vec(), false),
                (odd, b"\"q\\\"\\303\\244\"".to_vec(), Vec::new(), true),
            ]
        );
        assert!(whole[found[2].start as usize..].starts_with(b"M 100755"));
    }

    #[test]
    fn a_damaged_stream_is_an_error() {
        for text in
            ["", "D a", "M 100644 inline a\n", "M 100644 inline a\ndata -\n", "M 100644 inline \"a\ndata 0\n\n", "x\n"]
        {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert!(entries(&file, 0).is_err(), "{text}");
        }
    }
}
