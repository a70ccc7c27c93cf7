//! Copy-on-write workspaces. Programs see the real directory at its own path, and write to a private layer above it.
//!
//! An [`overlay`] file system is mounted over the directory. Its upper layer receives all writes, and [`changes`]
//! compares what programs see with the real directory. A commit applies changes there, and a discard takes them back.
//!
//! **It owns** the mount, its layers, and every comparison and copy between a workspace and its real directory.
//!
//! **It must never know** sessions, commands or namespaces: it works with open directories.
//!
//! Its programs are untrusted. Every file is opened relative to an open directory, without following links, and only if it
//! is a regular file.

mod blame;
pub mod changes;
mod checkpoints;
mod commit;
mod conflicts;
mod dates;
pub mod diff;
mod discard;
mod duplicate;
mod export;
pub mod failure;
mod fork;
mod git_rules;
mod handle;
mod history;
mod import;
mod joining;
mod journal;
pub mod keeper;
pub mod known;
mod layers;
mod merge;
mod merging;
mod metadata;
mod named;
mod omitted;
mod opening;
pub mod overlay;
mod partial;
pub mod probe;
mod recovery;
mod redirects;
mod refresh;
mod review;
mod sealed;
pub mod selection;
mod settle;
mod sibling;
mod staging;
mod stamp;
mod state;
mod steps;
mod store;
mod sweep;
#[cfg(test)]
mod testing;
mod tree;
mod walk;

pub use tree::Tree;
