//! The events of a watch: from the kernel, and to the host.

use super::connection::Connection;
use super::failure::Stop;
use nacre_protocol::files::{BATCH_BYTES, Event, FilesReply};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::inotify::{ReadFlags, Reader};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// An event of the kernel.
pub struct Happened {
    /// The watch that it belongs to.
    pub watch: i32,
    /// What happened.
    pub flags: ReadFlags,
    /// Connects the two halves of a rename.
    pub cookie: u32,
    /// The name in the watched directory; empty for the directory itself.
    pub name: Vec<u8>,
}

/// Waits for the next events; `None` if the time is over.
///
/// # Errors
/// The host has closed the connection.
pub fn wait(connection: &Connection, inotify: &OwnedFd, limit: PollTimeout) -> Result<Option<Vec<Happened>>, Stop> {
    let mut fds =
        [PollFd::new(inotify.as_fd(), PollFlags::POLLIN), PollFd::new(connection.socket(), PollFlags::empty())];
    let _ = poll(&mut fds, limit);
    if fds[1].any().unwrap_or(true) {
        return Err(Stop::Cancelled);
    }
    Ok(fds[0].any().unwrap_or(true).then(|| read(inotify)))
}

fn read(inotify: &OwnedFd) -> Vec<Happened> {
    let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
    let mut happened = Vec::new();
    let mut reader = Reader::new(inotify, &mut buffer);
    loop {
        match reader.next() {
            Ok(event) => happened.push(Happened {
                watch: event.wd(),
                flags: event.events(),
                cookie: event.cookie(),
                name: event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default(),
            }),
            Err(Errno::INTR) => continue,
            Err(_) => break,
        }
        if reader.is_buffer_empty() {
            break;
        }
    }
    happened
}

/// Sends events to the host.
pub fn send(connection: &Connection, events: Vec<Event>) -> Result<(), Stop> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for event in events {
        bytes += 16 + event.path.len() + event.old_path.as_ref().map_or(0, Vec::len);
        batch.push(event);
        if bytes >= BATCH_BYTES {
            connection.send(&FilesReply::Events(std::mem::take(&mut batch)))?;
            bytes = 0;
        }
    }
    if batch.is_empty() { Ok(()) } else { connection.send(&FilesReply::Events(batch)) }
}
