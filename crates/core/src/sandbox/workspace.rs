//! Calls on the copy-on-write workspace for which the sandbox pauses.

use super::{Pause, Sandbox};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::git_branch::{self, BranchCommit, CommittedBranch};
use crate::workspace::{self, Commit, Named, Workspace};
use nacre_protocol::confinement::Guarding;
use nacre_protocol::workspace::Chosen;
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

    /// Whether a commit leaves out what programs of the machine run later, unless a path names it: the rules guard the project.
    pub fn guards_project(&self) -> bool {
        self.inner.config.isolation.as_ref().is_some_and(|isolation| isolation.rules.guarding != Guarding::Off)
    }

    /// Applies changes to the real directory during a pause; see [`Workspace::commit`]. `None`, with nothing applied, if
    /// `given_up` resolves before the pause is in effect.
    ///
    /// # Errors
    /// Those of [`Workspace::commit`] and [`Sandbox::pause`].
    pub fn commit<G: Future<Output = ()> + Send>(
        &self,
        chosen: Chosen,
        force: bool,
        sync: bool,
        given_up: G,
    ) -> impl Future<Output = Result<Option<Commit>, Error>> + Send + use<G> {
        let withholds = self.guards_project();
        self.while_paused(given_up, move |workspace| workspace.commit(chosen, force, sync, withholds))
    }

    /// Commits changes to a branch of git during a pause; see [`git_branch::commit`]. `None`, with nothing committed, if `given_up`
    /// resolves before the pause is in effect.
    ///
    /// # Errors
    /// Those of [`git_branch::commit`] and [`Sandbox::pause`].
    pub fn commit_to_branch<G: Future<Output = ()> + Send>(
        &self,
        commit: BranchCommit,
        given_up: G,
    ) -> impl Future<Output = Result<Option<CommittedBranch>, Error>> + Send + use<G> {
        let commit = BranchCommit { withholds: self.guards_project(), ..commit };
        self.while_paused(given_up, move |workspace| git_branch::commit(workspace, commit))
    }

    /// Restores the real versions of changed paths during a pause; see [`Workspace::discard`]. `None`, with nothing
    /// restored, if `given_up` resolves before the pause is in effect.
    ///
    /// # Errors
    /// Those of [`Workspace::discard`] and [`Sandbox::pause`].
    pub fn discard<G: Future<Output = ()> + Send>(
        &self,
        chosen: Chosen,
        given_up: G,
    ) -> impl Future<Output = Result<Option<u64>, Error>> + Send + use<G> {
        self.while_paused(given_up, move |workspace| workspace.discard(chosen))
    }

    /// Makes a call on the workspace during a pause, unless the wait for the pause is given up. If the future is dropped
    /// during the call, the pause still lasts until the call has ended.
    fn while_paused<T: Send + 'static, G, F>(
        &self,
        given_up: G,
        call: F,
    ) -> impl Future<Output = Result<Option<T>, Error>> + Send + use<T, G, F>
    where
        G: Future<Output = ()> + Send,
        F: FnOnce(&Workspace) -> Result<T, Error> + Send + 'static,
    {
        let pausing = self.pause_for_workspace(given_up);
        async move {
            let Some((workspace, pause)) = pausing.await? else { return Ok(None) };
            blocking(move || {
                let _pause = pause;
                call(&workspace).map(Some)
            })
            .await
        }
    }

    /// Pauses for a call on the workspace, unless the wait is given up.
    pub(super) fn pause_for_workspace<G: Future<Output = ()> + Send>(
        &self,
        given_up: G,
    ) -> impl Future<Output = Result<Option<(Arc<Workspace>, Pause)>, Error>> + Send + use<G> {
        let begun = self.workspace().map(|workspace| (workspace, self.pause()));
        async move {
            let (workspace, pausing) = begun?;
            tokio::select! {
                biased;
                () = given_up => Ok(None),
                pause = pausing => Ok(Some((workspace, pause?))),
            }
        }
    }
}
