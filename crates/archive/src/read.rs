//! Reads an archive, which may be damaged, foreign or hostile.

use crate::entry::{check, checksum};
use crate::write::title;
use crate::{
    About, BLOCK, Entry, FORMAT, MAX_ABOUT_BYTES, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_STATE_BYTES, Refused, SUM_BYTES,
    TITLE,
};
use nacre_protocol::message;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use zstd::Decoder;

/// The power of two that the memory for decompression has at most: four times what a writer needs.
const MAX_WINDOW_LOG: u32 = 23;

/// An archive that is being read: states first, then entries, then contents in the order of the entries.
pub struct Archive<R = File> {
    about: About,
    stream: Decoder<'static, BufReader<R>>,
}

impl<R: Read + Seek> Archive<R> {
    /// Opens an archive, after its checksum has been found right.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn open(mut file: R) -> Result<Self, Refused> {
        file.seek(SeekFrom::Start(0))?;
        let mut found = Vec::new();
        (&mut file).take(title().len() as u64).read_to_end(&mut found)?;
        check_title(&found)?;
        let mut sum = Vec::new();
        (&mut file).take(SUM_BYTES as u64).read_to_end(&mut sum)?;
        let begins = file.stream_position()?;
        if checksum(&mut file)?[..] != sum[..] {
            return Err(Refused::damaged());
        }
        file.seek(SeekFrom::Start(begins))?;
        let mut stream = Decoder::with_buffer(BufReader::with_capacity(BLOCK, file))?.single_frame();
        stream.window_log_max(MAX_WINDOW_LOG)?;
        let mut length = [0; 4];
        exact(&mut stream, &mut length)?;
        let length = u32::from_le_bytes(length);
        if length > MAX_ABOUT_BYTES {
            return Err(Refused::damaged());
        }
        let about = part(&mut stream, length.into())?;
        let about: About = serde_json::from_slice(&about).map_err(|_| Refused::damaged())?;
        let is_bounded = about.format == FORMAT
            && about.state_bytes <= MAX_STATE_BYTES
            && about.entry_bytes <= MAX_ENTRY_BYTES
            && about.entries <= MAX_ENTRIES;
        if is_bounded { Ok(Self { about, stream }) } else { Err(Refused::damaged()) }
    }

    /// What it says about itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// The states of the shells.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn states(&mut self) -> Result<Vec<u8>, Refused> {
        part(&mut self.stream, self.about.state_bytes)
    }

    /// All entries, after the states. They can be unpacked into an empty directory, and their contents have at most `max_bytes`.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn entries(&mut self, max_bytes: u64) -> Result<Vec<Entry>, Refused> {
        let encoded = part(&mut self.stream, self.about.entry_bytes)?;
        let (mut rest, mut entries) = (&encoded[..], Vec::new());
        for _ in 0..self.about.entries {
            let (entry, next) = message::decode_first(rest).map_err(|_| Refused::damaged())?;
            entries.push(entry);
            rest = next;
        }
        if !rest.is_empty() {
            return Err(Refused::damaged());
        }
        let bytes = if entries.is_empty() { 0 } else { check(&entries)? };
        if bytes > max_bytes {
            return Refused::because(format!(
                "its files have {bytes} bytes, and maxBytes is {max_bytes}: raise it if you trust the archive"
            ));
        }
        Ok(entries)
    }

    /// Passes the next content, of so many bytes, to `take` in pieces.
    ///
    /// # Errors
    /// [`Refused`], and those of `take`.
    pub fn content(&mut self, size: u64, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), Refused> {
        let mut block = [0; BLOCK];
        let mut left = size;
        while left > 0 {
            let most = left.min(BLOCK as u64) as usize;
            exact(&mut self.stream, &mut block[..most])?;
            take(&block[..most])?;
            left -= most as u64;
        }
        Ok(())
    }

    /// Makes sure that nothing follows.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn end(mut self) -> Result<(), Refused> {
        let follows = self.stream.read(&mut [0]).map_err(of_stream)? > 0;
        if follows || !self.stream.finish().fill_buf()?.is_empty() { Err(Refused::damaged()) } else { Ok(()) }
    }
}

fn check_title(found: &[u8]) -> Result<(), Refused> {
    if found == title() {
        return Ok(());
    }
    // The number of a later format may have two digits.
    let is_foreign = match found.strip_prefix(TITLE) {
        Some([number, b'\n']) => number.is_ascii_digit(),
        Some(numbers @ [_, _]) => numbers.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if is_foreign {
        return Refused::because("another version of nacre has written it, in a format that this one does not read");
    }
    Refused::because("it is no archive of a sandbox")
}

/// Reads so many bytes, and allocates no more than there are.
fn part(stream: &mut impl Read, length: u64) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    stream.take(length).read_to_end(&mut bytes).map_err(of_stream)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(Refused::damaged()) }
}

fn exact(stream: &mut impl Read, bytes: &mut [u8]) -> Result<(), Refused> {
    stream.read_exact(bytes).map_err(of_stream)
}

/// Errors without a number are those of the compression.
fn of_stream(error: io::Error) -> Refused {
    if error.raw_os_error().is_some() { Refused::System(error) } else { Refused::damaged() }
}
