//! Binary patches: deflated content in lines of base 85, as git writes them.

use super::Limited;
use super::version::Version;
use crate::failure::Failure;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::{self, Write};

/// The digits of git's base 85.
const DIGITS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Bytes of a line, before they are encoded.
const LINE: usize = 52;

/// Writes the complete content of a version, which replaces that of the other one.
pub fn literal<W: Write>(out: &mut Limited<W>, version: Option<&Version>, path: &[u8]) -> Result<(), Failure> {
    let size = version.map_or(0, Version::size);
    writeln!(out, "literal {size}").map_err(|error| out.failure(&error))?;
    let mut encoder = ZlibEncoder::new(EncodedLines { out, line: Vec::with_capacity(LINE) }, Compression::default());
    if let Some(version) = version {
        version.read(path, |block| encoder.write_all(block).map_err(|error| encoder.get_ref().out.failure(&error)))?;
    }
    let written = encoder.try_finish().and_then(|()| encoder.get_mut().end());
    written.map_err(|error| encoder.get_ref().out.failure(&error))
}

/// Encodes bytes in lines.
struct EncodedLines<'a, W: Write> {
    out: &'a mut Limited<W>,
    line: Vec<u8>,
}

impl<W: Write> EncodedLines<'_, W> {
    /// Writes the last line, and the empty one that ends the content.
    fn end(&mut self) -> io::Result<()> {
        self.write_line()?;
        self.out.write_all(b"\n")
    }

    fn write_line(&mut self) -> io::Result<()> {
        let length = self.line.len() as u8;
        let letter = match length {
            0 => return Ok(()),
            1..=26 => b'A' + length - 1,
            _ => b'a' + length - 27,
        };
        let mut text = vec![letter];
        for four in self.line.chunks(4) {
            let mut bytes = [0; 4];
            bytes[..four.len()].copy_from_slice(four);
            let mut number = u32::from_be_bytes(bytes);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = DIGITS[(number % 85) as usize];
                number /= 85;
            }
            text.extend_from_slice(&digits);
        }
        text.push(b'\n');
        self.line.clear();
        self.out.write_all(&text)
    }
}

impl<W: Write> Write for EncodedLines<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(LINE - self.line.len());
        self.line.extend_from_slice(&bytes[..taken]);
        if self.line.len() == LINE {
            self.write_line()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
