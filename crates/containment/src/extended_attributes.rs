//! Extended attributes (xattr(7)): how they are read, and whose they are.

use rustix::io::{Errno, Result};

/// Maximum bytes of an attribute, and of a list of them.
const MAX_BYTES: usize = 64 * 1024;

/// What a call writes to a buffer. Most lists and values are short.
///
/// # Errors
/// Those of the call.
pub fn filled(call: impl Fn(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut short = [0; 256];
    match call(&mut short) {
        Err(Errno::RANGE) => {}
        length => return Ok(short[..length?].to_vec()),
    }
    let mut long = vec![0; MAX_BYTES];
    let length = call(&mut long)?;
    long.truncate(length);
    Ok(long)
}

/// Whether an attribute is the kernel's, in a layer.
pub fn is_mark(name: &[u8]) -> bool {
    name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.")
}

/// Whether an attribute belongs to a security module, which gives its own.
pub fn is_label(name: &[u8]) -> bool {
    name.starts_with(b"security.selinux") || name.starts_with(b"security.ima")
}
