//! A virtual machine with a kernel of its own, in which the files of this machine are at their paths.
//!
//! [`host`] runs on the machine. It makes namespaces and a view of the machine's files in them, and starts two file servers
//! (virtiofsd) and the virtual machine (QEMU) there. [`guest`] is the first process in the virtual machine. It mounts the files
//! and starts nacre's server, whose standard input and output are those of the program on the machine.
//!
//! ```text
//! program -> --vm, which waits for the end of its input
//!             |- --vm-outlet, which carries connections of the guest to a proxy, if there is one
//!             `- init of a pid namespace: when it ends, so does everything below
//!                 |- virtiofsd   /: read-only, without secrets
//!                 |- virtiofsd   the project
//!                 `- qemu        -> guest: --vm-init -> the server
//! ```
//!
//! **It owns** the lifetime of these processes, and what the guest can see of the machine.
//!
//! **It must never know** what runs in the guest, beyond the command of its server.

mod control;
mod file_server;
mod find;
mod forget;
pub mod guest;
pub mod host;
mod inherit;
mod initramfs;
mod kernel;
mod machine;
pub mod outlet;
mod settings;
mod streams;
mod view;
