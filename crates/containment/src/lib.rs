//! Finding, grouping and killing whole process trees on Linux.
//!
//! Used on both sides of the control socket: by the host, which decides, and by the supervisor, which acts. Nothing
//! here knows about shells, sessions or JavaScript.

pub mod cgroup;
pub mod job;
pub mod limits;
pub mod pid;
pub mod pidfd;
pub mod proc_table;
pub mod signal;
pub mod tree;
pub mod watch;
