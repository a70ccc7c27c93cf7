//! Private copies of files that programs may change for themselves, but not for the machine.
//!
//! A program replaces a file by renaming another one to its name, which fails on a mount point. git first follows a link, and
//! replaces what that leads to. So the mount that covers the file shows a link, to a copy in the private directory for
//! temporary files.

use crate::paths::owned;
use nacre_protocol::confinement::PRIVATE_TMP;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

/// The directory of the copies.
const DIRECTORY: &str = ".nacre-copies";
/// Maximum bytes of a copy.
const MAX_BYTES: u64 = 1024 * 1024;
/// Maximum copies.
const MAX_COPIES: usize = 1000;

/// Makes a copy of a file in a private directory, which programs see at [`PRIVATE_TMP`]. Returns the unattached mount of a link
/// to it. `None` for a file that cannot be copied.
///
/// # Errors
/// Those of the system calls.
pub fn make(file: &Path, private: &Path) -> io::Result<Option<OwnedFd>> {
    let Some(content) = content(file)? else { return Ok(None) };
    let directory = private.join(DIRECTORY);
    // Whatever the umask is: programs may run as another user, and nothing else sees it.
    let open = |path: &Path, mode: u32| fs::set_permissions(path, Permissions::from_mode(mode));
    match DirBuilder::new().create(&directory) {
        Ok(()) => open(&directory, 0o1777)?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let numbers = (0..MAX_COPIES).map(|number| number.to_string());
    let Some(number) = numbers.into_iter().find(|number| !directory.join(number).exists()) else { return Ok(None) };
    let (own, name) = (directory.join(&number), file.file_name().unwrap_or_default());
    DirBuilder::new().create(&own)?;
    open(&own, 0o777)?;
    fs::write(own.join(name), content)?;
    open(&own.join(name), 0o666)?;
    let link = own.join("link");
    symlink(Path::new(PRIVATE_TMP).join(DIRECTORY).join(number).join(name), &link)?;
    clone_link(&link).map(Some)
}

/// `None` for what is no regular file, or too large.
fn content(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        // Without a copy, the original is read-only.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        return Ok((bytes.len() as u64 <= MAX_BYTES).then_some(bytes));
    }
    Ok(None)
}

/// Copies the mount of a link, without attaching it.
fn clone_link(link: &Path) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let opened: OwnedFd = File::options().read(true).custom_flags(flags).open(link)?.into();
    let empty = CString::default();
    let flags = 1 | libc::O_CLOEXEC as libc::c_uint | libc::AT_EMPTY_PATH as libc::c_uint;
    // SAFETY: the path outlives the call.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, opened.as_raw_fd(), empty.as_ptr(), flags) })
}
