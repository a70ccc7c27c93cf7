//! Archives that no writer makes, for tests and the fuzz targets in `fuzz/`. The linker leaves this out of the supervisor.

use crate::SUM_BYTES;
use crate::entry::checksum;
use crate::write::title;
use std::io;

/// The archive with this compressed content, and the right checksum.
///
/// # Errors
/// Those of the compression.
pub fn forged(content: &[u8]) -> io::Result<Vec<u8>> {
    sealed(&zstd::encode_all(content, 1)?)
}

/// The same with what follows the checksum.
///
/// # Errors
/// None.
pub fn sealed(rest: &[u8]) -> io::Result<Vec<u8>> {
    let sum: [u8; SUM_BYTES] = checksum(rest)?;
    Ok([&title()[..], &sum, rest].concat())
}
