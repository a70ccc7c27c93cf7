//! Messages between the host, its supervisors and its shells, and the sockets that carry them.
//!
//! All conversations use `SOCK_SEQPACKET` pairs: message boundaries are kept, descriptors travel with messages, and end
//! of file means that the process on the other side is gone.

pub mod files;
pub mod shell;
pub mod socket;
pub mod supervisor;
