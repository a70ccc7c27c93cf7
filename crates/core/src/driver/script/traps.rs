//! Whose traps are set in the shell, and what has to be done about it.
//!
//! The engine needs the EXIT trap, and traps on a few signals, while a command runs. The user's own EXIT trap is kept by
//! the host and run by the engine's. A command that mentions `trap` runs without the engine's traps, so that it sees
//! what any shell would show. The user's DEBUG trap is set for the time of each command only, so that it does not fire
//! for the engine's own.

use super::quote::quote;
use super::statements::parse_traps;
use super::text::{self, Paths, STATUS_SIGNALS};
use super::transport::Text;

/// What is left to do before the engine's traps are as they must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Ours are set.
    #[default]
    Armed,
    /// It has been asked which signals the user has trapped. Next: take ours away for one command.
    Disarming,
    /// Ours are gone, on purpose.
    Disarmed,
    /// A command has replaced or removed ours. Next: ask which signals the user has trapped.
    Lost,
    /// That has been asked. Next: set ours.
    Rearming,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Traps {
    phase: Phase,
    /// The user's EXIT trap.
    pub exit: Option<Vec<u8>>,
    /// The user's DEBUG trap.
    pub debug: Option<Vec<u8>>,
    /// The user's ERR and RETURN traps. An `exit` in a function can not see them, so the host remembers them.
    pub unseen: Vec<(Vec<u8>, String)>,
    debug_set: bool,
}

impl Traps {
    /// The shell is new: the engine's traps are set by what it starts with, DEBUG is not set.
    pub fn started(&mut self) {
        self.phase = Phase::Armed;
        self.debug_set = false;
    }

    /// Takes note of the traps in a report: EXIT, DEBUG, ERR and RETURN. The report on a text of the engine's own says
    /// nothing about the user's.
    pub fn note(&mut self, shown: &[u8], ours: &str, internal: bool) {
        let shown = parse_traps(shown);
        let find = |name: &str| shown.iter().find(|(_, signal)| signal == name).map(|(text, _)| text.clone());
        self.debug_set = shown.iter().any(|(_, signal)| signal == "DEBUG");
        if internal {
            return;
        }
        self.debug = find("DEBUG");
        self.unseen = shown.iter().filter(|(_, signal)| signal == "ERR" || signal == "RETURN").cloned().collect();
        let exit = find("EXIT");
        if exit.as_deref() != Some(ours.as_bytes()) {
            self.exit = exit;
            self.phase = Phase::Lost;
        }
    }

    /// What to run now. `store_exit` renews the text of the engine's EXIT trap.
    pub fn upkeep(&mut self, paths: &Paths<'_>, store_exit: impl FnOnce(&Self)) -> Option<Vec<u8>> {
        match self.phase {
            Phase::Lost => {
                self.phase = Phase::Rearming;
                Some(query(paths))
            }
            Phase::Rearming => {
                self.phase = Phase::Armed;
                store_exit(self);
                Some(text::arm(paths, &taken(paths)).into_bytes())
            }
            _ if self.debug_set => Some(b"\\builtin trap - DEBUG".to_vec()),
            _ => None,
        }
    }

    /// What to run before a command that mentions traps.
    pub fn preparation(&mut self, paths: &Paths<'_>) -> Option<Vec<u8>> {
        match self.phase {
            Phase::Armed => {
                self.phase = Phase::Disarming;
                Some(query(paths))
            }
            Phase::Disarming => {
                self.phase = Phase::Disarmed;
                let taken = taken(paths);
                let ours = STATUS_SIGNALS
                    .iter()
                    .map(|(name, _)| *name)
                    .filter(|name| !taken.iter().any(|signal| signal == name));
                let names: Vec<&str> = ["EXIT"].into_iter().chain(ours).collect();
                let mut disarm = format!("\\builtin trap - {}\n", names.join(" ")).into_bytes();
                if let Some(trap) = &self.exit {
                    disarm.extend_from_slice(&[b"\\builtin trap -- ".as_slice(), &quote(trap), b" EXIT\n"].concat());
                }
                Some(disarm)
            }
            _ => None,
        }
    }
}

fn query(paths: &Paths<'_>) -> Vec<u8> {
    let names: Vec<&str> = STATUS_SIGNALS.iter().map(|(name, _)| *name).collect();
    text::storing(paths, &format!("\\builtin trap -p {}", names.join(" "))).into_bytes()
}

/// Signals of the answered query that carry a trap of the user's.
fn taken(paths: &Paths<'_>) -> Vec<String> {
    let answer = paths.0.load(Text::Answer).unwrap_or_default();
    parse_traps(&answer)
        .into_iter()
        .filter(|(text, signal)| !is_engines(text, signal))
        .map(|(_, signal)| signal)
        .collect()
}

/// True for the traps that the engine sets, and for those that it keeps itself.
pub fn is_engines(text: &[u8], signal: &str) -> bool {
    signal == "EXIT"
        || signal == "DEBUG"
        || STATUS_SIGNALS.iter().any(|(name, number)| *name == signal && text == text::signal_trap(*number).as_bytes())
}
