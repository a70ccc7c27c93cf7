//! Durable jobs: commands that outlive the program that started them.
//!
//! This process keeps no state of a job. The job's own supervisor writes its directory, and each call reads it again,
//! as any later process can. `docs/jobs.md` describes the format and its guarantees.
//!
//! Functions that are not `async` do file I/O directly, so call them on a thread that may block ([`crate::blocking`]). `async`
//! functions move such work there themselves.

pub mod cancel;
pub mod follow;
mod foreign;
pub mod list;
mod orphan;
mod overrun;
pub mod reader;
pub mod remove;
#[cfg(test)]
mod replaced_tests;
mod start;
pub mod status;
mod store;

pub use start::{JobLaunch, NewJob};
pub use store::{Job, Store};
