//! Sessions, commands and their output: the part of nacre that is independent of JavaScript.

pub mod blocking;
pub mod capabilities;
pub mod error;
pub mod exec;
pub mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod isolation;
pub mod jobs;
pub mod limits;
pub mod log;
mod outbox;
mod output;
mod private_directory;
pub mod process;
pub mod process_log;
pub mod proxy;
pub mod runtime;
pub mod sandbox;
pub mod session;
mod shell;
mod supervisor;
mod sys;
pub mod user;
pub mod variables;
