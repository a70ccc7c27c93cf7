//! The Node.js addon: carries calls and events across the boundary between JavaScript and `nacre-core`.
//!
//! It contains no policy. The TypeScript layer checks options, and turns error events into thrown errors. The core
//! makes the decisions about sessions and commands.
//!
//! **It owns** the boundary: the types that cross it, the one answer to each call, and the event loop's right to end.
//!
//! **It must never know** an option's default, an error's remedy, or how a session works.

// A test program could not be linked: the functions of Node-API are those of the host.
#![cfg(not(test))]
#![allow(clippy::needless_pass_by_value)] // napi hands over owned values

mod capabilities;
mod emitter;
mod feed;
mod file_values;
mod files;
mod functions;
mod isolation;
mod jobs;
mod open_files;
mod pending;
mod piece;
mod process;
mod processes;
mod questions;
mod requests;
mod sandbox;
mod settle;
mod socket;
mod text;
mod types;
mod user;
mod value;
mod variables;
mod workspace;
