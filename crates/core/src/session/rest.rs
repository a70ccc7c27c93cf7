//! Holds the end of a command back while its process substitutions print: the rest of its output.
//!
//! For the state machine, the command runs meanwhile. A kill reaches the substitutions, and everything else that ends the
//! command ends the wait.

use super::Session;
use super::timers::Timer;
use crate::output::rest::Source;
use crate::shell::event::Event;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::rest::{Wait, Writers};
use std::collections::HashSet;
use std::io;

/// See the module.
pub(super) struct Rest {
    /// The end of the command.
    end: Event,
    /// Whether children of the shell may be substitutions. Otherwise they are jobs.
    substituted: bool,
    wait: Wait,
}

impl Session {
    /// Passes the end of the running command on, at once or when its output is complete. `may_have_rest`: it has made
    /// processes that are not its jobs. `substituted`: some may be children of its shell.
    pub(super) fn end_command(&mut self, end: Event, may_have_rest: bool, substituted: bool) {
        // An earlier event may end the command first, or be its end.
        let is_first = self.events.is_empty() && self.rest.is_none();
        let rest = if may_have_rest && is_first { self.await_rest(end, substituted) } else { None };
        match rest {
            Some(rest) => {
                self.timers.set(Timer::Rest, rest.wait.next().into());
                self.rest = Some(rest);
            }
            None => self.events.push_back(end),
        }
    }

    fn await_rest(&mut self, end: Event, substituted: bool) -> Option<Rest> {
        // What is being killed is not waited for.
        if self.state.running().is_none_or(|run| run.kill.is_some() || run.end.is_some()) {
            return None;
        }
        if !self.foreground.command()?.read_on() {
            return None;
        }
        let writers = self.writers(substituted)?;
        let wait = Wait::begin(self.foreground.command()?.total(), writers);
        Some(Rest { end, substituted, wait })
    }

    /// The processes of the command that may still print, apart from its jobs.
    fn writers(&mut self, substituted: bool) -> Option<Writers> {
        let (shell, init) = (self.shell.pid(), self.enclosure.init());
        let group = self.supervision.foreground_group();
        let roots: Vec<Pid> = shell.into_iter().chain(self.supervision.pid()).chain(init).collect();
        let spare: HashSet<Pid> = self.foreground.spared().into_iter().collect();
        let standbys = &self.standbys;
        let command = self.foreground.command()?;
        let list = || match &group {
            Some(group) => proc_table::read_each(group.members_if_any()?.unwrap_or_default()),
            // The shell has just died, and its children with it or to another parent.
            None if shell.is_some_and(|shell| !Stat::read(shell).is_some_and(|stat| stat.is_running())) => {
                Err(io::ErrorKind::NotFound.into())
            }
            None => proc_table::descendants(&roots, &spare),
        };
        let counts = |stat: &Stat, all: &[Stat]| {
            let pid = stat.identity.pid;
            let is_own = [shell, init].contains(&Some(pid)) || standbys.contains(pid);
            !is_own && (substituted || !is_below(shell, stat, all))
        };
        Writers::look(list, counts, |inode| command.is_own(inode))
    }

    /// Looks whether the output is complete.
    pub(super) fn check_rest(&mut self) {
        let Some(mut rest) = self.rest.take() else { return };
        let goes_on = match self.foreground.command() {
            Some(command) if command.is_held_up() => {
                rest.wait.extend();
                true
            }
            Some(command) => {
                let total = command.total();
                rest.wait.goes_on(total, self.writers(rest.substituted))
            }
            None => false,
        };
        if goes_on {
            self.timers.set(Timer::Rest, rest.wait.next().into());
            self.rest = Some(rest);
        } else {
            self.events.push_back(rest.end);
        }
    }

    /// Ends the wait at the end of both streams.
    pub(super) fn end_rest_if_read(&mut self) {
        if self.rest.is_some() && self.foreground.command().is_some_and(|command| !command.is_open()) {
            self.end_rest();
        }
    }

    fn end_rest(&mut self) {
        self.timers.clear(Timer::Rest);
        self.events.extend(self.rest.take().map(|rest| rest.end));
    }

    /// Returns the event to handle first, if this one ends the wait. A kill comes before the end of the command, so that it
    /// reaches what prints the rest.
    pub(super) fn cut_rest(&mut self, event: Event) -> Event {
        let ticket = self.state.running().map(|run| run.ticket);
        let is_cut = match event {
            Event::TimeUp(victim) | Event::Cancel(victim, _) | Event::OutputLimit(victim) => Some(victim) == ticket,
            Event::ShellDied { .. } | Event::SupervisorGone { .. } | Event::Close => true,
            _ => false,
        };
        let Some(rest) = self.rest.take_if(|_| is_cut) else { return event };
        self.timers.clear(Timer::Rest);
        let (first, second) = match event {
            // What prints the rest is killed, so the output is not complete.
            Event::SupervisorGone { .. } | Event::Close => return event,
            Event::ShellDied { .. } => (rest.end, event),
            _ => (event, rest.end),
        };
        self.events.push_front(second);
        first
    }
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
