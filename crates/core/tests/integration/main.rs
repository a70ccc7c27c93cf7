//! The engine with real shells and programs. One program, since linking each costs seconds.

mod detach;
mod fuzz_bodies;
mod pause;
mod place;
mod remount;
