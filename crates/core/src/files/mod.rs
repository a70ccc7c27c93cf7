//! Files of a session, as its commands see them.
//!
//! A helper process of the session opens, lists, changes and watches files (crates/supervisor/src/files). The host
//! reads and writes their content through descriptors that the helper passes.
//!
//! A relative path starts at the session's directory after its last completed command, which is where the next command
//! starts. A running command may be in another directory, which can change at any time. The shell reports the
//! directory, and the helper resolves it under the rules of the session. To read it from /proc, a confined helper would
//! need rights that it does not have.

mod attributes;
mod calls;
mod failure;
mod helper;
mod placed;
mod places;
mod reader;
mod watcher;
mod writer;

pub use attributes::Attributes;
pub use helper::{Access, Helper};
pub use nacre_protocol::files::{Call as FileCall, FileChange, Kind};
pub use placed::{Found, Placed};
pub use reader::FileReader;
pub use watcher::{Seen, Watcher};
pub use writer::Writer;
