//! What a call wants to use, which the broker looks at without deciding about it.

use super::judge::Address;
use super::kind::{Does, Paths, Place};
use super::notification::Call;
use crate::explain::Use;
use crate::foreign::{read_memory, read_text};
use crate::paths::plain;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What a waiting call wants to use: paths from the root, without `.` and `..`. Nothing that cannot be read.
pub fn attempts(call: &Call, paths: Paths) -> Vec<(PathBuf, Use)> {
    paths.iter().filter_map(|(place, does)| attempt(call, *place, *does)).collect()
}

fn attempt(call: &Call, place: Place, does: Does) -> Option<(PathBuf, Use)> {
    let (directory, address) = call.path(place);
    let (name, wanted) = match does {
        Does::Uses(wanted) => (text_of(call, address)?, wanted),
        Does::Opens(flags) => (text_of(call, address)?, opens(call.arguments[flags] as i32)),
        Does::Binds(length) => {
            let bytes = read_memory(call.thread, address, call.arguments[length] as u32 as usize).ok()?;
            let Address::Path(name) = Address::read(&bytes) else { return None };
            (name, Use::Create)
        }
    };
    if name.is_absolute() {
        return Some((plain(&name), wanted));
    }
    let from = match directory {
        libc::AT_FDCWD => format!("/proc/{}/cwd", call.thread),
        descriptor => format!("/proc/{}/fd/{descriptor}", call.thread),
    };
    let from = std::fs::read_link(from).ok().filter(|from| from.is_absolute())?;
    // The descriptor itself.
    (!name.as_os_str().is_empty()).then(|| (plain(&from.join(name)), wanted))
}

fn text_of(call: &Call, address: u64) -> Option<PathBuf> {
    Some(PathBuf::from(OsString::from_vec(read_text(call.thread, address)?)))
}

fn opens(flags: i32) -> Use {
    let changes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    match (changes, flags & libc::O_CREAT != 0) {
        _ if flags & libc::O_PATH != 0 => Use::Read,
        // A file without a name, in this directory.
        _ if flags & libc::O_TMPFILE == libc::O_TMPFILE => Use::Read,
        (true, true) => Use::Write,
        (true, false) => Use::Change,
        (false, true) => Use::Ensure,
        (false, false) => Use::Read,
    }
}
