//! The life of a job in its supervisor: start, ended children, cancel, timeout, record, end.

use super::command::{self, Streams};
use super::directory::{Directory, Refused};
use super::failure::Failed;
use super::killing::Killing;
use super::meta;
use super::{Channels, ready};
use crate::process_setup;
use crate::spawn::child_pid;
use nacre_containment::cgroup::Group;
use nacre_containment::job::record::{End, Reason};
use nacre_containment::job::request::{Answer, Refusal, Request};
use nacre_containment::job::{CANCEL, clock};
use nacre_containment::limits;
use nacre_containment::pid::Pid;
use nacre_isolation::confined::Confined;
use nacre_isolation::confinement::Confinement;
use nacre_isolation::temporary;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How often to check for a full disk: a command does not report lost output.
const DISK_LOOK: Duration = Duration::from_secs(2);

/// The name of a job's control group, which the guard must find too.
pub fn group_name(supervisor: i32, request: &Request) -> String {
    format!("nacre-job-{supervisor}-{}", request.id)
}

struct Job {
    own: Pid,
    confined: Option<Confined>,
    directory: Directory,
    group: Option<Group>,
    /// The command, until it is reaped.
    command: Option<Pid>,
    started: Instant,
    timeout: Option<Instant>,
    grace: Duration,
    killing: Option<Killing>,
    output_lost: bool,
    disk_seen: Instant,
    /// The end of the command, until it is recorded.
    ended: Option<Ended>,
}

struct Ended {
    exit_code: Option<i32>,
    signal: Option<i32>,
    out_of_memory: bool,
}

/// Runs the job. Never returns.
pub fn run(request: Request, channels: Channels) -> ! {
    let set_up = || -> std::io::Result<SignalFd> {
        nix::unistd::setsid()?;
        nix::sys::prctl::set_child_subreaper(true)?;
        process_setup::block_signals(&[libc::SIGCHLD, libc::SIGTERM, CANCEL])
    };
    let signals = match set_up() {
        Ok(signals) => signals,
        Err(error) => {
            ready::refuse(&channels, &error);
            std::process::exit(0);
        }
    };
    let Channels { answer, stdin, null } = channels;
    let stdin = if request.has_stdin { Some(stdin) } else { None };
    match start(&request, stdin, null.into()) {
        Ok(job) => {
            let cgroup = job.group.as_ref().map(|group| group.path().to_path_buf());
            let guard = nix::unistd::getppid().as_raw();
            ready::answer(answer, &Answer::Started { pid: job.own, guard, cgroup });
            drop(request);
            job.watch(&signals)
        }
        Err((kind, message)) => {
            ready::answer(answer, &Answer::Refused { kind, message });
            std::process::exit(0);
        }
    }
}

type Fd = std::os::fd::OwnedFd;

fn start(request: &Request, stdin: Option<Fd>, null: Fd) -> Result<Job, Refused> {
    let confined = confine(request)?;
    let mut directory = Directory::begin(request).inspect_err(|_| confined.iter().for_each(Confined::clear))?;
    let own = Pid::new(std::process::id() as i32).expect("a supervisor is never init");
    let mut group = make_group(own, request);
    let begin = |directory: &mut Directory| -> Result<Pid, Refused> {
        if let Some(group) = &group {
            let limit =
                |error| (Refusal::Limit, format!("the job's control group does not accept its limits: {error}"));
            request.limits.apply(group).map_err(limit)?;
        } else if !request.limits.is_empty() {
            return Err((Refusal::Limit, "the job has no control group for its limits".into()));
        }
        let input = stdin.map(|source| directory.keep_stdin(&source, request)).transpose()?.unwrap_or(null);
        let streams = Streams { input: &input, output: &directory.output };
        let waiting = match command::prepare(request, group.as_ref(), confined.as_ref(), &streams) {
            // A hierarchy may refuse processes (a controller enabled in the parent): continue without it.
            Err(Failed::ByGroup(_)) if request.limits.is_empty() => {
                group.take().iter().for_each(remove_group);
                command::prepare(request, None, confined.as_ref(), &streams)?
            }
            other => other?,
        };
        match directory.publish(&meta::of(request, own, group.as_ref(), waiting.pid, directory)) {
            Ok(()) => Ok(waiting.release()),
            Err(refused) => {
                waiting.dismiss();
                Err(refused)
            }
        }
    };
    let started = Instant::now();
    match begin(&mut directory) {
        Ok(command) => Ok(Job {
            own,
            confined,
            directory,
            group,
            command: Some(command),
            started,
            timeout: request.timeout_ms.map(|ms| started + Duration::from_millis(ms)),
            grace: Duration::from_millis(request.grace_ms),
            killing: None,
            output_lost: false,
            disk_seen: started,
            ended: None,
        }),
        Err(refused) => {
            directory.discard();
            confined.iter().for_each(Confined::clear);
            group.iter().for_each(remove_group);
            Err(refused)
        }
    }
}

