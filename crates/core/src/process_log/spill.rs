//! The blocks of a log that do not fit into memory, in the slots of one unnamed file.
//!
//! The file system may be slow, or not respond at all. So only threads that may block read and write the file, and they
//! hold no lock meanwhile. The index is in memory: a block in the file is known by its slot.
//!
//! The file never has a name that outlives the call that opens it, so nothing remains however this process ends. A
//! failed write (usually a full disk) changes nothing, and the next write tries again.

use super::block::{Block, HEADER_BYTES, Header};
use super::unnamed::StateDirectory;
use nacre_containment::lock::Lock;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

/// The file of one log. Clones share it.
#[derive(Clone, Debug)]
pub struct Spill(Arc<SharedSpill>);

#[derive(Debug)]
struct SharedSpill {
    directory: Arc<StateDirectory>,
    block_size: usize,
    file: OnceLock<File>,
    slots: Lock<Slots>,
}

#[derive(Debug)]
struct Slots {
    /// Used before. They come first: on a full disk, they are the only available space.
    free: Vec<u64>,
    /// The number of slots that were ever used.
    used: u64,
    most: u64,
}

/// A place in the file. It is free again when it is dropped: a reader keeps the slots that it reads.
#[derive(Debug)]
pub struct Slot {
    number: u64,
    spill: Spill,
}

impl Spill {
    /// Creates room for `slots` blocks of `block_size` bytes. The file is created on first use.
    pub fn new(directory: &Arc<StateDirectory>, block_size: usize, slots: u64) -> Self {
        let slots = Lock::new(Slots { free: Vec::new(), used: 0, most: slots });
        Self(Arc::new(SharedSpill { directory: Arc::clone(directory), block_size, file: OnceLock::new(), slots }))
    }

    /// Takes a free slot; `None` if there is none.
    pub fn take_slot(&self) -> Option<Slot> {
        let mut slots = self.0.slots.lock();
        let number = slots.free.pop().or_else(|| {
            let next = slots.used;
            slots.used += u64::from(next < slots.most);
            (next < slots.most).then_some(next)
        })?;
        Some(Slot { number, spill: self.clone() })
    }

    /// Opens the file on first use.
    fn open(&self) -> io::Result<&File> {
        if let Some(file) = self.0.file.get() {
            return Ok(file);
        }
        let file = self.0.directory.open()?;
        Ok(self.0.file.get_or_init(|| file))
    }
}

impl Slot {
    /// Writes a block. May block.
    pub fn write(&self, block: &Block) -> io::Result<()> {
        let file = self.spill.open()?;
        let head = block.encode_head();
        file.write_all_at(&head, self.position())?;
        file.write_all_at(block.bytes(), self.position() + head.len() as u64)
    }

    /// Reads the block back. May block.
    pub fn read(&self) -> io::Result<Block> {
        let file = self.spill.0.file.get().ok_or(ErrorKind::NotFound)?;
        let mut head = [0; HEADER_BYTES];
        file.read_exact_at(&mut head, self.position())?;
        let header = Header::decode(head);
        let length = header.body_len();
        if length > self.spill.0.block_size {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        file.read_exact_at(&mut body, self.position() + HEADER_BYTES as u64)?;
        Ok(header.block(body))
    }

    fn position(&self) -> u64 {
        self.number * self.spill.0.block_size as u64
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.spill.0.slots.lock().free.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::OutputStream::Stdout;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    const SIZE: usize = 64;

    fn at(path: &Path) -> Arc<StateDirectory> {
        Arc::new(StateDirectory::new(path.into()))
    }

    fn block(start: u64, bytes: &str) -> Block {
        let mut block = Block::new(start, Default::default());
        assert_eq!(block.push(SIZE, Stdout, bytes.as_bytes(), 1), bytes.len());
        block
    }

    #[test]
    fn slots_that_were_used_come_first_and_no_more_than_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        let spill = Spill::new(&at(directory.path()), SIZE, 3);
        let slots: Vec<Slot> = std::iter::from_fn(|| spill.take_slot()).collect();
        assert_eq!(slots.iter().map(|slot| slot.number).collect::<Vec<_>>(), [0, 1, 2]);
        for (slot, start) in slots.iter().zip([0, 10, 20]) {
            slot.write(&block(start, "0123456789")).unwrap();
        }
        assert_eq!(slots[1].read().unwrap(), block(10, "0123456789"));
        drop(slots.into_iter().nth(1));
        assert_eq!(spill.0.slots.lock().free.len(), 3);
        assert!(spill.take_slot().is_some_and(|slot| slot.number < 3));
    }

    #[test]
    fn makes_the_directory_when_it_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("state/logs");
        let spill = Spill::new(&at(&missing), SIZE, 3);
        let slot = spill.take_slot().unwrap();
        assert!(!missing.exists());
        slot.write(&block(0, "x")).unwrap();
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
        let spill = Spill::new(&at(Path::new("/dev/null/nonexistent")), SIZE, 9);
        spill.0.file.set(file).unwrap();
        spill
    }

    #[test]
    fn a_full_disk_fails_new_slots_and_used_ones_stay_usable() {
        let spill = full_after_two();
        let [one, two, three] = [0, 10, 20].map(|start| (spill.take_slot().unwrap(), block(start, "0123456789")));
        one.0.write(&one.1).unwrap();
        two.0.write(&two.1).unwrap();
        assert!(three.0.write(&three.1).is_err());
        assert_eq!((one.0.read().unwrap(), two.0.read().unwrap()), (one.1, two.1));
        drop(three.0);
        drop(two.0);
        spill.take_slot().unwrap().write(&three.1).unwrap();
    }

    #[test]
    fn a_file_that_can_not_be_read_is_an_error() {
        let spill = Spill::new(&at(Path::new("/dev/null/nonexistent")), SIZE, 9);
        spill.0.file.set(File::options().write(true).open("/dev/null").unwrap()).unwrap();
        let slot = spill.take_slot().unwrap();
        slot.write(&block(0, "0123456789")).unwrap();
        assert!(slot.read().is_err());
    }
}
