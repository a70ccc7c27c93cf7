//! The lock of the mailbox, which its model test replaces.

pub(super) use std::sync::{Mutex, MutexGuard};
