//! Restrictions that a child imposes on itself between fork and exec. They are irrevocable and inherited.

use crate::confinement::Confinement;
use crate::{landlock, privileges};
use std::io;

/// Restricts this process irrevocably: privileges, then Landlock. It has already entered its namespaces and changed
/// its user; the seccomp filter follows.
pub fn restrict(confinement: &Confinement) -> io::Result<()> {
    let step = |name: &'static str| move |error: io::Error| io::Error::other(format!("{name}: {error}"));
    privileges::no_new_privileges().map_err(step("no_new_privs"))?;
    let has_user_namespace = confinement.namespaces.is_some_and(|namespaces| namespaces.user);
    let as_root = nix::unistd::geteuid().is_root() && !has_user_namespace;
    privileges::drop_capabilities(as_root).map_err(step("capabilities"))?;
    landlock::restrict(confinement).map_err(step("Landlock"))
}
