//! Sessions, commands and their output: the part of nacre that is independent of JavaScript.
//!
//! A [`sandbox`] has [`session`]s by id. A session is one task that owns everything of it; callers send messages through
//! a handle. Its decisions are pure machines: `shell::transition` for the shell, its standby and the running command, and
//! `session::background` for background processes. The session turns what arrives into events, and performs the effects.
//! [`process`] and [`process_log`] are a background process in the host, [`files`] the file calls, [`jobs`] the durable
//! jobs, [`proxy`] the network of an isolated session.
//!
//! **It owns** the order of calls, the one answer to each, the bytes of their output, and recovery when a process dies.
//!
//! **It must never know** JavaScript: no options, no defaults, no value of the boundary. It calls back through traits.
//! Nothing that can block runs on its thread: paths of the user belong to the supervisor or to blocking threads.

pub mod blocking;
pub mod budget;
pub mod capabilities;
pub mod error;
pub mod exec;
pub mod feed;
pub mod files;
pub mod functions;
pub mod fuzzing;
pub mod git_branch;
pub mod hook;
pub mod host_commands;
pub mod isolation;
pub mod jobs;
pub mod limits;
mod link;
pub mod log;
mod output;
mod private_directory;
pub mod process;
pub mod process_log;
mod program_record;
pub mod proxy;
pub mod questions;
pub mod runtime;
pub mod sandbox;
pub mod session;
mod shell;
mod supervisor;
mod sys;
pub mod user;
pub mod variables;
pub mod wanted;
pub mod workspace;
