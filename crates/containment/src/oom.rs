//! Which processes the kernel ends first when memory runs out: `/proc/<pid>/oom_score_adj` (proc(5)).
//!
//! The kernel ends the process with the highest sum of this value and of its share of the memory in thousandths. Host and
//! supervisor keep the value that they have. A shell has a higher one, and what it starts has the highest: a command that
//! allocates goes before the host, however large that is. A process may always raise its own value, and its children
//! inherit it.

use std::fs;

/// How soon a process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// After every command, and before a host that uses less than nine tenths of the memory.
    Shell,
    /// First. The builtin gives forks of the shell the same value (`rank.c`).
    Command,
}

/// The highest value there is.
const MOST: i32 = 1000;

impl Rank {
    /// Gives this process its rank. Best effort: where `/proc` cannot be written to, it only stays as it is.
    pub fn take(self) {
        let own = fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse().ok());
        if let Some(own) = own {
            let _ = fs::write(FILE, self.above(own).to_string());
        }
    }

    /// The value of a process below one with this value.
    fn above(self, own: i32) -> i32 {
        match self {
            Self::Shell => own + (MOST - own) * 9 / 10,
            Self::Command => MOST,
        }
    }
}

const FILE: &str = "/proc/self/oom_score_adj";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_between_hosts_and_commands_whatever_the_host_has() {
        for (own, shell) in [(0, 900), (-1000, 800), (500, 950), (980, 998), (1000, 1000)] {
            assert_eq!((Rank::Shell.above(own), Rank::Command.above(own)), (shell, 1000));
        }
    }
}
