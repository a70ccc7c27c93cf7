//! What a child does to itself between fork and exec. Nothing takes it back, and everything it starts inherits it.

use crate::confinement::Confinement;
use crate::{filter, landlock, privileges};
use std::io;

/// Restricts this process for good: privileges, Landlock, system calls, in this order. It has entered its namespaces and
/// become its user before.
pub fn restrict(confinement: &Confinement, program: &[libc::sock_filter]) -> io::Result<()> {
    let step = |name: &'static str| move |error: io::Error| io::Error::other(format!("{name}: {error}"));
    privileges::no_new_privileges().map_err(step("no_new_privs"))?;
    let has_user_namespace = confinement.namespaces.is_some_and(|namespaces| namespaces.user);
    let as_root = nix::unistd::geteuid().is_root() && !has_user_namespace;
    privileges::drop_capabilities(as_root).map_err(step("capabilities"))?;
    landlock::restrict(confinement).map_err(step("Landlock"))?;
    filter::install(program).map_err(step("seccomp"))
}
