//! The on-disk format of durable jobs, and the messages for starting one. See `docs/jobs.md`.
//!
//! Both sides use it: the supervisor of a job writes what any later process reads.

pub mod clock;
pub mod file;
pub mod layout;
pub mod leftover;
pub mod lock;
pub mod meta;
pub mod record;
pub mod request;

/// Tells a supervisor to end its job, with the grace time in milliseconds as its value (sigqueue(3)).
///
/// A real-time signal, because those queue: of two SIGTERMs that come before the first is read, the second is lost, and
/// with it a shorter grace time. The number is above those that the C library keeps to itself.
pub const CANCEL: i32 = 36;
