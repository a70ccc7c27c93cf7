//! The supervisor as a program, in each of its roles. One program, since linking each costs seconds.

mod enter;
mod init;
mod named;
mod set_up;
mod workspace;
