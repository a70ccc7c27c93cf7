//! The users of a user namespace (user_namespaces(7)).

use nix::unistd::{getegid, geteuid};
use std::fs;
use std::io;

/// The user and the group of this process. Those of a namespace that has none yet are not known.
pub fn own_ids() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

/// Gives the namespace of a process its only user and its only group: `inside` are their numbers there, `outside` those that they
/// have in the namespace around it. `process`: its directory in `/proc`.
///
/// # Errors
/// Those of the system calls, with the file that could not be written.
pub fn map_ids(process: &str, inside: (u32, u32), outside: (u32, u32)) -> io::Result<()> {
    let users = format!("{} {} 1", inside.0, outside.0);
    let groups = format!("{} {} 1", inside.1, outside.1);
    for (name, text) in [("setgroups", "deny"), ("uid_map", &users), ("gid_map", &groups)] {
        let explain = |error: io::Error| io::Error::new(error.kind(), format!("cannot map the user ({name}): {error}"));
        fs::write(format!("/proc/{process}/{name}"), text).map_err(explain)?;
    }
    Ok(())
}
