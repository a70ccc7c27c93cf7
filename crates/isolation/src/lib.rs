//! Confines the programs of a session.
//!
//! [`rules`] are what the caller requests, and [`offer`] is what this machine can enforce. [`decide`] combines both
//! into a [`confinement::Confinement`] without side effects. The supervisor enforces it: [`namespaces`] and
//! [`mounts`] once per session, [`restrict`] in each child between fork and exec. Nothing can loosen it again.

pub mod broker;
pub mod confined;
pub mod confinement;
pub mod decide;
pub mod filter;
pub mod foreign;
pub mod init;
pub mod landlock;
pub mod mounts;
pub mod namespaces;
pub mod network;
pub mod offer;
mod paths;
pub mod privileges;
pub mod restrict;
pub mod rules;
pub mod temporary;
pub mod view;
