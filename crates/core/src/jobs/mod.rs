//! Durable jobs: commands that outlive the program that started them.
//!
//! Nothing is kept in this process. A job is a directory, written by the job's own supervisor, and everything here
//! reads it again: any later process can do the same. The format and its promises are in `docs/jobs.md`.
//!
//! Functions that are not `async` do file I/O directly, so they belong on a thread that may block: see [`blocking`].
//! Those that are `async` move that part of their work there themselves.

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
