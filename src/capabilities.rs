//! The capabilities of this system, for JavaScript.

use crate::isolation;
use crate::types::{NativeCapabilities, NativeWorkspaceOffer};
use nacre_core::capabilities::Engine;
use nacre_core::sandbox::Sandbox;
use nacre_core::session::Opened;
use nacre_protocol::workspace::Offer;

/// The mechanisms that the engine uses on this system for a sandbox.
pub fn describe(sandbox: &Sandbox) -> NativeCapabilities {
    let found = sandbox.capabilities();
    let shell = sandbox.shell().as_ref().ok();
    let mut notes = found.all_notes();
    let is_forced = !found.builtin || notes.iter().any(|note| note.starts_with("the builtin is switched off"));
    let (engine, shell_version) = match sandbox.opened() {
        Ok(Opened { engine, version }) => {
            if engine == Engine::Plain && !is_forced {
                notes.push(format!("bash {version} cannot load the builtin; each command runs in its own bash"));
            }
            (engine, Some(version))
        }
        Err(error) => {
            notes.push(error.message);
            (if is_forced { Engine::Plain } else { Engine::Builtin }, None)
        }
    };
    NativeCapabilities {
        cgroup: if found.group_parent.is_some() { "v2" } else { "none" }.into(),
        cgroup_kill: found.group_parent.is_some(),
        controllers: found.controllers.clone(),
        pidfd: found.pidfd,
        proc_fd: found.proc_fd,
        shell: shell.map(|path| path.display().to_string()),
        shell_version,
        engine: engine.name().into(),
        restored: engine.restored(),
        isolation: isolation::tiers(sandbox),
        workspace: workspaces(sandbox),
        notes,
    }
}

/// What copy-on-write workspaces can do on this machine.
fn workspaces(sandbox: &Sandbox) -> NativeWorkspaceOffer {
    let Offer { copy_on_write, directory_rename, reflink } = sandbox.workspace_offer();
    let works = copy_on_write.is_ok();
    let refused = copy_on_write.as_ref().err().map(|reason| format!("workspaces cannot be copy-on-write: {reason}"));
    let renames = "a program cannot rename a directory that is not new (EXDEV): mv copies it, and git mv fails";
    let renames = (works && !*directory_rename).then(|| renames.to_string());
    let notes = refused.into_iter().chain(renames).collect();
    NativeWorkspaceOffer { copy_on_write: works, directory_rename: *directory_rename, reflink: *reflink, notes }
}
