//! A minimal host: starts a real bash with the builtin and communicates over real sockets.
//!
//! `BASH_UNDER_TEST` selects the bash. Every wait is bounded by [`LIMIT`].

pub mod process;

use nacre_protocol::shell::{Done, DoneFlags, Refusal, Reply, Request, RequestFlags, RequestKind};
use process::{Process, Streams, poll, read_available, seqpacket_pair};
use std::io::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any step takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The result of a command.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub flags: DoneFlags,
    pub signal: i32,
    pub forks: u32,
    pub cwd: String,
    /// Whether the shell died, and its standby replaced it.
    pub promoted: bool,
    pub refused: Option<(Refusal, String)>,
}

impl Ran {
    pub fn has(&self, flag: DoneFlags) -> bool {
        self.flags.contains(flag)
    }
}

/// A session: a shell, possibly a standby, and its own directory.
pub struct Session {
    pub shell: Process,
    pub standby: Option<Process>,
    pub version: String,
    pub directory: TempDir,
    /// Whether to fork a standby after each command, as the host does after a change.
    pub always_standby: bool,
    pub reconnects: usize,
    listener: OwnedFd,
    next_id: u64,
    /// Process groups of dead shells, whose jobs may survive.
    former_groups: Vec<i32>,
}

impl Session {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(environment: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("nacre-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let listener = process::abstract_listener(&name);
        let directory = tempfile::tempdir().unwrap();
        let shell = Process::start_bash(directory.path(), environment);
        let Reply::Hello { pid, version } = shell.receive().expect("the shell says HELLO") else { panic!("no HELLO") };
        assert_eq!(pid.cast_signed(), shell.pid);
        let hello = Request { text: name.as_bytes(), ..Request::new(RequestKind::Listener, 0) };
        shell.send(&hello, &[]);
        let (reconnects, next_id, former_groups) = (0, 1, Vec::new());
        Self {
            shell,
            standby: None,
            version,
            directory,
            always_standby: false,
            reconnects,
            listener,
            next_id,
            former_groups,
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// True for bash 5.0, for example.
    pub fn is_version(&self, version: &str) -> bool {
        self.version.starts_with(version)
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Runs a text that is expected to end.
    pub fn run(&mut self, text: &str) -> Ran {
        self.request(Request::run(0, text.as_bytes()))
    }

    pub fn output(&mut self, text: &str) -> String {
        self.run(text).out
    }

    pub fn run_with(&mut self, flags: RequestFlags, text: &[u8]) -> Ran {
        self.request(Request { flags, ..Request::run(0, text) })
    }

    /// Runs a text in its own scope.
    pub fn run_in(&mut self, cwd: &str, env: &str, text: &str) -> Ran {
        let (cwd, env) = (cwd.as_bytes(), env.as_bytes());
        self.request(Request { cwd, env, ..Request::run(0, text.as_bytes()) })
    }

    pub fn request(&mut self, request: Request<'_>) -> Ran {
        let running = self.begin(request);
        let ran = self.finish(running, |_| panic!("the command hangs"), LIMIT);
        if ran.promoted || self.always_standby {
            self.renew_standby();
        }
        ran
    }

    /// Runs a text until `after` has passed, then interrupts it like the host: first with a signal that the shell and
    /// its children may handle, then with SIGKILL to the children, and finally to the shell.
    pub fn run_interrupted(&mut self, text: &str, after: Duration) -> Ran {
        let running = self.begin(Request::run(0, text.as_bytes()));
        let spared: Vec<i32> = Vec::new();
        let mut step = 0;
        let escalate = move |shell: &Process| {
            match step {
                0 => {
                    shell.signal(33);
                    shell.signal_children(libc::SIGTERM, &spared);
                }
                1..20 => shell.signal(33),
                20..200 => {
                    shell.signal_children(libc::SIGKILL, &spared);
                    shell.signal(33);
                }
                _ => shell.signal(libc::SIGKILL),
            }
            step += 1;
            Duration::from_millis(10)
        };
        let ran = self.finish(running, escalate, after);
        if ran.promoted {
            self.renew_standby();
        }
        ran
    }

    pub fn begin(&mut self, mut request: Request<'_>) -> Running {
        request.id = self.id();
        let (streams, out, err) = Streams::piped();
        self.shell.send(&request, &streams.borrowed());
        Running { id: request.id, out: Some(out), err: Some(err), bytes: Default::default() }
    }

    /// Waits for the end. Calls `overdue` after `first`, and again after each time that it returns.
    pub fn finish(
        &mut self,
        mut running: Running,
        mut overdue: impl FnMut(&Process) -> Duration,
        first: Duration,
    ) -> Ran {
        let mut deadline = Instant::now() + first;
        let end = Instant::now() + LIMIT;
        let reply = loop {
            assert!(Instant::now() < end, "the command does not end");
            let mut fds = vec![self.shell.channel.as_fd(), self.shell.pidfd.as_fd()];
            fds.extend(running.out.as_ref().map(AsFd::as_fd));
            fds.extend(running.err.as_ref().map(AsFd::as_fd));
            let ready = poll(&fds, deadline.saturating_duration_since(Instant::now()));
            if ready.is_empty() {
                deadline = Instant::now() + overdue(&self.shell);
                continue;
            }
            running.read();
            if ready.contains(&0) {
                match self.shell.try_receive() {
                    Some(Reply::Done(done)) if done.id == running.id => break Some(Ok(done)),
                    Some(Reply::Refused { id, reason, about, .. }) if id == running.id => {
                        break Some(Err((reason, about)));
                    }
                    Some(Reply::Begun { .. } | Reply::Ending { .. }) => {}
                    Some(other) => panic!("unexpected {other:?}"),
                    None if self.reconnect() => continue,
                    None => break None,
                }
            } else if ready.contains(&1) {
                break None;
            }
        };
        running.read();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&running.bytes[0]), text(&running.bytes[1]));
        match reply {
            Some(Ok(Done { status, signal, flags, forks, cwd, .. })) => {
                Ran { code: status, out, err, flags, signal, forks, cwd: text(&cwd), ..Ran::default() }
            }
            Some(Err(refused)) => Ran { refused: Some(refused), out, err, ..Ran::default() },
            None => Ran { code: self.promote(), out, err, promoted: true, ..Ran::default() },
        }
    }

    /// Accepts the shell's new channel after it has lost the first. False if the shell is dead.
    fn reconnect(&mut self) -> bool {
        let ready = poll(&[self.listener.as_fd(), self.shell.pidfd.as_fd()], LIMIT);
        if !ready.contains(&0) {
            return false;
        }
        // SAFETY: accept4() returns a new descriptor or -1.
        let channel = unsafe {
            let fd = libc::accept4(
                self.listener.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            );
            assert!(fd >= 0, "{}", Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        assert_eq!(process::peer(&channel), self.shell.pid);
        self.shell.channel = channel;
        assert!(matches!(self.shell.receive(), Some(Reply::Hello { .. })));
        self.reconnects += 1;
        true
    }

    /// Forks from the shell or its standby.
    pub fn fork(&mut self, from_standby: bool, flags: RequestFlags, more: &[BorrowedFd<'_>]) -> Process {
        self.fork_while(from_standby, flags, more, |_| {})
    }

    /// Forks from the shell or its standby. Calls `meanwhile` with the origin when the request has been sent.
    pub fn fork_while(
        &mut self,
        from_standby: bool,
        flags: RequestFlags,
        more: &[BorrowedFd<'_>],
        meanwhile: impl FnOnce(&Process),
    ) -> Process {
        let request = Request { flags, ..Request::new(RequestKind::Fork, self.id()) };
        let (ours, theirs) = seqpacket_pair();
        let origin = if from_standby { self.standby.as_ref().unwrap() } else { &self.shell };
        let descriptors: Vec<BorrowedFd<'_>> = [theirs.as_fd()].into_iter().chain(more.iter().copied()).collect();
        origin.send(&request, &descriptors);
        drop(theirs);
        meanwhile(origin);
        match origin.receive() {
            Some(Reply::Forked { result: Ok(pid), .. }) => Process::adopt(pid.cast_signed(), ours),
            other => panic!("no fork: {other:?}"),
        }
    }

    pub fn renew_standby(&mut self) {
        let standby = self.fork(false, RequestFlags::STANDBY, &[]);
        // The supervisor kills the former one.
        self.standby = Some(standby);
    }

    /// Replaces the dead shell by its standby, and returns the dead shell's status.
    pub fn promote(&mut self) -> i32 {
        let standby = self.standby.take().expect("there is a standby");
        let dead = std::mem::replace(&mut self.shell, standby);
        self.former_groups.push(dead.pid);
        let code = dead.wait();
        self.shell.send(&Request::new(RequestKind::Promote, 0), &[]);
        assert!(matches!(self.shell.receive(), Some(Reply::Promoted { pid }) if pid.cast_signed() == self.shell.pid));
        code
    }

    /// Starts a background process. Returns the process and its output.
    pub fn background(&mut self, request: Request<'_>, flags: RequestFlags) -> (Process, OwnedFd) {
        let (streams, out, _) = Streams::joined();
        let process = self.fork(self.standby.is_some(), flags | RequestFlags::BACKGROUND, &[]);
        process.send(&request, &streams.borrowed());
        (process, out)
    }

    /// Runs a background process to its end.
    pub fn run_background(&mut self, text: &str) -> (i32, String) {
        let (process, out) = self.background(Request::run(7, text.as_bytes()), RequestFlags::empty());
        assert!(matches!(process.receive(), Some(Reply::Begun { id: 7, .. })), "{text}");
        let output = process::read_to_end(&out);
        (process.wait(), output)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.former_groups.iter().for_each(|group| process::kill_group(*group));
        self.shell.kill_group();
        if let Some(standby) = self.standby.take() {
            standby.kill_group();
        }
    }
}

/// A running command.
pub struct Running {
    id: u64,
    out: Option<OwnedFd>,
    err: Option<OwnedFd>,
    bytes: [Vec<u8>; 2],
}

impl Running {
    pub fn read(&mut self) {
        for (stream, bytes) in [&mut self.out, &mut self.err].into_iter().zip(&mut self.bytes) {
            if stream.as_ref().is_some_and(|fd| !read_available(fd, bytes)) {
                *stream = None;
            }
        }
    }
}
