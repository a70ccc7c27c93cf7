//! The session's shell: its state machine, and the conversation with its processes.

pub mod channel;
pub mod checkpoint;
pub mod launch;
pub mod listener;
pub mod state;
pub mod transition;



