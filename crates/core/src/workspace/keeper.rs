//! The process of a workspace's layers: its start, its end, and its answers.

use crate::error::{Code, Error};
use nacre_protocol::workspace::{self as protocol, KeeperReply, KeeperRequest};
use nacre_protocol::{message, socket};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long the end of the keeper may take after that of the sandbox: it completes a commit, and removes the layers or
/// waits for the disk. It goes on afterwards, without the host.
const END: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A reply of the keeper, and a descriptor that came with it.
pub(super) type Answer = (KeeperReply, Option<OwnedFd>);

#[derive(Debug)]
pub(super) struct RunningKeeper {
    process: Child,
    /// Another descriptor of the socket, to close the workspace while a request is being answered.
    socket: OwnedFd,
}

impl RunningKeeper {
    /// Starts the process. Returns its socket, too.
    pub(super) fn start(supervisor: &Path) -> Result<(Self, OwnedFd), Error> {
        let (process, socket) = start(supervisor)?;
        let copy = socket.try_clone().map_err(|error| failed(&format!("cannot copy a socket: {error}")))?;
        Ok((Self { process, socket: copy }, socket))
    }

    /// Waits for it. It ends once nothing has its socket.
    pub(super) fn wait(self) {
        let Self { mut process, socket } = self;
        drop(socket);
        let _ = process.wait();
    }

    /// Stops the comparison that it makes.
    pub(super) fn stop(&self) {
        // One that has ended compares nothing.
        let _ = protocol::send(self.socket.as_fd(), &KeeperRequest::Stop, None);
    }

    /// Asks it to end.
    pub(super) fn close(self) {
        let Self { mut process, socket } = self;
        if protocol::send(socket.as_fd(), &KeeperRequest::Close, None).is_err() {
            let _ = process.kill();
        }
        drop(socket);
        wait_for_end(process, END);
    }
}

/// Starts a process for one request.
pub(super) fn ask_once(
    supervisor: &Path,
    request: &KeeperRequest,
    file: Option<OwnedFd>,
    id: Option<&str>,
) -> Result<Answer, Error> {
    let (mut process, socket) = start(supervisor)?;
    let answer = exchange(&socket, request, file, id);
    drop(socket);
    let _ = process.wait();
    answer.unwrap_or_else(|error| Err(failed(&format!("the keeper of workspaces has ended: {error}"))))
}

fn start(supervisor: &Path) -> Result<(Child, OwnedFd), Error> {
    let (ours, theirs) = socket::pair().map_err(|error| failed(&format!("cannot open a socket: {error}")))?;
    let mut command = crate::supervisor::program(supervisor);
    command.arg("--workspace").arg(std::process::id().to_string());
    let started = command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let process = started.map_err(|error| Error::cannot(&format!("run {}", supervisor.display()), &error))?;
    Ok((process, ours))
}

