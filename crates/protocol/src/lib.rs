//! The messages between the host and the processes it drives: plain data, encoded and decoded without I/O.

pub mod shell;
