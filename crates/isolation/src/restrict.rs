//! What a child does to itself between fork and exec. Nothing takes it back, and everything it starts inherits it.

use crate::confinement::Confinement;
use crate::{landlock, privileges};
use std::io;

/// Restricts this process for good: privileges, then Landlock. It has entered its namespaces and become its user before;
/// the filter of system calls comes after.
pub fn restrict(confinement: &Confinement) -> io::Result<()> {
    let step = |name: &'static str| move |error: io::Error| io::Error::other(format!("{name}: {error}"));
    privileges::no_new_privileges().map_err(step("no_new_privs"))?;
    let has_user_namespace = confinement.namespaces.is_some_and(|namespaces| namespaces.user);
    let as_root = nix::unistd::geteuid().is_root() && !has_user_namespace;
    privileges::drop_capabilities(as_root).map_err(step("capabilities"))?;
    landlock::restrict(confinement).map_err(step("Landlock"))
}
