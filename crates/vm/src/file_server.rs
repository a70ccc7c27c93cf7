//! The file servers (virtiofsd) of a virtual machine.

use crate::find::{self, Unavailable, is_program, unavailable};
use crate::inherit;
use crate::view;
use nacre_isolation::{filter, privileges};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockname, listen, socket,
};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The programs of Debian and its relatives that are on no PATH.
const SERVER_PLACES: [&str; 3] = ["/usr/libexec", "/usr/lib", "/usr/lib/qemu"];

/// The two programs that are called virtiofsd take different options.
#[derive(Debug)]
pub struct FileServer {
    pub file: PathBuf,
    /// The one that came with QEMU until version 7.2.
    pub is_old: bool,
    /// Whether it must be asked not to announce file systems that are mounted below.
    pub announces: bool,
}

pub fn find_file_server(search: &OsStr) -> Result<FileServer, Unavailable> {
    let others = SERVER_PLACES.iter().map(|place| Path::new(place).join("virtiofsd")).find(|file| is_program(file));
    let file = find::find(search, "virtiofsd").or(others).ok_or_else(|| {
        unavailable("no-virtiofsd", format!("virtiofsd is not installed: {}", find::install("virtiofsd")))
    })?;
    let mut command = Command::new(&file);
    command.arg("--help").stdin(Stdio::null()).stderr(Stdio::null());
    confine(&mut command, true, &[]);
    let answer = command.output();
    let help = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default();
    if !help.contains("--socket-path") {
        let message = format!("{} does not run: install it again, with {}", file.display(), find::install("virtiofsd"));
        return Err(unavailable("no-virtiofsd", message));
    }
    Ok(FileServer { is_old: !help.contains("--shared-dir"), announces: help.contains("--no-announce-submounts"), file })
}

/// A connection to a server that begins to listen. It has no name in any file system.
fn connection() -> io::Result<(OwnedFd, OwnedFd)> {
    let stream = || socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let (server, client) = (stream()?, stream()?);
    // The kernel chooses a name, which only the network namespace of this process has.
    bind(server.as_raw_fd(), &UnixAddr::new_unnamed())?;
    listen(&server, Backlog::new(1)?)?;
    connect(client.as_raw_fd(), &getsockname::<UnixAddr>(server.as_raw_fd())?)?;
    Ok((server, client))
}

/// Starts the file server of a directory. Returns what QEMU talks to it by.
pub fn serve(server: &FileServer, directory: &str, is_user: bool) -> io::Result<(Child, OwnedFd)> {
    let (listener, client) = connection()?;
    let number = listener.as_raw_fd().to_string();
    // What the machine changes in a project must be seen. The rest changes when programs are installed.
    let cache = if directory == view::ROOT { "always" } else { "auto" };
    let mut command = Command::new(&server.file);
    if server.is_old {
        command.args(["-f", &format!("--fd={number}"), "-o", &format!("source={directory}")]);
        command.args(["-o", "sandbox=chroot", "-o", "log_level=err", "-o", "modcaps=-mknod"]);
        command.args(["-o", &format!("cache={cache}")]);
    } else {
        command.args(["--fd", &number, "--shared-dir", directory, "--cache", cache]);
        command.args(["--sandbox", "none", "--seccomp", "kill", "--log-level", "error", "--modcaps=-mknod"]);
        // An overlay cannot have what the guest would mount by itself.
        command.args(server.announces.then_some("--no-announce-submounts"));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    confine(&mut command, is_user && server.is_old, &[listener.as_raw_fd()]);
    Ok((command.spawn()?, client))
}

/// Confines a file server that begins, and gives it descriptors.
fn confine(command: &mut Command, hides_groups: bool, descriptors: &[RawFd]) {
    let filter = filter::of_file_server(hides_groups);
    let descriptors = descriptors.to_vec();
    let prepare = move || {
        privileges::no_new_privileges()?;
        // A program of the guest's root would be one of the machine's root.
        filter::install(&filter)?;
        inherit::keep(&descriptors)
    };
    // SAFETY: this process has one thread.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process writes it: one that a test of this process starts meanwhile could have it open for writing, and the kernel
    /// executes no such file (ETXTBSY).
    fn write_program(file: &Path, text: &str) {
        let script = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$2\" && chmod 755 \"$2\"";
        let written = Command::new("/bin/sh").args(["-c", script, "sh", text]).arg(file).status();
        assert!(written.unwrap().success());
    }

    #[test]
    fn a_broken_one_is_named_with_the_command_that_installs_it() {
        let place = tempfile::tempdir().unwrap();
        let broken = place.path().join("virtiofsd");
        write_program(&broken, "exit 1");
        let refused = find_file_server(place.path().as_os_str()).unwrap_err();
        assert_eq!(refused.reason, "no-virtiofsd");
        assert!(refused.message.contains("install"), "{refused}");
    }

    #[test]
    fn the_two_file_servers_are_told_apart_by_their_help() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("virtiofsd");
        let found = |help: &str| {
            write_program(&file, &format!("echo '{help}'"));
            let FileServer { is_old, announces, .. } = find_file_server(place.path().as_os_str()).unwrap();
            (is_old, announces)
        };
        assert_eq!(found("--socket-path=PATH -o source=PATH"), (true, false));
        assert_eq!(found("--socket-path --shared-dir --no-announce-submounts"), (false, true));
    }
}
