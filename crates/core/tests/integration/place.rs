//! A sandbox with a copy-on-write workspace, real shells and programs, for the tests of pauses and of what they are for.

use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_core::error::Error;
use nacre_core::exec::{Command, ExecRequest, Input, KillPolicy, Outcome, OutputStream, Sink, SureSink};
use nacre_core::isolation::Isolation;
use nacre_core::process::{NewProcess, Process};
use nacre_core::proxy::Hosts;
use nacre_core::sandbox::{Config, Pause, Sandbox};
use nacre_core::session::{self, Handle, Isolate};
use nacre_core::user::UserSpec;
use nacre_core::workspace::Commit;
use nacre_protocol::confinement::{Filesystem, Rules};
use nacre_protocol::workspace::Chosen;
use std::fs::{self, Permissions};
use std::future::pending;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Maximum wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
pub const KILL: KillPolicy = KillPolicy { signal: libc::SIGTERM, grace: Duration::from_secs(30) };

/// A sandbox with a copy-on-write workspace.
pub struct Place {
    pub sandbox: Sandbox,
    pub directory: TempDir,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    pub without_groups: bool,
    pub without_builtin: bool,
    /// Programs have a pid namespace.
    pub is_isolated: bool,
    pub is_another_user: bool,
}

impl Place {
    pub fn new() -> Self {
        Self::of(Kind::default())
    }

    pub fn of(kind: Kind) -> Self {
        Self::with_files(kind, |_| None)
    }

    /// With files in the real directory. Returns the rules for files, if there are any.
    pub fn with_files(kind: Kind, fill: impl FnOnce(&Path) -> Option<Filesystem>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let real = directory.path().join("real");
        fs::create_dir(&real).unwrap();
        if kind.is_another_user {
            fs::set_permissions(directory.path(), Permissions::from_mode(0o711)).unwrap();
        }
        let filesystem = fill(&real);
        let is_isolated = kind.is_isolated || filesystem.is_some();
        let filesystem = filesystem.unwrap_or_default();
        let rules = Rules { own_processes: kind.is_isolated, filesystem, ..Rules::default() };
        let sandbox = Sandbox::new(Config {
            cwd: real.clone(),
            env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            supervisor: supervisor(),
            survive_exit: true,
            state_dir: directory.path().join("state"),
            jobs_root: directory.path().join("jobs"),
            force_plain: kind.without_builtin,
            force_subreaper: kind.without_groups,
            user: kind.is_another_user.then_some(UserSpec::Ids { uid: 54_321, gid: 54_321 }),
            isolation: is_isolated.then(|| Isolation { rules, hosts: Hosts::default() }),
            workspace: Some(nacre_core::workspace::Options { path: real, ..Default::default() }),
            ..Config::default()
        });
        Self { sandbox, directory }
    }

    /// `None` if this machine has no control groups.
    pub fn with_groups() -> Option<Self> {
        Self::of(Kind::default()).if_it_has_groups()
    }

    pub fn if_it_has_groups(self) -> Option<Self> {
        self.sandbox.capabilities().group_parent.is_some().then_some(self)
    }

