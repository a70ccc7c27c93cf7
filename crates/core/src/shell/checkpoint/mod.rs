//! A shell's state as text, for when neither the shell nor its standby has survived.
//!
//! The C code writes the state ([`dump`] has its sections), and this module turns it into a script that a new shell
//! runs.

mod declaration;
mod dump;
mod quote;
mod snapshot;
mod statements;

pub use dump::restore_text;
pub use quote::quote;
pub use snapshot::{ReadOnly, Report, Scope, Snapshot};
