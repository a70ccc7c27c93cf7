//! What the broker reports to the host about connections and files of programs, as a [`message`](crate::message).

use crate::refusal::FileRefusal;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Maximum bytes of a path in a report. Longer ones are left out, since a part would name something else.
pub const LONGEST_PATH: usize = 1024;
/// Maximum bytes of a command line in a report. Longer ones are cut.
pub const LONGEST_COMMAND: usize = 200;
/// Maximum bytes of a report.
pub const LONGEST_REPORT: usize = 4096;

/// A report of the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectionReport {
    /// A connection to the internet that the rules prevented: host and port.
    Internet(String, Caller),
    /// A connection to a Unix socket that the rules prevented: its path, or its abstract name behind `@`.
    Unix(String, Caller),
    /// An attempt to use a file that the rules prevent. Sent before the program learns of it, like all others.
    File(FileRefusal, Caller),
    /// A system call that the filter refuses.
    Call(String, Caller),
    /// The same for a socket to the internet, which the rules for hosts refuse.
    InternetSocket(String, Caller),
    /// A connection to the proxy, from this address. Sent before the program can use it.
    Proxied(SocketAddr, Caller),
}

/// The process that has called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Its pid, as the host sees it.
    pub pid: i32,
    /// The file that it executes, as its mount namespace names it.
    pub program: Option<String>,
    /// Its arguments, separated by spaces. The program can change them.
    pub command: Option<String>,
}

impl Caller {
    /// Bytes of its texts.
    pub fn size(&self) -> usize {
        [&self.program, &self.command].into_iter().flatten().map(String::len).sum()
    }
}
