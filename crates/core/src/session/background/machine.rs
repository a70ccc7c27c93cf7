//! The background processes of a session, from the request to the end: a pure machine.
//!
//! [`Machine::step`] maps an event to effects, without I/O or a clock. `perform.rs` turns messages into events, and
//! performs the effects in order.
//!
//! A process is a fork of the standby or of the idle shell. The supervisor adopts the process, and the host then sends
//! the command over the process's own channel, which closes when the command begins. The host waits for the adoption
//! only if the process is not yet contained: if it has no group from its start, or needs limits. Otherwise the
//! supervisor reads the order to adopt before it reaps the process, so the host need not wait. In plain mode, the
//! supervisor starts a new bash instead, which is adopted from its start.
//!
//! A command that is detached is a process from that moment on; see `detached.rs`.

use crate::process::pump::Status;
use crate::shell::event::Source;
use std::collections::HashMap;

/// Identifies a process in its session.
pub(in crate::session) type Key = u64;

/// An event of a process, or of what it depends on.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::session) enum ProcessEvent {
    /// The shell or the standby was asked to fork the process.
    Asked(Key, Source),
    /// The supervisor was asked to start its bash (plain mode).
    Launched(Key),
    /// It is a command that was running, with its shell.
    Detached(Key),
    /// It was forked. `contained`: nothing of it can escape before the supervisor adopts it.
    Forked { key: Key, contained: bool },
    /// It could not be forked, or it was killed before the supervisor could adopt it.
    NotForked(Key, Why),
    /// Its bash runs (plain mode).
    Started(Key),
    /// Its bash could not be started (plain mode).
    NotStarted(Key),
    /// The supervisor has adopted it, or found that it had ended. `limited`: its limits could be set.
    Adopted { key: Key, lives: bool, limited: bool },
    /// Its command can be sent. `can_fail`: its directory, variables or limits can still be refused.
    Prepared { key: Key, can_fail: bool },
    /// Its command cannot be sent.
    NotPrepared(Key),
    /// Its command has begun.
    Begun(Key),
    /// Its directory, variables or limits were refused.
    Refused(Key),
    /// Its channel closed before the command began.
    Silent(Key),
    /// It has ended.
    Ended(Key, Status),
    /// The shell or the standby has died, or is being replaced.
    SourceGone(Source),
    /// The standby has become the shell.
    Promoted,
    /// The supervisor has died, and every process with it.
    SupervisorGone,
    /// The session is being closed: the supervisor ends everything.
    Closing,
}

/// What an event leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Order the supervisor to adopt the process. Answered by [`ProcessEvent::Adopted`].
    Adopt(Key),
    /// Open its streams and write its command down. Answered at once by [`ProcessEvent::Prepared`] or [`ProcessEvent::NotPrepared`].
    Prepare(Key),
    /// Send the command, and order the adoption if that has not been done. `settled`: answer the caller first, since
    /// nothing can fail any more.
    Begin { key: Key, settled: bool },
    /// Wait for its bash to begin the command (plain mode). Answered by [`ProcessEvent::Begun`] and its like.
    Listen(Key),
    /// Answer the caller: the process runs.
    Settle(Key),
    /// Answer the caller: there is no process.
    Refuse(Key, Why),
    /// Request the start again, from another source.
    Resubmit(Key),
    /// Kill the process, for which no caller waits.
    Kill(Key),
    /// Deliver its end; `None` if how it ended is unknown.
    End(Key, Option<Status>),
    /// Report a defect of nacre: this event cannot happen.
    Defect(ProcessEvent),
}

/// Why a start is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::session) enum Why {
    /// The shell cannot fork.
    NoFork,
    /// It was killed before its command began.
    Killed,
    /// Something was refused; the performer has the reason.
    Failed,
    /// The session is being closed.
    Closing,
}

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// It is being forked.
    Forking(Source),
    /// The supervisor was asked to start its bash (plain mode).
    Launching,
    /// The supervisor was ordered to adopt it, and its answer is awaited.
    Adopting,
    /// Its command is being written down.
    Preparing,
    /// It has its command, and sets up its directory, variables and limits, which can fail.
    SettingUp {
        /// Its end, in the form of [`Effect::End`]. It may already have reported its beginning, so its channel decides.
        ended: Option<Option<Status>>,
    },
    /// Its supervisor died before the command was known to have begun. Its channel decides, too.
    Orphaned {
        /// How it had ended before, if it had.
        ended: Option<Status>,
    },
    /// The caller has been answered.
    Living,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Machine {
    stages: HashMap<Key, Stage>,
}

