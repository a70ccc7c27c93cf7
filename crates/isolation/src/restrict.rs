//! Restrictions that a child imposes on itself between fork and exec. They are irrevocable and inherited.

use crate::{landlock, privileges};
use nacre_protocol::confinement::Confinement;
use std::io;
use std::os::fd::OwnedFd;

/// Restricts this process irrevocably: privileges, then Landlock. It has already entered its namespaces and changed
/// its user; the seccomp filter follows. `own` is the open directory of [`Confinement::own`].
pub fn restrict(confinement: &Confinement, own: Option<&OwnedFd>) -> io::Result<()> {
    let step = |name: &'static str| move |error: io::Error| io::Error::other(format!("{name}: {error}"));
    privileges::no_new_privileges().map_err(step("no_new_privs"))?;
    let has_user_namespace = confinement.namespaces.is_some_and(|namespaces| namespaces.user);
    let as_root = nix::unistd::geteuid().is_root() && !has_user_namespace;
    privileges::drop_capabilities(as_root).map_err(step("capabilities"))?;
    landlock::restrict(confinement, own).map_err(step("Landlock"))
}
