//! The extended attributes of an open file (xattr(7)).

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;

/// Names and values.
pub type Attributes = HashMap<String, String>;

/// The kernel's limit for the names of one file, and for one value. Here also for all values together.
const MAX_BYTES: usize = 64 * 1024;

/// Those whose names begin with a prefix. Values that are not UTF-8, or do not fit, are left out.
pub fn read(file: &File, prefix: &str) -> Result<Attributes, Errno> {
    let mut names = Vec::with_capacity(MAX_BYTES);
    match flistxattr(file, rustix::buffer::spare_capacity(&mut names)) {
        Err(Errno::NOTSUP) => return Ok(Attributes::new()),
        listed => listed?,
    };
    let mut values = Vec::with_capacity(MAX_BYTES);
    let mut found = Attributes::new();
    for name in names.split(|&byte| byte == 0) {
        let Some(name) = std::str::from_utf8(name).ok().filter(|name| name.starts_with(prefix)) else { continue };
        let start = values.len();
        match fgetxattr(file, name, rustix::buffer::spare_capacity(&mut values)) {
            // A program has removed it, or it is too large.
            Err(Errno::NODATA | Errno::RANGE) => continue,
            read => read?,
        };
        if let Ok(value) = std::str::from_utf8(&values[start..]) {
            found.insert(name.into(), value.into());
        }
    }
    Ok(found)
}

/// Adds attributes, or gives them new values.
pub fn write(file: &File, attributes: &Attributes) -> Result<(), Errno> {
    attributes.iter().try_for_each(|(name, value)| fsetxattr(file, &name[..], value.as_bytes(), XattrFlags::empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_by_their_prefix_and_within_the_bounds() {
        let file = tempfile::tempfile().unwrap();
        let text = |name: &str, value: &str| (name.to_string(), value.to_string());
        assert_eq!(read(&file, "user.a.").unwrap(), Attributes::new());
        let own = Attributes::from([text("user.a.one", "1"), text("user.a.empty", "")]);
        write(&file, &own).unwrap();
        write(&file, &Attributes::from([text("user.b.other", "2")])).unwrap();
        fsetxattr(&file, "user.a.bytes", b"\xff", XattrFlags::empty()).unwrap();
        assert_eq!(read(&file, "user.a.").unwrap(), own);
        write(&file, &Attributes::from([text("user.a.one", "3")])).unwrap();
        assert_eq!(read(&file, "user.a.one").unwrap(), Attributes::from([text("user.a.one", "3")]));
        let proc = File::open("/proc/self/status").unwrap();
        assert_eq!(read(&proc, "user.").unwrap(), Attributes::new());
    }
}
