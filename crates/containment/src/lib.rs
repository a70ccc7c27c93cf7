//! Finding, grouping and killing whole process trees on Linux.
//!
//! Both the host and the supervisor use it. A [`pid::Pid`] is a number that may be signalled, and a [`pid::Identity`]
//! adds the time of its start, so that a reused number is never signalled. [`cgroup`] lets the kernel keep the list of a
//! tree; [`tree`] and [`proc_table`] find it without. [`waiting`] tells whether programs wait for input, and [`rest`]
//! whether they may still print. [`job`] has the files of a durable job, which outlives both.
//!
//! **It owns** what the kernel offers for processes: identities, pidfds, signals, control groups, `/proc`, limits, mounts;
//! [`file_tree`], the one walk through directories that others may change; and [`relocation`], which renames what the kernel does not.
//!
//! **It must never know** why a process runs: no shell, session, command or JavaScript occurs in it.

pub mod cgroup;
pub mod cpu_meter;
pub mod descent_mark;
pub mod extended_attributes;
pub mod file_tree;
pub mod fork;
pub mod job;
pub mod ladder;
pub mod limits;
pub mod lock;
pub mod mount_table;
pub mod oom;
pub mod pid;
pub mod pidfd;
pub mod proc_table;
pub mod relocation;
pub mod rest;
pub mod session_mark;
pub mod signal;
pub mod tree;
pub mod user_namespace;
pub mod waiting;
pub mod watch;