/// Enforces the job's rules. There is no pid namespace, whose init would outlive the command.
fn confine(request: &Request) -> Result<Option<Confined>, Refused> {
    let Some(wanted) = &request.confinement else { return Ok(None) };
    let owner = request.user.as_ref().map(|user| (user.uid, user.gid));
    let made = serde_json::from_value(wanted.clone())
        .map_err(std::io::Error::from)
        .and_then(|wanted| Confined::new(wanted, owner, 0, None, &[]));
    made.map(Some).map_err(|error| (Refusal::Isolation, format!("the command cannot be isolated: {error}")))
}

/// Removes the files that the confinement of a killed supervisor's job left on disk.
pub fn clear_remains(request: &Request) {
    let confinement = request.confinement.clone().and_then(|value| serde_json::from_value(value).ok());
    if let Some(Confinement { namespaces: None, temporary: path, .. }) = confinement {
        temporary::remove(&path);
    }
}

/// Creates the job's group. A failure is no error: the subreaper alone finds every process, only more slowly.
fn make_group(own: Pid, request: &Request) -> Option<Group> {
    Group::create(request.group_parent.as_ref()?, &group_name(own.raw(), request)).ok()
}

/// Removes the group. It is empty, but the kernel may need a moment to notice that.
fn remove_group(group: &Group) {
    let give_up = Instant::now() + Duration::from_secs(1);
    while group.remove().is_err() && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Job {
    fn watch(mut self, signals: &SignalFd) -> ! {
        loop {
            self.wait(signals);
            while let Ok(Some(signal)) = signals.read_signal() {
                match signal.ssi_signo as i32 {
                    CANCEL => self.end(Reason::Cancelled, grace_of(signal.ssi_code, signal.ssi_int, self.grace)),
                    libc::SIGTERM => self.end(Reason::Cancelled, self.grace),
                    _ => {}
                }
            }
            if self.timeout.is_some_and(|at| Instant::now() >= at) {
                self.timeout = None;
                self.end(Reason::Timeout, self.grace);
            }
            self.look_at_disk();
            let childless = self.reap();
            if childless {
                self.group.iter().for_each(remove_group);
                self.confined.iter().for_each(Confined::clear);
            }
            self.record(!childless);
            if childless {
                std::process::exit(0);
            }
            if let Some(killing) = &mut self.killing {
                killing.step(self.own, self.group.as_ref(), self.command);
            }
        }
    }

    /// Starts the kill ladder, or shortens the time until SIGKILL.
    fn end(&mut self, reason: Reason, grace: Duration) {
        match &mut self.killing {
            Some(killing) => killing.hasten(grace),
            None => self.killing = Some(Killing::new(reason, grace)),
        }
    }

    fn wait(&self, signals: &SignalFd) {
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let watched = self.killing.iter().flat_map(Killing::watched);
        fds.extend(watched.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        let until_timeout = self.timeout.map(|at| at.saturating_duration_since(Instant::now()));
        let next_look = self.killing.as_ref().map(Killing::next_look);
        let longest = [Some(DISK_LOOK), until_timeout, next_look].into_iter().flatten().min().unwrap_or(DISK_LOOK);
        let _ = poll(&mut fds, PollTimeout::from((longest.as_millis() + 1).min(60_000) as u16));
    }

    /// Reaps every ended child. True if no child is left.
    fn reap(&mut self) -> bool {
        loop {
            let (raw, code, signal) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, Some(code), None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, None, Some(signal as i32)),
                Err(nix::errno::Errno::ECHILD) => return true,
                Ok(WaitStatus::StillAlive) | Err(_) => return false,
                Ok(_) => continue,
            };
            if self.command == Some(child_pid(raw.as_raw())) {
                self.command = None;
                // Before its group is removed.
                let out_of_memory = self.group.as_ref().is_some_and(limits::ran_out_of_memory);
                self.ended = Some(Ended { exit_code: code, signal, out_of_memory });
            }
        }
    }

    /// Records how the command ended, as soon as it has ended: its background processes may run forever.
    fn record(&mut self, left_behind: bool) {
        let Some(Ended { exit_code, signal, out_of_memory }) = self.ended.take() else { return };
        let reason = match &self.killing {
            Some(killing) => killing.reason,
            None if signal.is_some() && out_of_memory => Reason::Oom,
            None if signal.is_some() => Reason::Signal,
            None => Reason::Exit,
        };
        self.directory.record(&End {
            exit_code,
            signal,
            reason,
            ended_at: clock::now(),
            duration_ms: self.started.elapsed().as_millis() as u64,
            left_behind,
            output_lost: self.output_lost || self.directory.is_full(),
        });
    }

    fn look_at_disk(&mut self) {
        if self.disk_seen.elapsed() >= DISK_LOOK && !self.output_lost {
            self.disk_seen = Instant::now();
            self.output_lost = self.directory.is_full();
        }
    }
}

/// The grace time that the signal carried, or the job's own.
fn grace_of(code: i32, value: i32, default: Duration) -> Duration {
    let given = u64::try_from(value).ok().filter(|_| code == libc::SI_QUEUE);
    given.map_or(default, Duration::from_millis)
}