impl Machine {
    /// Handles an event. A process that is not known has been refused, or its end was delivered: its late messages
    /// have no effect, but a process that lives is killed.
    pub(super) fn step(&mut self, event: ProcessEvent) -> Vec<Effect> {
        match event {
            ProcessEvent::Asked(key, source) => self.begin_with(key, Stage::Forking(source), event),
            ProcessEvent::Launched(key) => self.begin_with(key, Stage::Launching, event),
            ProcessEvent::Detached(key) => self.begin_with(key, Stage::Living, event),
            ProcessEvent::Forked { key, contained } => match self.stages.get_mut(&key) {
                Some(stage @ Stage::Forking(_)) if contained => {
                    *stage = Stage::Preparing;
                    vec![Effect::Prepare(key)]
                }
                Some(stage @ Stage::Forking(_)) => {
                    *stage = Stage::Adopting;
                    vec![Effect::Adopt(key)]
                }
                // A program can send this in the name of the shell. The report names no process of a start.
                _ => Vec::new(),
            },
            ProcessEvent::NotForked(key, why) => match self.stages.get(&key) {
                Some(Stage::Forking(_)) => self.refuse(key, why),
                _ => Vec::new(),
            },
            ProcessEvent::Started(key) => match self.stages.get_mut(&key) {
                Some(stage @ Stage::Launching) => {
                    *stage = Stage::SettingUp { ended: None };
                    vec![Effect::Listen(key)]
                }
                Some(_) => vec![Effect::Defect(event)],
                None => vec![Effect::Kill(key)],
            },
            ProcessEvent::NotStarted(key) => match self.stages.get(&key) {
                Some(Stage::Launching) => self.refuse(key, Why::Failed),
                Some(_) => vec![Effect::Defect(event)],
                None => Vec::new(),
            },
            ProcessEvent::Adopted { key, lives, limited } => match self.stages.get_mut(&key) {
                Some(Stage::Adopting) if !lives => self.refuse(key, Why::Killed),
                Some(Stage::Adopting) if !limited => {
                    let mut effects = vec![Effect::Kill(key)];
                    effects.extend(self.refuse(key, Why::Failed));
                    effects
                }
                Some(stage @ Stage::Adopting) => {
                    *stage = Stage::Preparing;
                    vec![Effect::Prepare(key)]
                }
                // It was contained from its start, so it has already been sent its command.
                Some(Stage::SettingUp { .. } | Stage::Living) if lives => Vec::new(),
                // It was reaped before the adoption, so its end will not be reported.
                Some(Stage::SettingUp { .. } | Stage::Living) => self.end(key, None),
                Some(Stage::Forking(_) | Stage::Launching | Stage::Preparing | Stage::Orphaned { .. }) => {
                    vec![Effect::Defect(event)]
                }
                None if lives => vec![Effect::Kill(key)],
                None => Vec::new(),
            },
            ProcessEvent::Prepared { key, can_fail } => match self.stages.get_mut(&key) {
                Some(stage @ Stage::Preparing) => {
                    *stage = if can_fail { Stage::SettingUp { ended: None } } else { Stage::Living };
                    vec![Effect::Begin { key, settled: !can_fail }]
                }
                _ => vec![Effect::Defect(event)],
            },
            ProcessEvent::NotPrepared(key) => match self.stages.get(&key) {
                Some(Stage::Preparing) => {
                    let mut effects = vec![Effect::Adopt(key), Effect::Kill(key)];
                    effects.extend(self.refuse(key, Why::Failed));
                    effects
                }
                _ => vec![Effect::Defect(event)],
            },
            ProcessEvent::Begun(key) => match self.stages.get_mut(&key) {
                Some(stage @ Stage::SettingUp { ended: None }) => {
                    *stage = Stage::Living;
                    vec![Effect::Settle(key)]
                }
                Some(&mut (Stage::SettingUp { ended: Some(status) } | Stage::Orphaned { ended: status })) => {
                    self.stages.remove(&key);
                    vec![Effect::Settle(key), Effect::End(key, status)]
                }
                // The caller did not have to wait for it.
                _ => Vec::new(),
            },
            ProcessEvent::Refused(key) => match self.stages.get(&key) {
                Some(Stage::SettingUp { .. } | Stage::Orphaned { .. }) => self.refuse(key, Why::Failed),
                _ => Vec::new(),
            },
            ProcessEvent::Silent(key) => match self.stages.get(&key) {
                Some(Stage::SettingUp { .. }) => self.refuse(key, Why::Killed),
                Some(Stage::Orphaned { .. }) => {
                    self.stages.remove(&key);
                    vec![Effect::Resubmit(key)]
                }
                _ => Vec::new(),
            },
            ProcessEvent::Ended(key, status) => match self.stages.get(&key) {
                Some(Stage::SettingUp { .. } | Stage::Living) => self.end(key, Some(status)),
                Some(_) => vec![Effect::Defect(event)],
                None => Vec::new(),
            },
            ProcessEvent::SourceGone(source) => {
                let unborn = self.stages.extract_if(|_, stage| *stage == Stage::Forking(source));
                let mut keys: Vec<Key> = unborn.map(|(key, _)| key).collect();
                keys.sort_unstable();
                keys.into_iter().map(Effect::Resubmit).collect()
            }
            ProcessEvent::Promoted => {
                for stage in self.stages.values_mut().filter(|stage| **stage == Stage::Forking(Source::Standby)) {
                    *stage = Stage::Forking(Source::Shell);
                }
                Vec::new()
            }
            ProcessEvent::SupervisorGone => {
                let mut stages: Vec<(Key, Stage)> = self.stages.drain().collect();
                stages.sort_unstable_by_key(|(key, _)| *key);
                stages.into_iter().filter_map(|(key, stage)| self.lose(key, stage)).collect()
            }
            ProcessEvent::Closing => {
                let starting = self.stages.extract_if(|_, stage| *stage != Stage::Living);
                starting.map(|(key, _)| Effect::Refuse(key, Why::Closing)).collect()
            }
        }
    }

