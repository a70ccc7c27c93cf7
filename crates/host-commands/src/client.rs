//! The program of every command: it calls the function of the host, and carries the bytes of its streams.
//!
//! Both ends send frames: a letter, the length of the content as four bytes (little-endian), and the content.
//!
//! | from | letter | content |
//! | --- | --- | --- |
//! | program | `c` | the call: name, directory, number of arguments, arguments and environment, each followed by a NUL |
//! | host | `r` | asks for standard input: the most bytes, as four bytes |
//! | program | `i` | the bytes; none at the end of the input. Only when asked, so a function that reads none takes none |
//! | host | `o`, `e` | bytes for standard output and standard error |
//! | host | `q` | the exit code, one byte. Nothing follows |
//!
//! The end of the connection tells the host that the caller has ended, whatever the reason.

use crate::address;
use crate::directory::PROGRAM;
use nacre_containment::session_mark;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit};
use std::ffi::{CStr, OsStr};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

/// Maximum bytes of a call. The kernel's own limit for arguments and environment is usually 2 MiB.
const MAX_CALL_BYTES: usize = 3 * 1024 * 1024;
/// Maximum bytes of other frames.
const MAX_PIECE_BYTES: usize = 64 * 1024;
/// As of a shell that does not find a command.
const NOT_FOUND: i32 = 127;

/// If this process is a command's program, calls the function and exits. Otherwise returns.
pub fn run_if_called() {
    let own = std::env::current_exe();
    if own.is_ok_and(|path| path.file_name() == Some(OsStr::new(PROGRAM))) {
        std::process::exit(run(name()));
    }
}

/// The name that was executed, whatever the caller passes as argv\[0\].
fn name() -> &'static OsStr {
    // SAFETY: the kernel puts the path there for the life of the process.
    let path = unsafe {
        match libc::getauxval(libc::AT_EXECFN) {
            0 => c"",
            address => CStr::from_ptr(address as *const libc::c_char),
        }
    };
    Path::new(OsStr::from_bytes(path.to_bytes())).file_name().unwrap_or_default()
}

fn run(name: &OsStr) -> i32 {
    // As in other programs: one whose reader has gone ends, and with it the call.
    // SAFETY: sets a default disposition.
    let _ = unsafe { nix::sys::signal::signal(nix::sys::signal::SIGPIPE, nix::sys::signal::SigHandler::SigDfl) };
    let fail = |problem: &str| {
        let _ = writeln!(io::stderr(), "{}: {problem}", name.display());
        NOT_FOUND
    };
    let call = call(name);
    if call.len() > MAX_CALL_BYTES {
        let _ =
            writeln!(io::stderr(), "{}: the arguments and the environment have {} bytes", name.display(), call.len());
        return 126;
    }
    let Ok(host) = connect() else {
        return fail("command not found: the program that has it has ended, or this is none of its sessions");
    };
    match send(&host, b'c', &call).and_then(|()| serve(&host)) {
        Ok(Some(code)) => code,
        Ok(None) => fail("command not found: the program that has it has ended, has removed it, or runs too many"),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {error}", name.display());
            1
        }
    }
}

fn connect() -> io::Result<UnixStream> {
    let (mark, _) = getrlimit(Resource::RLIMIT_LOCKS)?;
    if !session_mark::is_mark(mark) {
        return Err(io::ErrorKind::NotFound.into());
    }
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(address(mark))?)
}

fn call(name: &OsStr) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |parts: &[&OsStr]| {
        parts.iter().for_each(|part| bytes.extend_from_slice(part.as_bytes()));
        bytes.push(0);
    };
    add(&[name]);
    add(&[std::env::current_dir().unwrap_or_default().as_os_str()]);
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    add(&[OsStr::new(&arguments.len().to_string())]);
    arguments.iter().for_each(|argument| add(&[argument]));
    std::env::vars_os().for_each(|(name, value)| add(&[&name, OsStr::new("="), &value]));
    bytes
}

/// Serves the function until it ends. `None` if the host ends the connection without an exit code.
fn serve(host: &UnixStream) -> io::Result<Option<i32>> {
    let mut content = vec![0; MAX_PIECE_BYTES];
    // How much input the function waits for.
    let mut wanted = None;
    loop {
        if let Some(most) = wanted
            && !is_first(io::stdin().as_fd(), host)?
        {
            let length = read(io::stdin().as_fd(), &mut content[..most])?;
            send(host, b'i', &content[..length])?;
            wanted = None;
            continue;
        }
        let mut head = [0; 5];
        match (&*host).read_exact(&mut head) {
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                return Ok(None);
            }
            received => received?,
        }
        let [kind, length @ ..] = head;
        let Some(content) = content.get_mut(..u32::from_le_bytes(length) as usize) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        (&*host).read_exact(content)?;
        match (kind, &*content) {
            (b'r', &[a, b, c, d]) => {
                wanted = Some((u32::from_le_bytes([a, b, c, d]) as usize).clamp(1, MAX_PIECE_BYTES))
            }
            (b'o', bytes) => write(io::stdout().as_fd(), bytes)?,
            (b'e', bytes) => write(io::stderr().as_fd(), bytes)?,
            (b'q', &[code]) => return Ok(Some(code.into())),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Waits for input or the host. Returns whether there is something of the host.
fn is_first(input: BorrowedFd<'_>, host: &UnixStream) -> io::Result<bool> {
    let mut both = [PollFd::new(host.as_fd(), PollFlags::POLLIN), PollFd::new(input, PollFlags::POLLIN)];
    loop {
        match poll(&mut both, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            polled => {
                polled?;
                return Ok(both[0].any().unwrap_or(false));
            }
        }
    }
}

/// Reads once, also from a descriptor that does not block. A failure is the end of the input, as of a terminal that has
/// hung up.
fn read(input: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::read(input, buffer) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => await_event(input, PollFlags::POLLIN)?,
            read => return Ok(read.unwrap_or(0)),
        }
    }
}

fn write(output: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match nix::unistd::write(output, bytes) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => await_event(output, PollFlags::POLLOUT)?,
            written => bytes = bytes.get(written?..).unwrap_or_default(),
        }
    }
    Ok(())
}

fn await_event(descriptor: BorrowedFd<'_>, event: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(descriptor, event)], PollTimeout::NONE) {
        Err(Errno::EINTR) => Ok(()),
        polled => Ok(polled.map(drop)?),
    }
}

/// Sends a frame. Without a signal if the host has ended: the caller then finds the end of the connection.
fn send(host: &UnixStream, kind: u8, content: &[u8]) -> io::Result<()> {
    let length = (content.len() as u32).to_le_bytes();
    let frame = [&[kind], &length[..], content].concat();
    let mut rest = &frame[..];
    while !rest.is_empty() {
        match nix::sys::socket::send(host.as_raw_fd(), rest, nix::sys::socket::MsgFlags::MSG_NOSIGNAL) {
            Err(Errno::EINTR) => {}
            Err(Errno::EPIPE | Errno::ECONNRESET) => break,
            sent => rest = rest.get(sent?..).unwrap_or_default(),
        }
    }
    Ok(())
}
