//! The layers of all workspaces: calls that need no workspace.

use super::bytes;
use super::keeper::{ask_once, missing, read_value};
use crate::error::{Code, Error};
use crate::private_directory::{self, RefusedDirectory};
use nacre_protocol::workspace::{self as protocol, KeeperRequest, Offer};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// The directory of all layers, in the state directory.
const STORES: &str = "workspaces";
/// How long a machine may take to show what it offers.
const PROBE: Duration = Duration::from_secs(1);

/// A named workspace of a directory of layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub id: String,
    /// The real directory; `None` if the note about it is damaged, or of another version.
    pub path: Option<PathBuf>,
    /// Whether a sandbox has it open.
    pub in_use: bool,
    /// When it was last opened, committed or closed, in seconds since 1970.
    pub used_at: i64,
}

/// The default directory of the layers of all workspaces.
pub fn stores(state_dir: &Path) -> PathBuf {
    state_dir.join(STORES)
}

/// The named workspaces with layers in a directory, in the order of their names. It need not exist.
///
/// # Errors
/// `STATE_DIR_UNAVAILABLE` if the directory cannot be used.
pub fn list(supervisor: &Path, directory: &Path) -> Result<Vec<Named>, Error> {
    if !is_directory_of_stores(directory)? {
        return Ok(Vec::new());
    }
    let (_, found) = ask_once(supervisor, &KeeperRequest::List { stores: bytes(directory) }, None, None)?;
    let found: Vec<protocol::Named> = read_value(found)?;
    let named = |protocol::Named { id, path, in_use, used_at }: protocol::Named| {
        let path = path.map(|path| PathBuf::from(std::ffi::OsString::from_vec(path)));
        Named { id, path, in_use, used_at }
    };
    Ok(found.into_iter().map(named).collect())
}

/// Deletes a named workspace with layers in a directory. A commit that was interrupted is completed before.
///
/// # Errors
/// `WORKSPACE_IN_USE`, `FILE_NOT_FOUND` if there is none of this name, and `STATE_DIR_UNAVAILABLE`.
pub fn delete(supervisor: &Path, directory: &Path, id: &str) -> Result<(), Error> {
    if !is_directory_of_stores(directory)? {
        return Err(missing(Some(id)));
    }
    ask_once(supervisor, &KeeperRequest::Delete { stores: bytes(directory), id: id.into() }, None, Some(id)).map(drop)
}

fn is_directory_of_stores(directory: &Path) -> Result<bool, Error> {
    private_directory::check(directory).map_err(|refused| unavailable(directory, &refused))
}

pub(super) fn unavailable(directory: &Path, refused: &RefusedDirectory) -> Error {
    let message = format!("cannot use {} for workspaces: {refused}", directory.display());
    Error::new(Code::StateDirUnavailable, message)
}

/// What this machine offers to workspaces with this state directory. A process of its own tries it, because it changes its
/// namespaces.
pub fn offer(supervisor: &Path, state_dir: &Path) -> Offer {
    let (sender, found) = mpsc::channel();
    let (supervisor, state_dir) = (supervisor.to_path_buf(), state_dir.to_path_buf());
    // The directory may not respond, and then this thread never ends.
    std::thread::spawn(move || sender.send(ask_for_offer(&supervisor, &state_dir)));
    let refused = |reason: String| Offer { copy_on_write: Err(reason), directory_rename: false, reflink: false };
    let found = found.recv_timeout(PROBE).unwrap_or_else(|_| Err("it took longer than a second to try them".into()));
    found.unwrap_or_else(refused)
}

fn ask_for_offer(supervisor: &Path, state_dir: &Path) -> Result<Offer, String> {
    // The first call that needs the directory creates it, on the file system of its parent.
    let directory = state_dir.ancestors().find(|directory| directory.is_dir()).unwrap_or(state_dir);
    let output = crate::supervisor::program(supervisor).arg("--workspace-offer").arg(directory).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", supervisor.display()))?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{} has failed: {error}", supervisor.display()))
}
