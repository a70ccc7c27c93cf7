//! Writes an archive.

use crate::entry::check;
use crate::{
    About, BLOCK, Entry, FORMAT, MAX_ABOUT_BYTES, MAX_ENTRY_BYTES, MAX_STATE_BYTES, Refused, SUM_BYTES, TITLE, What,
};
use nacre_protocol::message;
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use zstd::Encoder;

/// How hard the compression tries, as `zstd` does by default.
const LEVEL: i32 = 3;

/// Adds up what passes.
struct Summed<W> {
    to: W,
    sum: Sha1,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.to.write(bytes)?;
        self.sum.update(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes an archive to an empty file, and brings it to the disk. Returns its bytes. `about` need not have any number.
/// `open` opens the content of the file with this number.
///
/// # Errors
/// Those of the system calls and of `open`; [`Refused::Because`] for what no archive may have.
pub fn write(
    mut file: &File,
    about: About,
    states: &[u8],
    entries: &[Entry],
    mut open: impl FnMut(usize) -> io::Result<File>,
) -> Result<u64, Refused> {
    let bytes = check(entries)?;
    let mut encoded = Vec::new();
    for entry in entries {
        encoded.extend(message::encode(entry)?);
    }
    let files = entries.iter().filter(|entry| !matches!(entry.what, What::Deleted)).count();
    let about = About {
        format: FORMAT,
        files: files.saturating_sub(1) as u64,
        bytes,
        state_bytes: states.len() as u64,
        entries: entries.len() as u64,
        entry_bytes: encoded.len() as u64,
        ..about
    };
    if about.state_bytes > MAX_STATE_BYTES || about.entry_bytes > MAX_ENTRY_BYTES {
        return Refused::because("its shells have more than 512 MiB, or its paths more than 256 MiB");
    }
    let about = serde_json::to_vec(&about).map_err(io::Error::from)?;
    let length = u32::try_from(about.len()).ok().filter(|length| *length <= MAX_ABOUT_BYTES);
    let Some(length) = length else { return Refused::because("the list of what is missing is too long") };

    let title = title();
    file.write_all(&[&title[..], &[0; SUM_BYTES]].concat())?;
    let summed = Summed { to: BufWriter::with_capacity(BLOCK, file), sum: Sha1::new() };
    let mut stream = Encoder::new(summed, LEVEL)?;
    stream.write_all(&length.to_le_bytes())?;
    for part in [&about, states, &encoded] {
        stream.write_all(part)?;
    }
    let mut block = vec![0; BLOCK];
    for (number, entry) in entries.iter().enumerate() {
        let What::File(size) = entry.what else { continue };
        if size > 0 {
            copy(&mut open(number)?, &mut stream, size, &mut block)?;
        }
    }
    let mut summed = stream.finish()?;
    summed.flush()?;
    let sum = summed.sum.finalize();
    drop(summed.to);
    file.seek(SeekFrom::Start(title.len() as u64))?;
    file.write_all(&sum)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// Copies exactly so many bytes.
fn copy(from: &mut File, to: &mut impl Write, mut left: u64, block: &mut [u8]) -> io::Result<()> {
    while left > 0 {
        let most = left.min(block.len() as u64) as usize;
        let length = from.read(&mut block[..most])?;
        if length == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file became shorter meanwhile"));
        }
        to.write_all(&block[..length])?;
        left -= length as u64;
    }
    Ok(())
}

/// The first line.
pub(crate) fn title() -> Vec<u8> {
    [TITLE, FORMAT.to_string().as_bytes(), b"\n"].concat()
}
