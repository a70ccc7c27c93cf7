//! Private copies of git's config files, which programs may change for themselves, but not for the machine.
//!
//! A program replaces a file by renaming another one to its name, which fails on a mount point. git first follows a link, and
//! replaces what that leads to. So the mount that covers the file shows a link, to a copy in the private directory for
//! temporary files. [`crate::git_config`] gives back to the machine what is harmless.

use crate::git_config::{MAX_BYTES, Made, NAME, stamp_of};
use crate::paths::{clone_mount, open_regular};
use nacre_protocol::confinement::PRIVATE_TMP;
use nacre_protocol::message;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mount::OpenTreeFlags;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The directory of the copies.
const DIRECTORY: &str = ".nacre-copies";
/// Maximum bytes of all copies.
const MAX_TOTAL: u64 = 16 * 1024 * 1024;

/// The copies of a session, while they are made.
#[derive(Default)]
pub struct Copies {
    directory: Option<OwnedFd>,
    made: Vec<Made>,
    bytes: u64,
}

impl Copies {
    /// Makes a copy of a file in a private directory, which programs see at [`PRIVATE_TMP`]. `file` is where it can be read, `real`
    /// its path on the machine. Returns the unattached mount of a link to the copy. `None` for a file that cannot be copied.
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn make(&mut self, real: &Path, file: &Path, private: &Path) -> io::Result<Option<OwnedFd>> {
        let directory = private.join(DIRECTORY);
        // A mount can show it at two places.
        if let Some((number, made)) = self.made.iter().enumerate().find(|(_, made)| made.path == real) {
            return made.stamp.as_ref().map(|_| clone_link(&link(private, number))).transpose();
        }
        let Some(text) = content(file, MAX_TOTAL - self.bytes)? else {
            // It has a number all the same.
            self.made.push(Made { path: real.to_path_buf(), text: Vec::new(), stamp: None });
            return Ok(None);
        };
        // Whatever the umask is: programs may run as another user, and nothing else sees it.
        let open = |path: &Path, mode: u32| fs::set_permissions(path, Permissions::from_mode(mode));
        if self.directory.is_none() {
            DirBuilder::new().create(&directory)?;
            open(&directory, 0o1777)?;
            self.directory = Some(File::open(&directory)?.into());
        }
        let number = self.made.len();
        let (own, link) = (place(private, number), link(private, number));
        DirBuilder::new().create(&own)?;
        open(&own, 0o777)?;
        let copy = own.join(NAME);
        fs::write(&copy, &text)?;
        open(&copy, 0o666)?;
        symlink(place(Path::new(PRIVATE_TMP), number).join(NAME), &link)?;
        self.bytes += text.len() as u64;
        let stamp = nix::sys::stat::lstat(&copy).ok().as_ref().map(stamp_of);
        self.made.push(Made { path: real.to_path_buf(), text, stamp });
        clone_link(&link).map(Some)
    }

    /// What the host needs to compare them: see [`crate::git_config::GitConfigs::take`].
    ///
    /// # Errors
    /// Those of the system calls.
    pub fn finish(self) -> io::Result<Vec<OwnedFd>> {
        let Some(directory) = self.directory else { return Ok(Vec::new()) };
        let mut list = File::from(memfd_create(c"nacre", MemfdFlags::CLOEXEC)?);
        list.write_all(&message::encode(&self.made)?)?;
        Ok(vec![directory, list.into()])
    }
}

/// `None` for what is no regular file, or too large.
fn content(path: &Path, left: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open_regular(path) {
        // Without a copy, the original is read-only.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        file => file?,
    };
    let Some(file) = file else { return Ok(None) };
    let mut bytes = Vec::new();
    let most = MAX_BYTES.min(left);
    file.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// The directory of a copy, below a private directory. They have numbers in the order in which they are made.
fn place(private: &Path, number: usize) -> PathBuf {
    private.join(DIRECTORY).join(number.to_string())
}

/// The link to a copy; see [`place`].
pub(crate) fn link(private: &Path, number: usize) -> PathBuf {
    place(private, number).join("link")
}

/// Copies the mount of a link, without attaching it.
pub(crate) fn clone_link(link: &Path) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let opened: OwnedFd = File::options().read(true).custom_flags(flags).open(link)?.into();
    clone_mount(&opened, OpenTreeFlags::empty())
}
