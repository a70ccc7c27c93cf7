//! Reports the attempts to use files that the rules refuse.

use super::attempt::attempts;
use super::kind::Paths;
use super::notification::Call;
use super::reports::Reports;
use crate::explain::{AttemptJudge, Ran, Refusal, RefusedAttempt, Use};
use crate::foreign::caller_of;
use crate::paths::plain;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::connections::{ConnectionReport, LONGEST_PATH, LONGEST_REPORT};
use nacre_protocol::{message, socket};
use nix::poll::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstat, fstatvfs, open, openat2};
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind::WouldBlock;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum bytes of a script's first line that the kernel reads.
const MAX_INTERPRETER: u64 = 256;
/// Maximum paths that are reported where nothing is refused. Beyond it, directories are.
const MAX_PATHS: usize = 20_000;
/// Maximum paths and directories.
const MAX_DIRECTORIES: usize = 25_000;
/// How long a program waits for the host to receive such a report.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub struct Observer<'a> {
    judge: AttemptJudge<'a>,
    reports: Reports<'a, Refusal>,
    /// Nothing is refused, and everything is reported once.
    learns: bool,
}

impl<'a> Observer<'a> {
    /// `None` if nothing is to be observed.
    pub fn new(confinement: &'a Confinement, reports: Option<&'a OwnedFd>, ran: &'a Ran<'a>) -> Option<Self> {
        let observed = confinement.observed.as_ref()?;
        let judge = AttemptJudge::new(confinement, observed, ran);
        Some(Self { judge, reports: Reports::new(reports?, usize::MAX), learns: observed.learns })
    }

    /// Looks at a call that waits.
    pub fn look(&mut self, call: &Call, paths: Paths) {
        let wanted = attempts(call, paths);
        let script = wanted.iter().find(|(_, wanted)| *wanted == Use::Execute);
        let interpreter = script.and_then(|(path, _)| interpreter(call.thread, path));
        for (path, wanted) in wanted.into_iter().chain(interpreter.map(|path| (path, Use::Read))) {
            if let Some(RefusedAttempt { refusal, is_read_only }) = self.judge.judge(&path, wanted)
                && is_read_only.is_none_or(|place| is_read_only_for(call.thread, &place))
            {
                self.report(refusal, call.thread);
            }
        }
    }

    fn report(&mut self, refusal: Refusal, thread: i32) {
        if self.learns {
            return self.record(refusal, thread);
        }
        if [&refusal.path, &refusal.tree].iter().all(|path| path.as_os_str().len() <= LONGEST_PATH) {
            self.reports.send(refusal.clone(), || ConnectionReport::File(refusal, caller_of(thread)));
        }
    }

    /// Reports a path once, or beyond a number of them its directory. Waits for the host, which receives all the time.
    fn record(&mut self, refusal: Refusal, thread: i32) {
        let path = match refusal.path.parent() {
            Some(directory) if self.reports.waiting.len() >= MAX_PATHS => directory.to_path_buf(),
            _ => refusal.path,
        };
        let refusal = Refusal { path, ..refusal };
        if self.reports.waiting.len() >= MAX_DIRECTORIES || !self.reports.waiting.insert(refusal.clone()) {
            return;
        }
        let Ok(bytes) = message::encode(&ConnectionReport::File(refusal, caller_of(thread))) else { return };
        let end = Instant::now() + PATIENCE;
        while bytes.len() <= LONGEST_REPORT
            && socket::send(self.reports.socket.as_fd(), &bytes, &[]).is_err_and(|error| error.kind() == WouldBlock)
            && socket::await_events(self.reports.socket.as_fd(), PollFlags::POLLOUT, end).unwrap_or(false)
        {}
    }
}

/// What the kernel executes for a script: no call of a program names it.
fn interpreter(thread: i32, script: &Path) -> Option<PathBuf> {
    let file = seen(thread, script).ok()?;
    // Opening something else can have effects, or block.
    let is_file = FileType::from_raw_mode(fstat(&file).ok()?.st_mode) == FileType::RegularFile;
    let mut start = Vec::new();
    // A program that has a lease on its file is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = is_file.then(|| open(format!("/proc/self/fd/{}", file.as_raw_fd()), flags, Mode::empty()))?;
    File::from(file.ok()?).take(MAX_INTERPRETER).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let name = line.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(plain(Path::new(OsStr::from_bytes(name)))).filter(|path| path.is_absolute())
}

/// Opens a path as a thread sees it.
fn seen(thread: i32, path: &Path) -> rustix::io::Result<OwnedFd> {
    let root = open(format!("/proc/{thread}/root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let place = path.strip_prefix("/").ok().filter(|place| !place.as_os_str().is_empty());
    let place = place.unwrap_or(Path::new("."));
    openat2(root, place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
}

/// Whether a thread sees a path on a read-only mount. What mounts show is not all in the rules: a session has copies of some
/// files, for example. True if it sees nothing there.
fn is_read_only_for(thread: i32, path: &Path) -> bool {
    let system = seen(thread, path).and_then(fstatvfs);
    system.map_or(true, |system| system.f_flag.contains(StatVfsMountFlags::RDONLY))
}
