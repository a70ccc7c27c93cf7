//! Commands that are functions of the host: how a program of a session finds and calls them.
//!
//! A directory in the PATH of sessions has a link for each command ([`directory`]) to one small program ([`client`]), a copy
//! of the supervisor's. It connects to the supervisor of its session ([`calls`]), which passes the connection to the host.
//! There, the function reads and writes over it: the program carries the bytes of its own descriptors, so the host touches
//! no descriptor of a program.
//!
//! The program finds its supervisor by the mark that all processes of a session inherit
//! ([`nacre_containment::session_mark`]). So neither the directory nor the environment belongs to one session: shells that
//! begin with the state of another session, and programs with another environment, call the right host.

pub mod calls;
pub mod client;
pub mod directory;

/// The abstract address of the supervisor with this mark, without the NUL that starts abstract names.
pub fn address(mark: u64) -> String {
    format!("nacre-command-{mark:016x}")
}
