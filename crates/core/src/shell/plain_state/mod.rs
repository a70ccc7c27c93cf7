//! A shell's state as text, which plain mode keeps between two commands.
//!
//! The shell writes the state ([`dump`] has its sections), and this module converts it to a script that a new shell
//! runs. Where the builtin is loaded, it writes and restores the state itself (`builtin/checkpoint.c`).

mod declaration;
mod dump;
mod quote;
mod snapshot;
mod statements;

pub use dump::LOST;
pub use quote::quote;
pub use snapshot::{NOWHERE, ReadOnly, Report, Scope, Snapshot};
