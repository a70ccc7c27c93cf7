//! The private place of a session or job for the caches of tools.

use crate::private_directory;
use nacre_isolation::caches::{self, Identity};
use nacre_isolation::real;
use nacre_isolation::tools::{self, Surroundings};
use nacre_protocol::confinement::{CachePlace, Confinement, Rules};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;

/// The place in the directory for temporary files, of programs that can write nowhere else.
const TEMPORARY: &str = "nacre-caches";

/// What decides about the place.
pub(super) struct Caches {
    /// The directory of the sandbox.
    pub(super) project: PathBuf,
    /// The environment of the programs.
    pub(super) env: Vec<(OsString, OsString)>,
    /// The variables in it that the environment of this process does not have with this value.
    pub(super) own: Vec<String>,
    /// The user that they run as, if not this process's.
    pub(super) user: Option<u32>,
    /// The state directory.
    pub(super) state: PathBuf,
    /// Whether they write to a layer.
    pub(super) is_layered: bool,
    /// The supervisor's program.
    pub(super) supervisor: PathBuf,
}

impl Caches {
    /// Gives a confinement its place, if the rules are those of a preset. Returns the variables that lead there.
    pub(super) fn give(&self, rules: &Rules, confinement: &mut Confinement) -> Vec<(String, OsString)> {
        if !rules.private_caches || confinement.filesystem.is_none() {
            return Vec::new();
        }
        let project = real(&self.project);
        let place = self.place(rules, confinement, &project);
        let temporary = confinement.temporary.join(TEMPORARY);
        let found = tools::tools(
            place.as_ref().map_or(&temporary, |place| &place.files),
            &project,
            &Surroundings {
                env: &self.env,
                own: &self.own,
                rules: &rules.filesystem,
                network: rules.network,
                has_private_tmp: confinement.namespaces.is_some(),
            },
        );
        // Nothing would be kept in it.
        confinement.caches = place.filter(|_| !found.variables.is_empty());
        if let Some(place) = &mut confinement.caches {
            place.link = found.link;
            if let Some(root) = caches::due(place) {
                sweep(&self.supervisor, root);
            }
        }
        found.variables
    }

    /// A lasting place, unless programs can write nothing that lasts, or would not see it.
    fn place(&self, rules: &Rules, confinement: &Confinement, project: &Path) -> Option<CachePlace> {
        let filesystem = &rules.filesystem;
        let own = nix::unistd::geteuid().as_raw();
        let user = self.user.unwrap_or(own);
        // Only a view shows it to another user.
        if filesystem.write.is_empty() || (confinement.namespaces.is_none() && user != own) {
            return None;
        }
        private_directory::create(&self.state).ok()?;
        let identity = Identity {
            project: project.to_path_buf(),
            write: filesystem.write.clone(),
            mounts: filesystem.mounts.clone(),
            user,
            is_layered: self.is_layered,
        };
        let place = caches::place(&self.state.canonicalize().ok()?, &identity).ok()?;
        let is_hidden = filesystem.hide.iter().any(|path| place.files.starts_with(path));
        (!is_hidden && !filesystem.covers(&place.files)).then_some(place)
    }
}

/// Removes places that are not needed any more. A program of its own does it, since programs control what is in them.
fn sweep(supervisor: &Path, root: PathBuf) {
    let mut command = crate::supervisor::program(supervisor);
    command.arg("--sweep-caches").arg(root);
    let sweep = move || drop(command.output());
    let _ = thread::Builder::new().name("nacre-caches".into()).spawn(sweep);
}
