//! What is on the disk of a session that the next sandbox of the same name goes on with.
//!
//! The host writes it while it lives, and the session's supervisor once more when the host has ended.

use serde::{Deserialize, Serialize};

/// The content of a session's file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionFile {
    /// How the session was created, in a form that the host alone reads.
    pub made: Vec<u8>,
    /// The number of the state. That of a later state of the session is higher.
    pub number: u64,
    /// The state of its shell.
    pub state: FileState,
}

/// The state in a session's file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileState {
    /// In a form that the host alone reads.
    Encoded(Vec<u8>),
    /// A whole checkpoint, as the shell has written it.
    Items(Vec<u8>),
}
