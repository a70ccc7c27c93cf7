//! One session: a persistent shell, a queue of foreground commands, background processes, and the actor that owns them.
//!
//! A session shares nothing. Its actor owns everything and receives messages from [`Handle`]s. Each part of a session owns its
//! state; what needs several parts is an `impl Session`, and stands in `actor`, `arrivals`, `startup`, `commands`, `background::perform`
//! or `engine::plain`.
//!
//! A new message is a variant of [`message::Message`], a method of [`Handle`], and an arm of `Session::take`, which gives it to
//! one part. Only if it has to wait for its turn, it is a [`calls::Call`] too, and the state machine in `shell` decides when it is
//! performed.

mod actor;
mod arrivals;
mod background;
mod calls;
mod commands;
mod config;
mod confinement;
mod context;
mod end_reason;
mod engine;
mod errors;
mod files;
mod foreground;
mod handle;
mod hold;
mod holds;
mod internal;
mod loan;
mod mailbox;
mod message;
mod newcomers;
mod numbers;
mod pid_namespace;
mod ports;
mod running;
mod salvage;
mod saved;
mod shell_link;
mod standby;
mod startup;
mod stdin;
mod streams;
mod supervision;
mod sync;
mod timers;

pub use config::{Isolate, Opened, Proxied, SessionConfig, SessionFiles, SessionIsolation};
pub use confinement::Judgement;
pub use handle::{Handle, WeakHandle};
pub use hold::Hold;
pub use message::{Busy, Frozen};
pub use ports::{Network, Port};
pub use running::{Progress, RunningCommand};
pub use saved::Saved;
