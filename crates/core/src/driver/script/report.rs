//! Reading what the shell writes to its control pipe.
//!
//! A record is `\x01 kind NUL field NUL ... NUL \x02 \n`. The fields come from the shell's state (a directory, a trap's
//! text) and can hold anything but NUL, so a NUL before `\x02\n` always ends a record. Bytes between records are noise
//! (a user's DEBUG trap that prints while the engine's own commands run) and are dropped.

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `R` or `L` ready, `Y` ending, `X` saved, `P` standby, `S` successor.
    pub kind: u8,
    /// Its fields.
    pub fields: Vec<Vec<u8>>,
}

impl Record {
    /// The first word of a field as a number.
    pub fn number(&self, index: usize) -> Option<i32> {
        std::str::from_utf8(self.fields.get(index)?).ok()?.split(' ').next()?.parse().ok()
    }

    /// A field, empty when it is missing.
    pub fn field(&self, index: usize) -> &[u8] {
        self.fields.get(index).map_or(&[], Vec::as_slice)
    }
}

/// Cuts a byte stream into records, whatever pieces it arrives in.
#[derive(Debug, Default)]
pub struct Parser {
    pending: Vec<u8>,
}

/// A record is never longer than a few environment-sized texts; beyond that it is noise without end.
const LONGEST: usize = 8 << 20;

impl Parser {
    /// Takes the next bytes and gives the records they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Record> {
        self.pending.extend_from_slice(bytes);
        let mut records = Vec::new();
        while let Some(end) = find(&self.pending, b"\0\x02\n") {
            let text: Vec<u8> = self.pending.drain(..end + 3).collect();
            records.extend(parse(&text[..end]));
        }
        if self.pending.len() > LONGEST {
            self.pending.clear();
        }
        records
    }
}

/// The record starts at the last start mark: anything before it is noise.
fn parse(text: &[u8]) -> Option<Record> {
    let start =
        text.windows(3).rposition(|window| window[0] == 1 && window[1].is_ascii_uppercase() && window[2] == 0)?;
    let fields = text[start + 3..].split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    Some(Record { kind: text[start + 1], fields })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_records_in_any_pieces_and_drops_noise() {
        let stream = b"noise\n\x01R\x000\0himBH\0\0/tmp/a b\0trap -- 'x\n\x01' EXIT\n\0\x02\nmore noise\x01X\0\0\x02\n";
        for size in 1..stream.len() {
            let mut parser = Parser::default();
            let records: Vec<Record> = stream.chunks(size).flat_map(|chunk| parser.push(chunk)).collect();
            assert_eq!(records.len(), 2, "in pieces of {size}");
            assert_eq!(records[0].kind, b'R');
            assert_eq!(records[0].number(0), Some(0));
            assert_eq!(records[0].field(3), b"/tmp/a b");
            assert_eq!(records[0].field(4), b"trap -- 'x\n\x01' EXIT\n");
            assert_eq!(records[1].kind, b'X');
        }
    }
}