    /// Whether the fork of this process is awaited.
    pub(super) fn is_forking(&self, key: Key) -> bool {
        matches!(self.stages.get(&key), Some(Stage::Forking(_)))
    }

    /// Whether the fork of a process is awaited from this source.
    pub(super) fn awaits_fork_from(&self, source: Source) -> bool {
        self.stages.values().any(|stage| *stage == Stage::Forking(source))
    }

    fn begin_with(&mut self, key: Key, stage: Stage, event: ProcessEvent) -> Vec<Effect> {
        if self.stages.contains_key(&key) {
            return vec![Effect::Defect(event)];
        }
        self.stages.insert(key, stage);
        Vec::new()
    }

    /// The supervisor of a process has died. A process without its command is requested again.
    fn lose(&mut self, key: Key, stage: Stage) -> Option<Effect> {
        match stage {
            Stage::Living => Some(Effect::End(key, None)),
            Stage::Forking(_) | Stage::Adopting | Stage::Preparing => Some(Effect::Resubmit(key)),
            Stage::Launching => {
                self.stages.insert(key, Stage::Orphaned { ended: None });
                Some(Effect::Listen(key))
            }
            Stage::SettingUp { ended } => {
                self.stages.insert(key, Stage::Orphaned { ended: ended.flatten() });
                None
            }
            Stage::Orphaned { .. } => {
                self.stages.insert(key, stage);
                None
            }
        }
    }

    /// The end of a process that has its command.
    fn end(&mut self, key: Key, status: Option<Status>) -> Vec<Effect> {
        if let Some(Stage::SettingUp { ended }) = self.stages.get_mut(&key) {
            *ended = Some(status);
            return Vec::new();
        }
        self.stages.remove(&key);
        vec![Effect::End(key, status)]
    }

    fn refuse(&mut self, key: Key, why: Why) -> Vec<Effect> {
        self.stages.remove(&key);
        vec![Effect::Refuse(key, why)]
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