/// Waits for the end of a process. One that takes longer is reaped when it ends.
fn wait_for_end(mut process: Child, most: Duration) {
    let end = Instant::now() + most;
    while matches!(process.try_wait(), Ok(None)) {
        if Instant::now() >= end {
            // Without a thread it stays a zombie, as long as the host lives.
            let _ = std::thread::Builder::new().name("nacre-keeper-end".into()).spawn(move || process.wait());
            return;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Sends a request about a workspace of this name and waits for the answer. The outer error: the keeper has ended.
pub(super) fn exchange(
    keeper: &OwnedFd,
    request: &KeeperRequest,
    file: Option<OwnedFd>,
    id: Option<&str>,
) -> io::Result<Result<Answer, Error>> {
    match post(keeper, request, file)? {
        Some(refused) => Ok(Err(refused)),
        None => receive(keeper, id),
    }
}

/// Sends a request. The error in it: the request is too long.
pub(super) fn post(keeper: &OwnedFd, request: &KeeperRequest, file: Option<OwnedFd>) -> io::Result<Option<Error>> {
    match protocol::send(keeper.as_fd(), request, file.as_ref().map(AsFd::as_fd)) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let limit = protocol::MAX_REQUEST_BYTES / (1024 * 1024);
            Ok(Some(failed(&format!("the paths of the call have more than {limit} MiB"))))
        }
        sent => sent.map(|()| None),
    }
}

/// Waits for the answer to a request. The outer error: the keeper has ended.
pub(super) fn receive(keeper: &OwnedFd, id: Option<&str>) -> io::Result<Result<Answer, Error>> {
    let answer = message::receive(keeper.as_fd())?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let (reply, descriptors): (KeeperReply, Vec<OwnedFd>) = answer;
    let name = id.unwrap_or_default();
    let (code, message) = match reply {
        KeeperReply::Unsupported(reason) => {
            (Code::WorkspaceUnsupported, format!("the workspace cannot be copy-on-write: {reason}"))
        }
        KeeperReply::InUse(user) => (Code::WorkspaceInUse, format!("the workspace '{name}' is in use: {user}")),
        KeeperReply::Lost(reason) => {
            (Code::WorkspaceLost, format!("the workspace '{name}' cannot be opened again: {reason}"))
        }
        KeeperReply::Missing => return Ok(Err(missing(id))),
        KeeperReply::Rejected(reason) => (Code::ArchiveRejected, format!("the archive cannot be used: {reason}")),
        KeeperReply::Differs { paths, count } => return Ok(Err(differs(paths, count))),
        KeeperReply::TooLarge(limit) => {
            (Code::FileTooLarge, format!("the patch of the workspace is too large: {limit}"))
        }
        KeeperReply::Failed { errno, doing } => {
            let code = match errno {
                // The host has closed the workspace.
                libc::ECANCELED => return Ok(Err(Error::sandbox_destroyed())),
                libc::ENOSPC | libc::EDQUOT => Code::NoSpace,
                libc::EACCES | libc::EPERM => Code::PermissionDenied,
                _ => Code::EngineError,
            };
            (code, format!("cannot {doing}: {}", io::Error::from_raw_os_error(errno)))
        }
        reply => return Ok(Ok((reply, descriptors.into_iter().next()))),
    };
    Ok(Err(Error::new(code, message)))
}

/// The error for a real directory that is not as it was below the files of an archive.
fn differs(paths: Vec<Vec<u8>>, count: u64) -> Error {
    let shown = shown(&paths, count);
    let message = format!(
        "the real directory has another {shown} than the one that the archive was made above: bring it there, or use onDifference: 'report'"
    );
    Error { paths, ..Error::new(Code::WorkspaceConflict, message) }
}

/// The first of some paths, and how many more there are.
pub(super) fn shown(paths: &[Vec<u8>], count: u64) -> String {
    let first = paths.first().map(|path| String::from_utf8_lossy(path)).unwrap_or_default();
    let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
    format!("'{first}'{more}")
}

pub(super) fn missing(id: Option<&str>) -> Error {
    Error::new(Code::FileNotFound, format!("there is no workspace '{}'", id.unwrap_or_default()))
}

/// Reads the value of a reply.
pub(super) fn read_value<T: DeserializeOwned>(file: Option<OwnedFd>) -> Result<T, Error> {
    message::decode(&read_all(file)?).map_err(|error| unreadable(&error))
}

/// Reads the file of a reply.
pub(super) fn read_all(file: Option<OwnedFd>) -> Result<Vec<u8>, Error> {
    let read = || {
        let mut file = File::from(file.ok_or(io::ErrorKind::UnexpectedEof)?);
        file.rewind()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error: io::Error| unreadable(&error))
}

pub(super) fn unreadable(error: &io::Error) -> Error {
    failed(&format!("the answer of the workspace's keeper cannot be read: {error}"))
}

pub(super) fn other_answer() -> Error {
    failed("the keeper of the workspace has sent another answer")
}

pub(super) fn failed(message: &str) -> Error {
    Error::new(Code::EngineError, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_keeper_that_ends_late_leaves_no_zombie() {
        let mut late = std::process::Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (input, place) = (late.stdin.take(), PathBuf::from(format!("/proc/{}", late.id())));
        wait_for_end(late, Duration::ZERO);
        assert!(place.exists());
        drop(input);
        let end = Instant::now() + Duration::from_secs(20);
        while place.exists() {
            assert!(Instant::now() < end, "it is not reaped");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
