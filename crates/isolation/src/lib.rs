//! Confines the programs of a session.
//!
//! [`Rules`](nacre_protocol::confinement::Rules) are what the caller requests, and [`offer`] is what this machine can
//! enforce. [`decide`] combines both into a [`Confinement`](nacre_protocol::confinement::Confinement) without side
//! effects. The supervisor enforces it: [`namespaces`] and [`mounts`] once per session, and [`confined`] restricts each
//! child between fork and exec. Nothing can loosen it again.
//!
//! **It owns** the decision, and each mechanism of the kernel that enforces it: namespaces, mounts, Landlock, the seccomp
//! filter, privileges, and the broker that connects in the place of a confined program. It fails closed: what cannot be
//! enforced is an error before anything runs.
//!
//! **It must never know** which command runs inside, how sessions work, or what JavaScript asked for beyond the rules.

pub mod broker;
pub mod caches;
pub mod certificates;
mod child;
pub mod confined;
mod copies;
pub mod decide;
pub mod explain;
pub mod filter;
pub mod foreign;
pub mod git_config;
pub mod init;
pub mod landlock;
pub mod masks;
pub mod mount_table;
pub mod mounts;
pub mod namespaces;
pub mod network;
pub mod newcomers;
pub mod offer;
mod paths;
pub mod placeholders;
pub mod privileges;
pub mod programs;
pub mod project;
pub mod remount;
pub mod temporary;
pub mod tools;
pub mod trust;
pub mod view;

pub use paths::real;
