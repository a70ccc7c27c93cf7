//! A pseudoterminal: the host holds the master, and a process gets the other side.

use crate::sys;
use rustix::termios::{LocalModes, tcgetattr, tcgetwinsize};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
}

/// How a terminal hands out what is typed (termios(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// By lines (`ICANON`), not by keys.
    pub reads_lines: bool,
    /// What is typed is shown (`ECHO`).
    pub echoes: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Terminal {
    master: OwnedFd,
    /// The path of the process's side.
    pub path: PathBuf,
}

impl Terminal {
    /// Opens a new terminal. `owner` is its user, if not this process's. `root` is the root directory of the process
    /// that gets the terminal, which may have its own terminals.
    pub fn open(size: Size, owner: Option<(u32, u32)>, root: &Path) -> io::Result<Self> {
        let mut name = [0; 64];
        // SAFETY: the first call returns a new descriptor or -1; the others use it, and the name is written within
        // the buffer, with NUL at the end.
        let (master, path) = unsafe {
            let flags = libc::O_NOCTTY | libc::O_NONBLOCK;
            let master = File::options().read(true).write(true).custom_flags(flags).open(root.join("dev/ptmx"))?;
            let master = OwnedFd::from(master);
            let raw = master.as_raw_fd();
            if libc::grantpt(raw) < 0
                || libc::unlockpt(raw) < 0
                || libc::ptsname_r(raw, name.as_mut_ptr(), name.len()) != 0
            {
                return Err(io::Error::last_os_error());
            }
            let path = CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned();
            (master, root.join(path.trim_start_matches('/')))
        };
        if let Some((uid, gid)) = owner {
            std::os::unix::fs::chown(&path, Some(uid), Some(gid))?;
        }
        let terminal = Self { master, path };
        terminal.resize(size)?;
        Ok(terminal)
    }

    /// Sets the size. The kernel notifies the terminal's foreground processes (SIGWINCH).
    pub fn resize(&self, size: Size) -> io::Result<()> {
        let size = libc::winsize { ws_row: size.rows, ws_col: size.cols, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the structure outlives the call.
        if unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Its present mode.
    ///
    /// # Errors
    /// Those of tcgetattr(3).
    pub fn mode(&self) -> io::Result<Mode> {
        let flags = tcgetattr(&self.master)?.local_modes;
        Ok(Mode { reads_lines: flags.contains(LocalModes::ICANON), echoes: flags.contains(LocalModes::ECHO) })
    }

    /// Its present size.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(&self.master)?;
        Ok(Size { cols: size.ws_col, rows: size.ws_row })
    }

    /// Opens the process's side. It closes on exec and does not become this process's controlling terminal.
    pub fn open_other_side(&self) -> io::Result<OwnedFd> {
        Ok(File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(&self.path)?.into())
    }

    /// Opens another non-blocking descriptor of the master, for reading or writing.
    pub fn side(&self) -> io::Result<OwnedFd> {
        let side = self.master.try_clone()?;
        sys::set_nonblocking(&side)?;
        Ok(side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_a_path_and_a_size() {
        let terminal = Terminal::open(Size { cols: 100, rows: 30 }, None, Path::new("/")).unwrap();
        let slave = std::fs::File::options().read(true).write(true).open(&terminal.path).unwrap();
        let output = std::process::Command::new("stty").arg("size").stdin(slave).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "30 100\n");
    }
}
