//! Finding, grouping and killing whole process trees on Linux.
//!
//! Both the host and the supervisor use it. It does not depend on shells, sessions or JavaScript.

pub mod cgroup;
pub mod fork;
pub mod job;
pub mod limits;
pub mod pid;
pub mod pidfd;
pub mod proc_table;
pub mod signal;
pub mod tree;
pub mod watch;
