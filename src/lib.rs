//! The Node.js addon: carries calls and events across the boundary between JavaScript and `nacre-core`.
//!
//! It contains no policy. The TypeScript layer checks options, and turns error events into thrown errors. The core
//! makes the decisions about sessions and commands.
//!
//! **It owns** the boundary: the types that cross it, the one answer to each call, and the event loop's right to end.
//!
//! **It must never know** an option's default, an error's remedy, or how a session works.

#![allow(clippy::needless_pass_by_value)] // napi hands over owned values

#[cfg(not(test))]
mod capabilities;
#[cfg(not(test))]
mod emitter;
#[cfg(not(test))]
mod file_values;
#[cfg(not(test))]
mod files;
#[cfg(not(test))]
mod isolation;
#[cfg(not(test))]
mod jobs;
#[cfg(not(test))]
mod open_files;
#[cfg(not(test))]
mod pending;
#[cfg(not(test))]
mod piece;
#[cfg(not(test))]
mod process;
#[cfg(not(test))]
mod processes;
#[cfg(not(test))]
mod sandbox;
#[cfg(not(test))]
mod types;
#[cfg(not(test))]
mod user;
#[cfg(not(test))]
mod variables;
