//! Sessions, commands and their output: everything of nacre that does not know about JavaScript.

pub mod capabilities;
pub mod driver;
pub mod error;
pub mod exec;
pub mod log;
mod output;
pub mod runtime;
pub mod sandbox;
pub mod session;
mod supervisor;
mod sys;
