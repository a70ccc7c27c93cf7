//! Messages between the host, its supervisors and its shells, and the sockets that carry them.
//!
//! All communication uses `SOCK_SEQPACKET` pairs: message boundaries are preserved, descriptors travel with messages,
//! and end of file means that the peer has exited.

pub mod files;
pub mod shell;
pub mod socket;
pub mod supervisor;
