//! Files of a session, as its commands see them.
//!
//! A helper process of the session opens, lists, changes and watches (crates/supervisor/src/files); the content of files
//! is read and written here, through descriptors that it passes.
//!
//! A relative path starts at the directory that the session was in after its last completed command: where the next one
//! starts. While a command runs, its own directory may be another, and changes at any time. The path is what the shell
//! has reported, and the helper resolves it under the rules of the session; looking at the shell in /proc would need
//! rights that a confined helper does not have.

mod access;
mod calls;
mod connection;
mod failure;
mod helper;
mod placed;
mod reader;
mod watcher;
mod writer;

pub use access::Access;
pub use helper::Helper;
pub use nacre_protocol::files::{Call as FileCall, Change, Kind};
pub use placed::{Found, Placed};
pub use reader::Reader;
pub use watcher::{Seen, Watcher};
pub use writer::Writer;
