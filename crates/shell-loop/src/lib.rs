//! The loop of a session's shell as a builtin that bash loads with `enable -f`: a shared object, held as bytes.
//!
//! `loop/loop.c` tells what it does and why. It is C because what bash offers to a builtin is C, and because bash leaves
//! the builtin by `longjmp` when a command says `exit`. The host puts the bytes where its shells can open them; a shell that can
//! not load them (bash without loadable builtins, another C library, a file system without execution) goes on with the
//! loop of text, over the same channels.

/// The shared object.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/loop.so"));

/// The name of the builtin.
pub const NAME: &str = "nacre_loop";
