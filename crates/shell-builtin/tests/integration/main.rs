//! The builtin in a real bash, without the rest of the engine. One program, since linking each costs seconds.

mod background;
mod channel;
mod checkpoint;
mod ends;
mod host;
mod interrupts;
mod jobs;
mod leaks;
mod promotion;
mod scope;
mod semantics;
mod state_kept;
mod substitutions;
