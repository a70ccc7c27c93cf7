//! Calls on the copy-on-write workspace for which the sandbox pauses.

use super::Sandbox;
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::workspace::{self, Commit, Named, Workspace};
use std::path::PathBuf;
use std::sync::Arc;

impl Sandbox {
    /// The copy-on-write workspace. Its own calls do not pause the sandbox.
    ///
    /// # Errors
    /// `WORKSPACE_NOT_ENABLED` if the sandbox has none; `SANDBOX_DESTROYED`.
    pub fn workspace(&self) -> Result<Arc<Workspace>, Error> {
        self.lock().check()?;
        self.inner.workspace.clone().ok_or_else(|| {
            let message = "the sandbox writes to the real files: create it with workspace: 'copy-on-write'";
            Error::new(Code::WorkspaceNotEnabled, message)
        })
    }

    /// The named workspaces with layers in a directory; by default in the state directory.
    ///
    /// # Errors
    /// Those of [`workspace::list`].
    pub fn list_workspaces(&self, directory: Option<PathBuf>) -> Result<Vec<Named>, Error> {
        workspace::list(&self.inner.config.supervisor, &self.stores(directory))
    }

    /// Deletes one of them.
    ///
    /// # Errors
    /// Those of [`workspace::delete`].
    pub fn delete_workspace(&self, directory: Option<PathBuf>, id: &str) -> Result<(), Error> {
        workspace::delete(&self.inner.config.supervisor, &self.stores(directory), id)
    }

    fn stores(&self, directory: Option<PathBuf>) -> PathBuf {
        directory.unwrap_or_else(|| workspace::stores(&self.inner.config.state_dir))
    }

    /// Applies changes to the real directory during a pause; see [`Workspace::commit`].
    ///
    /// # Errors
    /// Those of [`Workspace::commit`] and [`Sandbox::pause`].
    pub fn commit(
        &self,
        paths: Option<Vec<Vec<u8>>>,
        force: bool,
        sync: bool,
    ) -> impl Future<Output = Result<Commit, Error>> + Send + use<> {
        self.while_paused(move |workspace| workspace.commit(paths, force, sync))
    }

    /// Restores the real versions of changed paths during a pause; see [`Workspace::discard`].
    ///
    /// # Errors
    /// Those of [`Workspace::discard`] and [`Sandbox::pause`].
    pub fn discard(&self, paths: Option<Vec<Vec<u8>>>) -> impl Future<Output = Result<u64, Error>> + Send + use<> {
        self.while_paused(move |workspace| workspace.discard(paths))
    }

    /// Makes a call on the workspace during a pause. If the future is dropped during the call, the pause still lasts
    /// until the call has ended.
    fn while_paused<T: Send + 'static, F>(&self, call: F) -> impl Future<Output = Result<T, Error>> + Send + use<T, F>
    where
        F: FnOnce(&Workspace) -> Result<T, Error> + Send + 'static,
    {
        let begun = self.workspace().map(|workspace| (workspace, self.pause()));
        async move {
            let (workspace, pausing) = begun?;
            let pause = pausing.await?;
            blocking(move || {
                let _pause = pause;
                call(&workspace)
            })
            .await
        }
    }
}
