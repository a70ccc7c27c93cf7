//! The life of a job in its supervisor: start, ended children, cancel, timeout, record, end.

use super::command;
use super::directory::{Claimed, Directory, Refused};
use super::hold::Kill;
use super::meta;
use super::{Channels, ready};
use crate::adopter::Adopter;
use crate::own_limits::Limits;
use crate::process_setup;
use crate::reap::{self, Childless};
use crate::spawn::Failure;
use nacre_containment::cgroup::Group;
use nacre_containment::job::meta::Meta;
use nacre_containment::job::record::{End, Reason};
use nacre_containment::job::{CANCEL, clock};
use nacre_containment::ladder::Ladder;
use nacre_containment::limits;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::rest::{RestWait, Writers};
use nacre_isolation::confined::Confined;
use nacre_isolation::masks::Masks;
use nacre_isolation::temporary;
use nacre_protocol::confinement::Confinement;
use nacre_protocol::job::{Answer, JobRefusal, JobRequest};
use nacre_protocol::supervisor::StartStep;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::{SignalFd, siginfo};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How often to check for a full disk: a command does not report lost output.
const DISK_LOOK: Duration = Duration::from_secs(2);

/// The name of a job's control group, which the guard must find too.
pub fn group_name(supervisor: i32, request: &JobRequest) -> String {
    format!("nacre-job-{supervisor}-{}", request.id)
}

struct Job {
    own: Pid,
    confined: Option<Confined>,
    adopter: Adopter,
    directory: Directory,
    group: Option<Group>,
    /// See [`Group::hold`].
    _hold: Option<File>,
    /// The command, until it is reaped.
    command: Option<Pid>,
    started: Instant,
    timeout: Option<Instant>,
    grace: Duration,
    /// Why everything is being ended, once it is.
    killing: Option<(Reason, Ladder)>,
    /// The command got a signal of the kill ladder, and may have handled SIGTERM.
    is_reached: bool,
    may_survive: bool,
    kill: Kill,
    limits: Limits,
    output_lost: bool,
    disk_seen: Instant,
    /// The end of the command, until it is recorded.
    ended: Option<EndedProcess>,
    /// The wait for the rest of its output.
    rest: Option<RestWait>,
}

struct EndedProcess {
    exit_code: Option<i32>,
    signal: Option<i32>,
    out_of_memory: bool,
}

