//! Holds the end of a command back while its process substitutions print: the rest of its output.
//!
//! For the state machine, the command runs meanwhile. A kill reaches the substitutions, and everything else that ends the
//! command ends the wait.

use super::older::{EngineProcesses, OlderProcesses};
use super::{Foreground, ForegroundCommand};
use crate::output::rest::OutputSource as _;
use crate::session::context::Context;
use crate::session::standby::Standbys;
use crate::session::timers::Timer;
use crate::shell::event::Event;
use crate::shell::state::{Run, Ticket};
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::rest::{RestWait, Writers};
use std::collections::HashSet;
use std::io;

/// The end of the running command, while it is held back.
pub(super) struct HeldEnd {
    end: Event,
    /// Whether children of the shell may be substitutions. Otherwise they are jobs.
    substituted: bool,
    wait: RestWait,
}

impl Foreground {
    /// Passes the end of the running command on, at once or when its output is complete. `own`: given if the command has made
    /// processes that are not its jobs. `substituted`: some may be children of its shell.
    pub fn end_command(
        &mut self,
        cx: &mut Context,
        run: Option<&Run>,
        own: Option<EngineProcesses>,
        standbys: &Standbys,
        end: Event,
        substituted: bool,
    ) {
        // An earlier event may end the command first. What is being killed is not waited for.
        let ticket = run.map(|run| run.ticket);
        let is_first = !cx.events.iter().any(|event| event.ends(ticket)) && self.held.is_none();
        let waits = is_first && run.is_some_and(|run| run.kill.is_none() && run.end.is_none());
        if let (Some(own), Some(command), true) = (own, &mut self.running, waits)
            && command.read_on()
            && let Some(writers) = writers(&own, standbys, &self.older, command, substituted)
        {
            let wait = RestWait::begin(command.total(), writers);
            return self.hold(cx, HeldEnd { end, substituted, wait });
        }
        cx.events.push_back(end);
    }

    fn hold(&mut self, cx: &mut Context, held: HeldEnd) {
        cx.timers.set(Timer::Rest, held.wait.next().into());
        self.held = Some(held);
    }

    /// Whether the command has ended, and the rest of its output is awaited.
    pub fn awaits_rest(&self) -> bool {
        self.held.is_some()
    }

    /// Looks whether the output is complete.
    pub fn check_rest(&mut self, cx: &mut Context, own: &EngineProcesses, standbys: &Standbys) {
        let Some(mut held) = self.held.take() else { return };
        let goes_on = self.running.as_ref().is_some_and(|command| {
            if command.is_held_up() {
                held.wait.extend();
                return true;
            }
            held.wait.goes_on(command.total(), writers(own, standbys, &self.older, command, held.substituted))
        });
        if goes_on {
            self.hold(cx, held);
        } else {
            cx.events.push_back(held.end);
        }
    }

    /// Ends the wait at the end of both streams.
    pub fn end_rest_if_read(&mut self, cx: &mut Context) {
        let is_read = self.running.as_ref().is_some_and(|command| !command.is_open());
        if let Some(held) = self.held.take_if(|_| is_read) {
            cx.timers.clear(Timer::Rest);
            cx.events.push_back(held.end);
        }
    }

    /// Returns the event to handle first, if this one ends the wait. A kill comes before the end of the command, so that it
    /// reaches what prints the rest.
    pub fn cut_rest(&mut self, cx: &mut Context, running: Option<Ticket>, event: Event) -> Event {
        let Some(held) = self.held.take_if(|_| event.ends(running)) else { return event };
        cx.timers.clear(Timer::Rest);
        let (first, second) = match event {
            // What prints the rest is killed, so the output is not complete.
            Event::SupervisorGone { .. } | Event::Close => return event,
            Event::ShellDied { .. } => (held.end, event),
            _ => (event, held.end),
        };
        cx.events.push_front(second);
        first
    }
}

/// The processes of the command that may still print, apart from its jobs.
fn writers(
    own: &EngineProcesses,
    standbys: &Standbys,
    older: &OlderProcesses,
    command: &ForegroundCommand,
    substituted: bool,
) -> Option<Writers> {
    let spared: HashSet<Pid> = older.roots.iter().copied().collect();
    let list = || match &own.group {
        Some(group) => proc_table::read_each(group.members_if_any()?.unwrap_or_default()),
        // The shell has just died, and its children with it or to another parent.
        None if own.shell.is_some_and(|shell| !Stat::read(shell).is_some_and(|stat| stat.is_running())) => {
            Err(io::ErrorKind::NotFound.into())
        }
        None => proc_table::descendants(&own.parents().collect::<Vec<_>>(), &spared),
    };
    let counts = |stat: &Stat, all: &[Stat]| {
        let pid = stat.identity.pid;
        let is_own = [own.shell, own.init].contains(&Some(pid)) || standbys.contains(pid);
        !is_own && (substituted || !is_below(own.shell, stat, all))
    };
    Writers::look(list, counts, |inode| command.is_own(inode))
}

/// Whether a process is below the shell.
fn is_below(shell: Option<Pid>, stat: &Stat, all: &[Stat]) -> bool {
    let mut parent = stat.parent;
    // A parent is in the list once. Pids that are reused meanwhile could form a circle.
    for _ in 0..=all.len() {
        if shell.is_some_and(|shell| shell.raw() == parent) {
            return true;
        }
        match all.iter().find(|other| other.identity.pid.raw() == parent) {
            Some(other) => parent = other.parent,
            None => return false,
        }
    }
    false
}
