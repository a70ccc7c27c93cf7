//! Checkpoints of the whole sandbox: the files of its workspace, and the state of every shell.
//!
//! A checkpoint is made during a pause, so files and states are of one moment. If only idle shells use the files, these are not
//! copied: the shells change over to another mount, see [`Pause::remount`]. A rollback ends every session, and puts
//! another one with the saved state in its place: nothing of the old ones is left. The new ones are held until the files
//! have changed.

use super::secrets::comparable;
use super::{DEFAULT_SESSION, NewSession, OpenSession, Pause, Sandbox, WhenBusy};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::isolation::Isolation;
use crate::session::{Handle, Saved};
use crate::workspace::Workspace;
use nacre_protocol::message;
use nacre_protocol::workspace::Point;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// The format of [`KeptCheckpoint`] and of all that it has, down to the items and sections of the engines. Raise it with every
/// change: another version of nacre that has the same number reads what this one has written.
const FORMAT: u32 = 2;

/// What a rollback has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollback {
    /// The checkpoint.
    pub point: Point,
    /// The ids of the background processes that it has ended.
    pub ended_processes: Vec<String>,
    /// The ids of the sessions that were created after the checkpoint, and have ended.
    pub ended_sessions: Vec<String>,
    /// What shells had at the checkpoint and do not have now, like `job 1: sleep 60`.
    pub missing: Vec<String>,
}

/// A rollback whose sessions have been replaced.
struct Replaced {
    /// Holds the new sessions.
    pause: Pause,
    rollback: Rollback,
    /// The old sessions, with their numbers among those that are closing.
    old: Vec<(u64, Handle)>,
}

/// The sessions of a checkpoint.
#[derive(Serialize, Deserialize)]
pub(super) struct KeptCheckpoint {
    format: u32,
    /// That of the sandbox. The isolation of its sessions is at least as strict.
    pub(super) isolation: Option<Isolation>,
    pub(super) sessions: Vec<KeptSession>,
}

/// A session with its state.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct KeptSession {
    pub(super) new: NewSession,
    pub(super) saved: Saved,
}

impl KeptSession {
    /// What its shell has that no other one can have.
    pub(super) fn missing(&self) -> Vec<String> {
        let of = prefix(&self.new.id);
        self.saved.not_restored().into_iter().map(|text| format!("{of}{text}")).collect()
    }
}

/// What a text about a session begins with.
pub(super) fn prefix(id: &str) -> String {
    if id == DEFAULT_SESSION { String::new() } else { format!("session '{id}': ") }
}

/// The states of shells as a text. [`KeptCheckpoint::decode`] reads that of a checkpoint.
pub(super) fn written_down(states: &impl Serialize) -> Result<Vec<u8>, Error> {
    message::encode(states).map_err(|error| {
        Error::new(Code::EngineError, format!("the state of the shells cannot be written down: {error}"))
    })
}

/// Why a checkpoint, or what is kept of a session, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// It cannot be read.
    #[error("another version of nacre has written it, or it is damaged")]
    Foreign,
    /// The isolation of the named session may be weaker than the present one of the sandbox.
    #[error(
        "session '{0}' has an isolation of its own, and the sandbox had another one then: create it with the same isolation"
    )]
    Isolation(String),
}

impl KeptCheckpoint {
    /// Reads a text for a sandbox with this isolation.
    ///
    /// # Errors
    /// See [`Unusable`].
    pub(super) fn decode(text: &[u8], isolation: Option<&Isolation>) -> Result<Self, Unusable> {
        let kept = message::decode::<Self>(text).ok().filter(|kept| kept.format == FORMAT);
        let kept = kept.ok_or(Unusable::Foreign)?;
        let own = kept.sessions.iter().find(|session| session.new.isolation.is_some());
        match own.filter(|_| comparable(kept.isolation.as_ref()) != comparable(isolation)) {
            None => Ok(kept),
            Some(session) => Err(Unusable::Isolation(session.new.id.clone())),
        }
    }
}

/// The states of sessions, for a checkpoint.
pub(super) struct States {
    /// The ids of the sessions.
    pub(super) ids: Vec<String>,
    /// What a rollback reads.
    pub(super) text: Vec<u8>,
    /// See [`hold_mount`].
    pub(super) hold_mount: bool,
}

/// Whether a shell holds something of the mount of the workspace, so that it cannot change over to another one.
pub(super) fn hold_mount(sessions: &[KeptSession]) -> bool {
    sessions.iter().any(|session| session.saved.holds_mount())
}

