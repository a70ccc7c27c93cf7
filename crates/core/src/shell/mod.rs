//! The session's shell: its state machine, and the messages to its processes.

pub mod channel;
mod commands;
mod deaths;
pub mod event;
pub mod launch;
pub mod listener;
pub mod plain_script;
pub mod plain_state;
pub mod state;
mod step;
pub mod transition;

#[cfg(test)]
mod transition_tests;

/// Opens the resources that all shells of the process share. If that fails, the first shell that needs them tries
/// again.
pub fn open_shared() {
    let _ = listener::name();
    let _ = launch::object();
    let _ = crate::sys::null();
}
