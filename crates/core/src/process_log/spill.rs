//! The blocks of a log that do not fit into memory: a ring of slots in one unnamed file.
//!
//! Memory holds no index. Blocks are in log order, and every slot starts with the offset of its block, so a binary
//! search in the file finds an offset. The file never has a name that outlives the call that opens it, so nothing
//! remains however this process ends.
//!
//! A failed write (usually a full disk) leaves the ring unchanged, and the next write tries again.

use super::block::{Block, HEADER_BYTES, Header};
use super::unnamed;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Blocks `oldest..next`, each in the slot of its number modulo `slots`.
#[derive(Debug)]
pub struct Spill {
    directory: PathBuf,
    file: Option<File>,
    block_size: usize,
    slots: u64,
    oldest: u64,
    next: u64,
}

impl Spill {
    /// Creates room for `slots` blocks of `block_size` bytes. The file is created on first use.
    pub fn new(directory: &Path, block_size: usize, slots: u64) -> Self {
        Self { directory: directory.to_owned(), file: None, block_size, slots, oldest: 0, next: 0 }
    }

    /// Forgets blocks that end at or before `first` and, if no slot is free, the oldest block. Returns where that
    /// block ended.
    pub fn make_room(&mut self, first: u64) -> Option<u64> {
        let forgotten = self.forget(first).unwrap_or_else(|_| {
            self.oldest = self.next;
            None
        });
        if self.oldest == self.next {
            // Starts again at the beginning of the file: on a full disk, its slots are the only available space.
            (self.oldest, self.next) = (0, 0);
        }
        forgotten
    }

    fn forget(&mut self, first: u64) -> io::Result<Option<u64>> {
        let mut forgotten = None;
        while self.oldest < self.next {
            let end = self.header(self.oldest)?.end();
            if end > first {
                if self.next - self.oldest < self.slots {
                    break;
                }
                forgotten = Some(end);
            }
            self.oldest += 1;
        }
        Ok(forgotten)
    }

    /// Appends a block. Call [`Spill::make_room`] first.
    pub fn append(&mut self, block: &Block) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(unnamed::open(&self.directory)?),
        };
        let at = self.next % self.slots * self.block_size as u64;
        let head = block.encode_head();
        file.write_all_at(&head, at)?;
        file.write_all_at(block.bytes(), at + head.len() as u64)?;
        self.next += 1;
        Ok(())
    }

    /// Iterates over the blocks that end after `from`, oldest first. The iteration ends early if the file cannot be
    /// read.
    pub fn blocks(&self, from: u64) -> impl Iterator<Item = Block> {
        let first = self.find(from).unwrap_or(self.next);
        (first..self.next).map_while(|number| self.read(number).ok())
    }

    fn find(&self, from: u64) -> io::Result<u64> {
        let (mut low, mut high) = (self.oldest, self.next);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.header(middle)?.end() <= from { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    fn header(&self, number: u64) -> io::Result<Header> {
        let mut head = [0; HEADER_BYTES];
        self.read_at(&mut head, number, 0)?;
        Ok(Header::decode(head))
    }

    fn read(&self, number: u64) -> io::Result<Block> {
        let header = self.header(number)?;
        let mut body = vec![0; header.body_len()];
        self.read_at(&mut body, number, HEADER_BYTES)?;
        Ok(header.block(body))
    }

    fn read_at(&self, into: &mut [u8], number: u64, offset: usize) -> io::Result<()> {
        let file = self.file.as_ref().ok_or(ErrorKind::NotFound)?;
        file.read_exact_at(into, number % self.slots * self.block_size as u64 + offset as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::OutputStream::Stdout;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::fs::MetadataExt;

    const SIZE: usize = 64;

    fn block(start: u64, bytes: &str) -> Block {
        let mut block = Block::new(start);
        assert_eq!(block.push(SIZE, Stdout, bytes.as_bytes(), 1), bytes.len());
        block
    }

    fn starts(spill: &Spill, from: u64) -> Vec<u64> {
        spill.blocks(from).map(|block| block.start()).collect()
    }

    #[test]
    fn finds_a_place_and_forgets_the_oldest() {
        let directory = tempfile::tempdir().unwrap();
        let mut spill = Spill::new(directory.path(), SIZE, 3);
        for start in [0, 10, 20] {
            spill.make_room(0);
            spill.append(&block(start, "0123456789")).unwrap();
        }
        assert_eq!(starts(&spill, 0), [0, 10, 20]);
        assert_eq!(starts(&spill, 19), [10, 20]);
        assert!(starts(&spill, 30).is_empty());
        assert_eq!(spill.make_room(0), Some(10), "there are three slots only");
        spill.append(&block(40, "after a gap")).unwrap();
        assert_eq!(starts(&spill, 0), [10, 20, 40]);
        assert_eq!(starts(&spill, 35), [40]);
        assert_eq!(spill.make_room(30), None);
        assert_eq!(starts(&spill, 0), [40]);
        assert_eq!(spill.make_room(51), None);
        assert!(starts(&spill, 0).is_empty());
        assert_eq!(spill.file.as_ref().unwrap().metadata().unwrap().len() as usize, 2 * SIZE + 16 + 8 + 10);
    }

    #[test]
    fn makes_the_directory_when_it_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("state/logs");
        let mut spill = Spill::new(&missing, SIZE, 3);
        assert!(!missing.exists());
        spill.append(&block(0, "x")).unwrap();
        assert_eq!(std::fs::metadata(missing).unwrap().mode() & 0o777, 0o700);
    }

    /// A file that holds two slots and cannot grow, as on a full disk.
    fn full_after_two() -> Spill {
        // SAFETY: the name is a C string; the result is a new descriptor without an owner.
        let file = unsafe {
            let fd = libc::memfd_create(c"full".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            assert!(fd >= 0);
            File::from_raw_fd(fd)
        };
        file.set_len(2 * SIZE as u64).unwrap();
        // SAFETY: a plain fcntl call on an open descriptor.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_GROW) }, 0);
        let mut spill = Spill::new(Path::new("/nonexistent"), SIZE, 9);
        spill.file = Some(file);
        spill
    }

    #[test]
    fn a_failed_write_changes_nothing() {
        let mut spill = full_after_two();
        for start in [0, 10] {
            spill.append(&block(start, "0123456789")).unwrap();
        }
        assert!(spill.append(&block(20, "0123456789")).is_err());
        assert_eq!(starts(&spill, 0), [0, 10]);
    }

    #[test]
    fn a_file_that_can_not_grow_is_used_again_when_all_in_it_is_old() {
        let mut spill = full_after_two();
        for start in [0, 10] {
            spill.append(&block(start, "0123456789")).unwrap();
        }
        assert_eq!(spill.make_room(15), None);
        assert!(spill.append(&block(20, "0123456789")).is_err());
        assert_eq!(spill.make_room(20), None);
        spill.append(&block(30, "0123456789")).unwrap();
        assert_eq!(starts(&spill, 0), [30]);
    }

    #[test]
    fn a_file_that_can_not_be_read_has_no_blocks() {
        let mut spill = full_after_two();
        spill.append(&block(0, "0123456789")).unwrap();
        spill.file = Some(File::options().write(true).open("/dev/null").unwrap());
        assert!(starts(&spill, 0).is_empty());
        assert_eq!(spill.make_room(0), None);
    }
}
