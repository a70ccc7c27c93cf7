//! Three-way merges: of the lines of files, and of the entries of directories.
//!
//! [`text`] gives what `git merge` gives for the same three files, byte for byte, with its markers. [`entry`] decides about
//! what has no lines: kinds, modes, links, deletions. [`driver`] says what a program that merges a file is started with.
//!
//! **It must never know** files or directories: it works with bytes and descriptions.

mod compaction;
mod diff;
pub mod driver;
pub mod entry;
mod histogram;
mod lines;
mod region;
pub mod text;
