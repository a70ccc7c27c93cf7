//! Converts a command's pipes to its result: bounded, byte-exact, in order of arrival.

pub mod arrival;
pub mod capture;
pub mod head_tail;
mod live;
mod pipe;
