//! The other thing this program does: `nacre-supervisor --terminal PATH -- PROGRAM ARGV0 [ARGUMENT ...]` becomes the leader
//! of a session with the terminal at PATH, and then the program.
//!
//! A background process with a terminal is a fork of the shell, and bash has no builtin for setsid(2). So the fork saves
//! its state, executes this, and this executes bash again, which restores the state. It is not forked by anybody: the
//! process that the supervisor has adopted stays the same.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;

/// Never returns when the words are such a command line; gives nothing when they are another.
pub fn become_program(words: &[OsString]) -> Option<io::Error> {
    match words {
        [option, path, dashes, program, argv @ ..] if option == "--terminal" && dashes == "--" && !argv.is_empty() => {
            Some(run(path, program, argv).err().unwrap_or_else(|| io::Error::other("the program did not run")))
        }
        _ => None,
    }
}

fn run(path: &OsString, program: &OsString, argv: &[OsString]) -> io::Result<()> {
    nix::unistd::setsid()?;
    let terminal = File::options().read(true).write(true).open(path)?;
    // SAFETY: plain calls on an open descriptor; 0 asks for the terminal only if nobody has it.
    unsafe {
        if libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        for number in 0..3 {
            if libc::dup2(terminal.as_raw_fd(), number) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    crate::hygiene::reset_signals()?;
    nix::sys::signal::SigSet::empty().thread_set_mask()?;
    let c_string = |word: &OsString| Ok::<_, io::Error>(CString::new(word.clone().into_vec())?);
    let argv = argv.iter().map(c_string).collect::<io::Result<Vec<CString>>>()?;
    // The environment was emptied by whoever has run this program: what is to be exported is in the state.
    nix::unistd::execve(&c_string(program)?, &argv, &[] as &[CString])?;
    Ok(())
}
