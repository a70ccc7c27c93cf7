//! The on-disk format of durable jobs. See `docs/jobs.md`.
//!
//! Both sides use it: the supervisor of a job writes what any later process reads.

pub mod clock;
pub mod file;
pub mod layout;
pub mod leftover;
pub mod lock;
pub mod meta;
pub mod record;

/// The signal that makes a supervisor end its job. Its value is the grace time in milliseconds (sigqueue(3)).
///
/// It is a real-time signal, because those queue: if two SIGTERMs arrive before the first is read, the second is lost,
/// and with it a shorter grace time. The number is above those that the C library reserves.
pub const CANCEL: i32 = 36;
