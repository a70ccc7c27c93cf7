//! Reads the output of commands and processes, and converts a command's to its result: bounded, byte-exact, in order of
//! arrival.

pub mod arrival;
pub mod capture;
pub mod head_tail;
mod live;
pub mod reader;
pub mod rest;
