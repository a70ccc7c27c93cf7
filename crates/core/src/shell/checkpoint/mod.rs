//! A shell's state as text, for when both the shell and its standby are dead.
//!
//! The C side writes the state ([`dump`] has its sections), and this module converts it to a script that a new shell
//! runs.

mod declaration;
mod dump;
mod quote;
mod snapshot;
mod statements;

pub use dump::restore_text;
pub use quote::quote;
pub use snapshot::{ReadOnly, Report, Scope, Snapshot};
