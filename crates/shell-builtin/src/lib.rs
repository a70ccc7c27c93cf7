//! The driver of a session's shell: a bash builtin in C, embedded as a shared object.
//!
//! bash loads it with `enable -f` and runs it instead of its own main loop. The builtin communicates with the host
//! over a socket, in the messages of `nacre_protocol::shell`. It is in C because bash's interface for builtins is C,
//! and because bash leaves a command by `longjmp`. `builtin/` has one mechanism per file, explained at the top of
//! each.
//!
//! **It owns** what happens inside bash: reading a request, running its text, putting the shell's state back where a
//! command must not change it, and reporting the end over a private channel.
//!
//! **It must never know** sessions, timeouts or limits of output, and it evaluates no text of the engine around a command.
//!
//! A shell that cannot load it exits with a failure before the builtin's HELLO message: an unknown bash version, a
//! bash without loadable builtins, or another C library.

/// The shared object.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nacre.so"));

/// The descriptor on which a shell expects its end of the channel.
pub const CHANNEL_FD: i32 = 3;

/// The descriptor on which a shell expects [`OBJECT`], in a file without a `noexec` mount such as a memfd.
pub const OBJECT_FD: i32 = 4;

/// The arguments that make bash load and run the builtin, starting with bash's own name.
pub const ARGUMENTS: [&str; 6] = ["bash", "--norc", "--noprofile", "-c", LOAD, "bash"];

/// The text of `-c`. It leaves no trace in the shell's variables, and calls no function of the environment.
pub const LOAD: &str =
    "[[ ${BASH_VERSINFO[0]} -ge 5 ]] && \\builtin enable -f /proc/self/fd/4 nacre 2>/dev/null && \\builtin nacre 3 4";
