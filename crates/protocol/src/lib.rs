//! Messages between the host, its supervisors and its shells, and the sockets that carry them.
//!
//! All communication uses `SOCK_SEQPACKET` pairs: message boundaries are preserved, descriptors travel with messages,
//! and end of file means that the peer has exited.
//!
//! | module | between | form |
//! | --- | --- | --- |
//! | [`shell`] | host and bash | fixed headers, which the builtin reads in C |
//! | [`supervisor`] | host and supervisor | [`message`] |
//! | [`files`] | host and files helper | [`message`] |
//! | [`redirect`] | broker and proxy | fixed bytes |
//! | [`connections`] | broker and host | [`message`] |
//!
//! What such messages carry, and several crates use, is here too: [`confinement`], [`standing`], the request for a [`job`],
//! which is a file of JSON, and the file of a session that is [`kept`].
//!
//! **It owns** the form of every message: its encoding, its bounds, and what a reader does with one that it does not
//! understand. Every reader is total: it takes any bytes, since a command may send them.
//!
//! **It must never know** what a message leads to. It starts no process, keeps no state between two messages, and reads
//! no clock.

pub mod confinement;
pub mod connections;
pub mod files;
pub mod host_programs;
pub mod job;
pub mod kept;
pub mod message;
pub mod redirect;
pub mod refusal;
pub mod shell;
pub mod socket;
pub mod standing;
pub mod supervisor;
pub mod workspace;