    /// A file of the real directory.
    pub fn real(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.directory.path().join("real").join(name)).ok()
    }

    /// A FIFO outside of the workspace.
    pub fn fifo(&self) -> PathBuf {
        let path = self.directory.path().join("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        path
    }

    pub fn start_exec_in(&self, session: &str, text: &str) -> Receiver<Result<Outcome, Error>> {
        let (sender, result) = channel();
        self.sandbox.exec(session, request(text, sender));
        result
    }

    /// With an id of the request.
    pub fn start_exec_as(&self, id: u64, text: &str) -> Receiver<Result<Outcome, Error>> {
        let (sender, result) = channel();
        self.sandbox.exec("default", ExecRequest { id, ..request(text, sender) });
        result
    }

    pub fn start_exec(&self, text: &str) -> Receiver<Result<Outcome, Error>> {
        self.start_exec_in("default", text)
    }

    /// The output of a command.
    pub fn exec(&self, text: &str) -> String {
        let outcome = wait(&self.start_exec(text)).unwrap();
        String::from_utf8(outcome.stdout).unwrap().trim_end().into()
    }

    pub fn start_process(&self, id: &str, text: &str) -> Receiver<Result<Arc<Process>, Error>> {
        let (sender, started) = channel();
        let new = NewProcess {
            id: id.into(),
            shown: text.into(),
            command: Command::Text(text.into()),
            cwd: None,
            env: Vec::new(),
            timeout: None,
            kill: KILL,
            input: Input::None,
            writer: None,
            ipc: false,
            merge_output: false,
            terminal: None,
            log_limit: 1 << 20,
            window: None,
            wanted_limits: Default::default(),
            limits: Default::default(),
            auto_cleanup: false,
            is_hidden: false,
            definition: None,
        };
        self.sandbox.start_process("default", new, move |started| drop(sender.send(started)));
        started
    }

    pub fn process(&self, text: &str) -> Arc<Process> {
        wait(&self.start_process("process", text)).unwrap()
    }

    pub fn commit(&self) -> Receiver<Result<Commit, Error>> {
        start(never_given_up(self.sandbox.commit(Chosen::default(), false, false, pending())))
    }

    pub fn pause(&self) -> Pause {
        run(self.sandbox.pause()).unwrap()
    }

    pub fn destroy(&self) {
        run(self.sandbox.destroy(KILL.grace));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// The supervisor that was built with the tests of the whole workspace.
pub fn supervisor() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.ancestors().nth(2).unwrap().join("nacre-supervisor");
    assert!(path.exists(), "build it: cargo build -p nacre-supervisor");
    path
}

struct End(std::sync::mpsc::Sender<Result<Outcome, Error>>);

impl Sink for End {
    fn started(&mut self, _: i32) {}
    fn output(&mut self, _: OutputStream, _: Vec<u8>) {}
    fn finished(self: Box<Self>, result: Result<Outcome, Error>) {
        let _ = self.0.send(result);
    }
}

pub fn request(text: &str, end: std::sync::mpsc::Sender<Result<Outcome, Error>>) -> ExecRequest {
    ExecRequest {
        id: 0,
        command: Command::Text(text.into()),
        cwd: None,
        env: Vec::new(),
        timeout: None,
        kill: KILL,
        max_buffer: 1 << 20,
        output_limit: None,
        input: Input::None,
        merge_output: false,
        terminal: None,
        live: None,
        process: None,
        at_once: false,
        is_traced: false,
        sink: SureSink::new(End(end)),
    }
}

/// Runs a future on the engine's thread.
pub fn start<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Receiver<T> {
    let (sender, result) = channel();
    nacre_core::runtime::spawn(async move { drop(sender.send(future.await)) }).unwrap();
    result
}

pub fn wait<T>(result: &Receiver<T>) -> T {
    result.recv_timeout(PATIENCE).expect("nothing happens")
}

pub fn run<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    wait(&start(future))
}

pub async fn never_given_up<T>(call: impl Future<Output = Result<Option<T>, Error>>) -> Result<T, Error> {
    call.await.map(|done| done.expect("nothing gives it up"))
}

pub fn is_pending<T>(result: &Receiver<T>) -> bool {
    matches!(result.try_recv(), Err(TryRecvError::Empty))
}

pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < give_up, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn pid_of(process: &Process) -> Pid {
    process.life().birth.unwrap().pid
}

pub fn is_running(pid: Pid) -> bool {
    Stat::read(pid).is_some_and(|stat| stat.is_running())
}

/// A session without a sandbox.
pub fn spawn_session(id: &str, isolate: Option<Isolate>) -> Handle {
    Handle::spawn(session::SessionConfig {
        id: id.into(),
        cwd: "/".into(),
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        shell: "/bin/bash".into(),
        supervisor: supervisor(),
        survive_exit: true,
        uses_builtin: true,
        isolate,
        ..session::SessionConfig::default()
    })
    .unwrap()
}
