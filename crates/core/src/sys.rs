//! Thin safe wrappers for system calls that the standard library does not offer in the required form.

use nacre_containment::lock::Lock;
use nacre_containment::pid::Pid;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::pipe2;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A pipe: read end, write end. Both close on exec, both block.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe2(OFlag::O_CLOEXEC)?)
}

/// A pipe whose read end does not block.
pub fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe()?;
    // It has no other status flags.
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((reader, writer))
}

/// `/dev/null`, opened once for the process.
pub fn null() -> io::Result<Arc<OwnedFd>> {
    static NULL: Lock<Option<Arc<OwnedFd>>> = Lock::new(None);
    let mut null = NULL.lock();
    if null.is_none() {
        *null = Some(Arc::new(File::options().read(true).write(true).open("/dev/null")?.into()));
    }
    null.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Creates a file in memory (memfd_create(2)).
pub fn memory_file() -> io::Result<OwnedFd> {
    Ok(memfd_create(c"nacre", MFdFlags::MFD_CLOEXEC)?)
}

/// Creates a file in memory that can be sealed.
pub fn sealable_file() -> io::Result<OwnedFd> {
    Ok(memfd_create(c"nacre", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?)
}

/// Seals a file: nothing can change it from now on.
pub fn seal(file: &OwnedFd) -> io::Result<()> {
    let seals = SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(())
}

/// Replaces the contents of a file. Opens no descriptor, since none may be available.
pub fn replace_contents(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let file = borrowed(fd);
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)
}

/// The length of a file.
pub fn length(fd: &OwnedFd) -> io::Result<u64> {
    Ok(borrowed(fd).metadata()?.len())
}

/// The inode of an open file.
pub fn inode(fd: &OwnedFd) -> io::Result<u64> {
    Ok(borrowed(fd).metadata()?.ino())
}

/// The position in an open file. All copies of its descriptor share it.
pub fn position(fd: &OwnedFd) -> io::Result<u64> {
    io::Seek::stream_position(&mut &*borrowed(fd))
}

/// Reads from a position until `most` bytes are there, or the end of the file.
pub fn read_at(file: &File, position: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut length = 0;
    while length < most {
        match file.read_at(&mut bytes[length..], position + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads at most `most` bytes from the start of a file. Opens no descriptor.
pub fn beginning(fd: &OwnedFd, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let length = borrowed(fd).read_at(&mut bytes, 0)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads the contents of a file. Opens no descriptor.
pub fn contents(fd: &OwnedFd) -> io::Result<Vec<u8>> {
    let file = borrowed(fd);
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn borrowed(fd: &OwnedFd) -> std::mem::ManuallyDrop<File> {
    // SAFETY: the callers use the file no longer than they borrow the descriptor, and `ManuallyDrop` keeps it open.
    unsafe { std::mem::ManuallyDrop::new(File::from_raw_fd(fd.as_raw_fd())) }
}

/// Sets O_NONBLOCK on the open file description of `fd`.
pub fn set_nonblocking(fd: &impl AsFd) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Reads into a buffer's spare capacity. `Ok(0)` is end of file.
pub fn read_spare(fd: &impl AsRawFd, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let spare = buffer.spare_capacity_mut();
    let room = spare.len().min(most);
    // SAFETY: the kernel writes at most `room` bytes into memory that belongs to the vector, and only the bytes written
    // become part of the vector.
    unsafe {
        let count = libc::read(fd.as_raw_fd(), spare.as_mut_ptr().cast(), room);
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        buffer.set_len(buffer.len() + count as usize);
        Ok(count as usize)
    }
}

/// Writes once; may write less than requested.
pub fn write(fd: &impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(nix::unistd::write(fd, bytes)?)
}

/// The number of bytes that a pipe holds.
pub fn bytes_in_pipe(fd: &impl AsRawFd) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: FIONREAD stores an int through the pointer.
    unsafe { check(libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &mut count))? };
    Ok(count.max(0) as usize)
}

/// Enlarges a pipe. Each user has a limited budget (pipe(7)); if it is exhausted, nothing changes.
pub fn grow_pipe(fd: &impl AsFd, bytes: i32) {
    let _ = fcntl(fd, FcntlArg::F_SETPIPE_SZ(bytes));
}

/// Registers a descriptor with the reactor.
pub fn watch<T: AsRawFd + OwnsDescriptor>(fd: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: the registered value owns the descriptor: it stays open and refers to the same file until that value is
    // given back or dropped, which deregisters it first.
    unsafe { AsyncFd::register(fd) }.map_err(|error| error.into_parts().1)
}

/// Waits for bytes and reads at most `most` of them into the vector's spare capacity. Returns 0 at the end.
pub async fn read_next(fd: &AsyncFd<OwnedFd>, buffer: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    loop {
        let mut guard = fd.readable().await?;
        match guard.try_io(|fd| read_spare(fd.get_ref(), buffer, most)) {
            Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(read) => return read,
            Err(_would_block) => {}
        }
    }
}

/// Values that keep their descriptor open and unchanged until dropped.
pub trait OwnsDescriptor {}
impl OwnsDescriptor for OwnedFd {}
impl OwnsDescriptor for std::sync::Arc<OwnedFd> {}

/// Reaps an ended child. All other children belong to the runtime.
pub fn reap(child: Pid) {
    let _ = waitpid(nix::unistd::Pid::from_raw(child.raw()), Some(WaitPidFlag::WNOHANG));
}

/// Waits until a child of this process has ended, without reaping it. An error means that something else has reaped it.
pub fn await_end(child: Pid) {
    let id = nix::unistd::Pid::from_raw(child.raw());
    while waitid(Id::Pid(id), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
}

/// Opens a directory, to pass it to another process.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    Ok(std::fs::File::options().read(true).custom_flags(flags).open(path)?.into())
}
