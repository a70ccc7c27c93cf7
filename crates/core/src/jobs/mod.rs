//! Durable jobs: commands that outlive the program that started them.
//!
//! This process keeps no state. A job is a directory, which the job's own supervisor writes, and everything here
//! reads it anew, so any later process can do the same. `docs/jobs.md` describes the format and its guarantees.
//!
//! Functions that are not `async` do file I/O directly, so they belong on a thread that may block: see [`blocking`].
//! `async` functions move that part of their work there themselves.

pub mod cancel;
pub mod follow;
mod foreign;
pub mod list;
mod orphan;
pub mod reader;
pub mod remove;
mod start;
pub mod status;
mod store;

pub use start::{Launch, NewJob};
pub use store::{Job, Store};
