//! What an idle shell holds open that belongs to a mount: it would not be shared with what is opened on another mount.

use nacre_containment::pid::Pid;
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Whether a process has a named pipe or a locked file open. True if it cannot be looked up.
pub fn holds_pipe_or_lock(pid: Pid) -> bool {
    look(Path::new(&format!("/proc/{}", pid.raw()))).unwrap_or(true)
}

fn look(process: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(process.join("fd"))? {
        let name = entry?.file_name();
        let descriptor = process.join("fd").join(&name);
        // Others are named like `pipe:[7]`.
        if !fs::read_link(&descriptor)?.is_absolute() {
            continue;
        }
        let is_pipe = fs::metadata(&descriptor)?.file_type().is_fifo();
        if is_pipe || fs::read_to_string(process.join("fdinfo").join(&name))?.contains("\nlock:") {
            return Ok(true);
        }
    }
    Ok(false)
}
