//! A shell's state as text: for the case that the shell and its standby are both gone.
//!
//! The C side writes the state down ([`dump`] has its sections), and this turns it into a script that a new shell runs.

mod declaration;
mod dump;
mod quote;
mod snapshot;
mod statements;

pub use dump::restore_text;
pub use quote::quote;
pub use snapshot::{ReadOnly, Report, Scope, Snapshot};