/// Runs the job. Never returns.
pub fn run(request: JobRequest, channels: Channels, claimed: Claimed) -> ! {
    let signals = match process_setup::lead(&[libc::SIGCHLD, libc::SIGTERM, CANCEL]) {
        Ok(signals) => signals,
        Err(error) => {
            ready::refuse(&channels, &error);
            claimed.discard();
            std::process::exit(0);
        }
    };
    let Channels { answer, stdin, null } = channels;
    let stdin = if request.has_stdin { Some(stdin) } else { None };
    match start(&request, claimed, stdin, null.into(), Adopter::of_this_process()) {
        Ok((job, meta)) => {
            let guard = nix::unistd::getppid().as_raw();
            ready::answer(answer, &Answer::Started { guard, meta: Box::new(meta) });
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

fn start(
    request: &JobRequest,
    claimed: Claimed,
    stdin: Option<Fd>,
    null: Fd,
    mut adopter: Adopter,
) -> Result<(Job, Meta), Refused> {
    let directory = Directory::begin(claimed, request)?;
    let confined = confine(request, &directory, &mut adopter).inspect_err(|_| directory.discard())?;
    let own = Pid::new(std::process::id() as i32).expect("a supervisor is never init");
    let mut group = make_group(own, request);
    let kill = Kill::open(group.as_ref());
    let begin = || -> Result<(Pid, Meta), Refused> {
        if let Some(group) = &group {
            let limit =
                |error| (JobRefusal::Limit, format!("the job's control group does not accept its limits: {error}"));
            request.limits.apply(group).map_err(limit)?;
        } else if !request.limits.is_empty() {
            return Err((JobRefusal::Limit, "the job has no control group for its limits".into()));
        }
        let input = stdin.map(|source| directory.keep_stdin(&source, request)).transpose()?.unwrap_or(null);
        let streams = [input.as_fd(), directory.output.as_fd()];
        let mut prepared = command::prepare(request, group.as_ref(), confined.as_ref(), streams);
        // A hierarchy may refuse processes (a controller enabled in the parent): continue without it. A killed child is
        // no evidence against its group. A job without a group would lose track of its processes if its supervisor and
        // guard were killed later.
        if prepared.as_ref().is_err_and(|failure| failure.step == StartStep::Group) && request.limits.is_empty() {
            group.take().iter().for_each(remove_group);
            prepared = command::prepare(request, None, confined.as_ref(), streams);
        }
        let waiting = prepared.map_err(|failure| command::refused(&failure, &request.cwd))?;
        let described = meta::of(request, own, group.as_ref(), waiting.pid, &directory)
            .map_err(|error| (JobRefusal::Spawn, format!("the job cannot be described: {error}")));
        match described.and_then(|meta| directory.publish(&meta).map(|()| meta)) {
            Ok(meta) => Ok((waiting.release(), meta)),
            Err(refused) => {
                waiting.dismiss();
                Err(refused)
            }
        }
    };
    // Before the command runs.
    let own_limits = Limits::current();
    let started = Instant::now();
    let begun = begin();
    match begun {
        Ok((command, meta)) => {
            let job = Job {
                _hold: group.as_ref().and_then(|group| group.hold().ok().flatten()),
                own,
                confined,
                adopter,
                directory,
                group,
                command: Some(command),
                started,
                timeout: request.timeout_ms.map(|ms| started + Duration::from_millis(ms)),
                grace: Duration::from_millis(request.grace_ms),
                killing: None,
                is_reached: false,
                may_survive: false,
                kill,
                limits: own_limits,
                output_lost: false,
                disk_seen: started,
                ended: None,
                rest: None,
            };
            Ok((job, meta))
        }
        Err(refused) => {
            directory.discard();
            confined.iter().for_each(Confined::clear);
            group.iter().for_each(remove_group);
            Err(refused)
        }
    }
}

/// Enforces the job's rules, and makes sure that something adopts orphans. The init of a pid namespace exits after the last
/// process, or when this process dies.
fn confine(request: &JobRequest, directory: &Directory, adopter: &mut Adopter) -> Result<Option<Confined>, Refused> {
    let make = |wanted: &Confinement| {
        let owner = request.user.as_ref().map(|user| (user.uid, user.gid));
        let wanted = adopter.complete(Confinement { own: Some(directory.places()), ..wanted.clone() });
        Confined::new(wanted, owner, None, None, &[std::process::id() as i32], None)
    };
    let made = request.confinement.as_ref().map(make).transpose();
    let confined = made.map_err(|error| command::refused(&Failure::confining(&error), &request.cwd))?;
    let has_init = confined.as_ref().is_some_and(|confined| confined.init().is_some());
    let adopted = if has_init { Ok(()) } else { adopter.ensure() };
    adopted
        .inspect_err(|_| confined.iter().for_each(Confined::clear))
        .map_err(|error| command::refused(&Failure::new(StartStep::Prepare, &error), &request.cwd))?;
    Ok(confined)
}

/// Removes the files that the confinement of a killed supervisor's job left on disk.
pub fn clear_remains(request: &JobRequest) {
    if let Some(Confinement { namespaces: None, temporary: path, .. }) = &request.confinement {
        temporary::remove(path);
    }
}

/// The running processes of a job: everything below its supervisor, which is its subreaper, and in its control group.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
fn members(own: Pid, group: Option<&Group>) -> io::Result<Vec<Stat>> {
    let mut found = proc_table::descendants(&[own], &HashSet::new())?;
    let known: HashSet<Pid> = found.iter().map(|stat| stat.identity.pid).collect();
    let in_group = group.map(Group::members_below).transpose()?.unwrap_or_default();
    found.extend(proc_table::read_each(in_group.into_iter().filter(|pid| !known.contains(pid)))?);
    found.retain(Stat::is_running);
    Ok(found)
}

/// Creates the job's group. A failure is no error: the subreaper alone finds every process, only more slowly.
fn make_group(own: Pid, request: &JobRequest) -> Option<Group> {
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
            let (arrived, is_unmasked) = self.wait(signals);
            self.limits.restore();
            if is_unmasked && self.confined.as_mut().is_some_and(|confined| confined.mask_again().is_err()) {
                self.end(Reason::Cancelled, Some(Duration::ZERO));
            }
            self.look_at_disk();
            // First: a command that has ended by itself was not ended by a signal or a timeout that is due now.
            let childless = self.reap();
            if childless {
                self.group.iter().for_each(remove_group);
                self.confined.iter().for_each(Confined::clear);
            }
            if childless || self.killing.is_some() || !self.awaits_rest() {
                self.record(childless);
            }
            if childless {
                self.directory.release();
                std::process::exit(0);
            }
            for signal in arrived {
                match signal.ssi_signo as i32 {
                    CANCEL => self.end(Reason::Cancelled, grace_of(signal.ssi_code, signal.ssi_int)),
                    libc::SIGTERM => self.end(Reason::Cancelled, self.directory.wanted_grace()),
                    _ => {}
                }
            }
            if self.timeout.is_some_and(|at| Instant::now() >= at) {
                self.timeout = None;
                self.end(Reason::Timeout, None);
            }
            self.signal_members();
        }
    }

    /// Starts the kill ladder, or shortens the time until SIGKILL: the job's own, unless another is given.
    fn end(&mut self, reason: Reason, grace: Option<Duration>) {
        let grace = grace.unwrap_or(self.grace);
        match &mut self.killing {
            Some((_, ladder)) => ladder.hasten(grace),
            None => self.killing = Some((reason, Ladder::new(libc::SIGTERM, grace))),
        }
    }

    /// Takes the next look of the kill ladder.
    fn signal_members(&mut self) {
        let Some((_, ladder)) = &mut self.killing else { return };
        let members = members(self.own, self.group.as_ref());
        let is_overdue = ladder.is_overdue();
        if members.is_err() && !is_overdue {
            return ladder.cannot_look();
        }
        // Immediately before the signals. What cannot be looked up is taken for a command that may handle them.
        let reached = self.command.filter(|command| !reap::has_ended(*command));
        let look = || reached.map(|command| Stat::look(command).ok().flatten());
        let handles = |stat: Stat| stat.catches(libc::SIGTERM) || stat.ignores(libc::SIGTERM);
        self.is_reached |= reached.is_some();
        self.may_survive |= look().is_some_and(|stat| stat.is_none_or(handles));
        if is_overdue {
            ladder.kill();
            self.kill.send();
        }
        match members {
            Ok(members) => ladder.step(&members, self.command, None),
            Err(_) => return ladder.cannot_look(),
        }
        // After the signals: a shell blocks them for a moment before.
        self.may_survive |= look().flatten().is_some_and(|stat| stat.blocks(libc::SIGTERM));
    }

    /// Waits until there is something to do. Returns the signals, which are taken before the children are looked at: the
    /// SIGCHLD of a child that ends later is still there for the next wait. Also returns whether something may have to be masked
    /// again.
    fn wait(&self, signals: &SignalFd) -> (Vec<siginfo>, bool) {
        let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        let masks = self.confined.as_ref().and_then(Confined::masks);
        fds.extend(masks.into_iter().flat_map(Masks::watched));
        let masked = fds.len();
        let ladder = self.killing.as_ref().map(|(_, ladder)| ladder);
        let watched = ladder.map(Ladder::watched).unwrap_or_default();
        fds.extend(watched.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        let until_timeout = self.timeout.map(|at| at.saturating_duration_since(Instant::now()));
        let next_look = ladder.map(Ladder::next_look);
        let next_rest = self.rest.as_ref().map(|rest| rest.next().saturating_duration_since(Instant::now()));
        let longest =
            [Some(DISK_LOOK), until_timeout, next_look, next_rest].into_iter().flatten().min().unwrap_or(DISK_LOOK);
        let _ = poll(&mut fds, PollTimeout::from((longest.as_millis() + 1).min(60_000) as u16));
        let is_unmasked = fds[1..masked].iter().any(|fd| fd.any().unwrap_or(false));
        (std::iter::from_fn(|| signals.read_signal().ok().flatten()).collect(), is_unmasked)
    }

    /// Reaps every ended child. True if no child is left.
    fn reap(&mut self) -> bool {
        loop {
            let ended = match reap::collect_any() {
                Ok(Some(ended)) => ended,
                Ok(None) => return false,
                Err(Childless) => return true,
            };
            if self.command == Some(ended.pid) {
                self.command = None;
                self.confined.iter().for_each(Confined::close);
                self.adopter.close();
                // Before its group is removed.
                let out_of_memory = self.group.as_ref().is_some_and(limits::ran_out_of_memory);
                self.ended = Some(EndedProcess { exit_code: ended.code, signal: ended.signal, out_of_memory });
            }
        }
    }

    /// The init of a pid namespace, which adopts orphans instead of this process.
    fn init(&self) -> Option<i32> {
        self.confined.as_ref().and_then(Confined::init).or(self.adopter.init().map(Pid::raw))
    }

    /// Whether process substitutions of the command, which has ended, may still print. Their end wakes the wait for it, except
    /// in a pid namespace, whose init adopts them.
    fn awaits_rest(&mut self) -> bool {
        if self.ended.is_none() {
            return false;
        }
        let init = self.init();
        let list = || members(self.own, self.group.as_ref());
        let counts = |stat: &Stat, _: &[Stat]| Some(stat.identity.pid.raw()) != init;
        let writers = Writers::look(list, counts, |_| false);
        let printed = self.directory.printed();
        match (&mut self.rest, writers) {
            (Some(rest), writers) if Instant::now() >= rest.next() => rest.goes_on(printed, writers),
            (Some(_), writers) => writers.is_some(),
            (None, Some(writers)) => {
                self.rest = Some(RestWait::begin(printed, writers));
                true
            }
            (None, None) => false,
        }
    }

    /// Records how the command ended, as soon as its output is complete: its background processes may run forever.
    fn record(&mut self, childless: bool) {
        let Some(EndedProcess { exit_code, signal, out_of_memory }) = self.ended.take() else { return };
        let init = self.init();
        let is_other = |stat: &Stat| Some(stat.identity.pid.raw()) != init;
        // What cannot be looked up may be running.
        let has_other = || members(self.own, None).map_or(true, |members| members.iter().any(is_other));
        let left_behind = !childless && (init.is_none() || has_other());
        let is_of_ladder = matches!(signal, Some(libc::SIGTERM | libc::SIGKILL));
        let reason = match &self.killing {
            // Otherwise it has ended by itself. An exit takes a moment, in which a signal has no effect.
            Some((reason, _)) if self.is_reached && (self.may_survive || is_of_ladder) => *reason,
            _ if signal.is_some() && out_of_memory => Reason::Oom,
            _ if signal.is_some() => Reason::Signal,
            _ => Reason::Exit,
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

/// The grace time that the signal carried, if it did.
fn grace_of(code: i32, value: i32) -> Option<Duration> {
    u64::try_from(value).ok().filter(|_| code == libc::SI_QUEUE).map(Duration::from_millis)
}
