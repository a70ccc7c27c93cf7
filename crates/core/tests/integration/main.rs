//! The engine with real shells and programs, and models of its parts. One program, since linking each costs seconds.

mod detach;
mod fuzz_bodies;
mod mailbox_model;
mod pause;
mod place;
mod remount;