impl Sandbox {
    /// Keeps the files and the state of every session, under a name if one is given. Waits as [`Sandbox::pause`] does.
    /// `None`, with nothing kept, if `given_up` resolves before the pause is in effect.
    ///
    /// # Errors
    /// Those of [`Sandbox::pause`], [`Pause::check`] and [`Workspace::checkpoint`]; `ENGINE_ERROR` if a shell does not write its state down.
    pub fn checkpoint<G: Future<Output = ()> + Send>(
        &self,
        name: Option<String>,
        when_busy: WhenBusy,
        given_up: G,
    ) -> impl Future<Output = Result<Option<Point>, Error>> + Send + use<G> {
        let pausing = self.pause_for_workspace(given_up);
        let sandbox = self.clone();
        async move {
            let Some((workspace, pause)) = pausing.await? else { return Ok(None) };
            pause.check(when_busy, "use busy: 'copy'")?;
            let States { ids, text, hold_mount } = sandbox.states(&pause).await?;
            sandbox.deleted_sessions_end().await;
            let may_seal = pause.is_idle() && !hold_mount;
            let keeping = async move {
                let (point, is_sealed) = blocking(move || workspace.checkpoint(name, ids, &text, may_seal)).await?;
                if is_sealed {
                    Arc::new(pause).remount().await;
                }
                Ok(Some(point))
            };
            // It is completed even if this future is dropped.
            tokio::spawn(keeping).await.unwrap_or_else(|_| Err(Error::engine_failed()))
        }
    }

    /// The states of the sessions that are held, for a checkpoint.
    pub(super) async fn states(&self, pause: &Pause) -> Result<States, Error> {
        let sessions = self.save(pause).await?;
        let hold_mount = hold_mount(&sessions);
        let ids = sessions.iter().map(|session| session.new.id.clone()).collect();
        Ok(States { ids, text: written_down(&self.checkpoint_of(sessions))?, hold_mount })
    }

    /// A checkpoint of these sessions.
    pub(super) fn checkpoint_of(&self, sessions: Vec<KeptSession>) -> KeptCheckpoint {
        let isolation = self.inner.config.isolation.as_ref();
        let isolation = isolation.map(|isolation| self.inner.secrets.current(isolation, self.plan()).into_owned());
        KeptCheckpoint { format: FORMAT, isolation, sessions }
    }

    /// The state of every session that is held, in the order of their ids.
    pub(super) async fn save(&self, pause: &Pause) -> Result<Vec<KeptSession>, Error> {
        let saving: Vec<_> = pause.holds().map(|hold| (hold.session().to_string(), hold.save())).collect();
        let mut kept = Vec::new();
        for (id, saving) in saving {
            let Some(saved) = saving.await? else { continue };
            let new = self.lock().open.get(&id).map(|open| open.new.clone());
            kept.extend(new.map(|new| KeptSession { new, saved }));
        }
        kept.sort_by(|a, b| a.new.id.cmp(&b.new.id));
        Ok(kept)
    }

    /// Ends every program, and goes on with the files and the sessions of a checkpoint. Commands that run or wait fail with
    /// `ROLLED_BACK`; file calls wait. If the future is dropped, the rollback is completed in any case once it has begun
    /// to end programs. Without a number, the checkpoint is the newest automatic one.
    ///
    /// # Errors
    /// `WORKSPACE_BUSY` if a file call does not end. Those of [`Workspace::prepare`], and `WORKSPACE_LOST` for a checkpoint of
    /// another version: nothing has happened then. Those of [`Workspace::switch`]: the shells have the state of the checkpoint
    /// then, and the files are as before.
    pub fn roll_back(&self, number: Option<u64>) -> impl Future<Output = Result<Rollback, Error>> + Send + use<> {
        let sandbox = self.clone();
        async move {
            let workspace = sandbox.workspace()?;
            // Neither a file call nor a call that pauses the sandbox is being made, or begins meanwhile.
            let calls = sandbox.exclude_files().await?;
            let rolling = async move {
                let _calls = calls;
                sandbox.roll_back_alone(workspace, number).await
            };
            let (sender, done) = tokio::sync::oneshot::channel();
            tokio::spawn(async move { drop(sender.send(rolling.await)) });
            done.await.unwrap_or_else(|_| Err(Error::new(Code::EngineError, "the rollback has failed")))
        }
    }

    async fn roll_back_alone(&self, workspace: Arc<Workspace>, number: Option<u64>) -> Result<Rollback, Error> {
        let (point, KeptCheckpoint { isolation, sessions: mut kept, .. }) = {
            let (workspace, isolation) = (Arc::clone(&workspace), self.inner.config.isolation.clone());
            let prepare = move || {
                let (point, text) = workspace.prepare(number)?;
                let kept = KeptCheckpoint::decode(&text, isolation.as_ref()).map_err(|why| {
                    let code = match why {
                        Unusable::Foreign => Code::WorkspaceLost,
                        Unusable::Isolation(_) => Code::WorkspaceUnsupported,
                    };
                    Error::new(code, format!("the checkpoint cannot be used: {why}"))
                })?;
                Ok((point, kept))
            };
            blocking(prepare).await?
        };
        let plan = isolation.map(|isolation| isolation.hosts.plan).unwrap_or_default();
        let mut new: Vec<&mut NewSession> = kept.iter_mut().map(|session| &mut session.new).collect();
        self.inner.secrets.adopt(&plan, self.plan(), &mut new)?;
        let Replaced { pause, rollback, old } = self.replace_sessions(point, kept)?;
        let closing: Vec<_> = old.into_iter().map(|(filed, handle)| (filed, handle.roll_back())).collect();
        for (filed, closed) in closing {
            closed.await;
            self.lock().closing.remove(&filed);
        }
        self.deleted_sessions_end().await;
        rollback.ended_sessions.iter().for_each(|id| self.inner.config.on_end.call(id));
        blocking(move || {
            let _pause = pause;
            workspace.switch()
        })
        .await
        .map_err(|error| Error {
            message: format!(
                "the files could not be rolled back, but the sessions were; all programs have ended: {}",
                error.message
            ),
            ..error
        })?;
        Ok(rollback)
    }

    /// Waits until nothing is left of the sessions that are being deleted: their programs may write.
    pub(super) async fn deleted_sessions_end(&self) {
        let is_a_callers = |(id, _): &&(String, Handle)| !id.is_empty();
        let closing: Vec<_> =
            self.lock().closing.values().filter(is_a_callers).map(|(_, handle)| handle.close(Duration::ZERO)).collect();
        for closed in closing {
            closed.await;
        }
    }

    /// Creates the sessions of another sandbox in this one, which has none.
    ///
    /// # Errors
    /// As for [`Sandbox::create_session`].
    pub(super) fn begin_with(&self, kept: Vec<KeptSession>) -> Result<(), Error> {
        let shared = self.shared()?;
        let mut sessions = self.living()?;
        for KeptSession { new, saved } in kept {
            let handle = self.spawn(&mut sessions, new.clone(), shared.clone(), Some(saved))?;
            sessions.open(handle, new);
        }
        Ok(())
    }

    /// Puts other sessions in the place of all present ones, and holds them.
    fn replace_sessions(&self, point: Point, kept: Vec<KeptSession>) -> Result<Replaced, Error> {
        let shared = self.shared()?;
        let mut sessions = self.living()?;
        let (mut new, mut missing) = (Vec::new(), Vec::new());
        for mut session in kept {
            session.new.budget = sessions.open.get(&session.new.id).and_then(|open| open.new.budget.clone());
            missing.extend(session.missing());
            let handle = self.spawn(&mut sessions, session.new.clone(), shared.clone(), Some(session.saved))?;
            new.push((handle, session.new));
        }
        let is_new = |id: &String| id == DEFAULT_SESSION || new.iter().any(|(_, session)| session.id == *id);
        let mut ended_sessions: Vec<String> = sessions.open.keys().filter(|id| !is_new(id)).cloned().collect();
        ended_sessions.sort();
        let ended_processes = self.inner.processes.living();
        self.inner.processes.end_with(None);
        let old: Vec<_> = sessions.open.drain().collect();
        let file = |(id, OpenSession { handle, .. }): (String, OpenSession)| {
            (sessions.start_closing(id, handle.clone()), handle)
        };
        let old = old.into_iter().map(file).collect();
        let pause = Pause::new(self, sessions.begin_pause(), None);
        new.into_iter().for_each(|(handle, new)| sessions.open(handle, new));
        Ok(Replaced { pause, rollback: Rollback { point, ended_processes, ended_sessions, missing }, old })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha1::{Digest, Sha1};

    #[test]
    fn another_version_reads_what_this_one_has_written() {
        let new = NewSession {
            id: "id".into(),
            cwd: Some("/cwd".into()),
            env: vec![("NAME".into(), Some("value".into())), ("UNSET".into(), None)],
            survive_exit: Some(true),
            isolation: Some(Isolation::default()),
            budget: None,
        };
        let saved = Saved::of_items(b"items".to_vec());
        let isolation = Some(Isolation::default());
        let kept = KeptCheckpoint { format: FORMAT, isolation, sessions: vec![KeptSession { new, saved }] };
        let digest = Sha1::digest(written_down(&kept).unwrap());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = (2, "2e2c8c3d83e0df92ff83a00beea40b7cd282e6d4");
        assert_eq!((FORMAT, &*digest), expected, "raise FORMAT if the text has another form now");
    }
}
