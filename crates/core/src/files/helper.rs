//! The host's side of a session's files helper: its socket, and one connection for each call.

use super::failure::error_of;
use super::places::{Place, Places};
use crate::error::{Code, Error};
use crate::link::{Link, LinkMessage};
use nacre_protocol::files::{Call, FilesReply, FilesRequest, Finish};
use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;

/// The host's end of the helper's socket. The helper exits when the last owner drops it.
pub struct Helper {
    session: String,
    /// For requests; every reply arrives on the connection of its call.
    link: Link<Infallible>,
    places: Places,
    /// Shared by the connections of the files that are being written.
    writes: Arc<()>,
    /// How often another mount has replaced that of the workspace.
    remounts: watch::Sender<u64>,
    /// The error of the calls that the end of the session cuts off, once it ends.
    ending: OnceLock<Error>,
    is_gone: AtomicBool,
}

impl Helper {
    /// Creates the socket for a new helper. Returns the helper's end as well.
    pub fn open(session: &str) -> io::Result<(Self, OwnedFd)> {
        let (link, theirs) = Link::pair()?;
        let (ending, is_gone) = (OnceLock::new(), AtomicBool::new(false));
        let (places, writes, remounts) = (Places::default(), Arc::default(), watch::Sender::new(0));
        Ok((Self { session: session.into(), link, places, writes, remounts, ending, is_gone }, theirs))
    }

    /// Records that the session ends, and the error of the calls that this cuts off.
    pub fn close(&self, error: Error) {
        let _ = self.ending.set(error);
    }

    /// Whether a caller is writing a file.
    pub fn is_writing(&self) -> bool {
        Arc::strong_count(&self.writes) > 1
    }

    /// Records that another mount has replaced that of the workspace.
    pub fn remounted(&self) {
        self.remounts.send_modify(|count| *count += 1);
    }

    /// Changes with each [`Helper::remounted`].
    pub(super) fn remounts(&self) -> watch::Receiver<u64> {
        self.remounts.subscribe()
    }

    /// Whether the helper is known to have ended.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed) || self.link.has_lost()
    }

    /// The error for a call whose connection was closed.
    pub(super) fn lost(&self) -> Error {
        self.is_gone.store(true, Ordering::Relaxed);
        if let Some(error) = self.ending.get() {
            return error.clone();
        }
        let message = format!("the files helper of session '{}' ended during the call", self.session);
        Error::new(Code::EngineError, message)
    }
}

/// A session's helper, and the directory where relative paths start.
#[derive(Clone)]
pub struct Access {
    /// See [`Helper`].
    pub helper: Arc<Helper>,
    /// Where relative paths start.
    pub cwd: PathBuf,
    /// Whether paths must stay below `cwd`.
    pub is_rooted: bool,
}

impl Access {
    /// The same access, with paths that start at a root and cannot leave it.
    #[must_use]
    pub fn below(self, root: PathBuf) -> Self {
        Self { cwd: root, is_rooted: true, ..self }
    }

    /// Sends a call. Returns `None` if the helper had already ended.
    pub(super) async fn send(&self, call: Call) -> Result<Option<Connection>, Error> {
        let Helper { link, places, .. } = &*self.helper;
        let place = match call {
            Call::Watch { .. } | Call::Write { .. } => Some(places.take().await?),
            _ => None,
        };
        let write = matches!(call, Call::Write { .. }).then(|| Arc::clone(&self.helper.writes));
        let cwd = self.cwd.as_os_str().as_encoded_bytes().to_vec();
        let request = FilesRequest { cwd, call, is_rooted: self.is_rooted };
        let opened =
            Link::pair().and_then(|(ours, theirs)| Ok((ours, LinkMessage::of(&request, vec![theirs.into()])?)));
        let (connection, message) =
            opened.map_err(|error| Error::new(Code::EngineError, format!("cannot reach the files helper: {error}")))?;
        link.post(message);
        link.flush().await;
        let helper = Arc::clone(&self.helper);
        Ok((!link.has_lost()).then_some(Connection { link: connection, helper, _place: place, _write: write }))
    }
}

/// The host's end of the connection of one call. Dropping it cancels the call.
pub struct Connection {
    link: Link<FilesReply>,
    helper: Arc<Helper>,
    /// The place of a watch or write in the helper.
    _place: Option<Place>,
    /// See [`Helper::is_writing`].
    _write: Option<Arc<()>>,
}

impl Connection {
    /// Receives the next message and its descriptor; a failure is an error. Cancel-safe.
    pub(super) async fn reply(&self) -> Result<(FilesReply, Option<OwnedFd>), Error> {
        match self.link.receive().await {
            Ok(Some((FilesReply::Failed(failure), _))) => Err(error_of(&failure)),
            Ok(Some((reply, descriptors))) => Ok((reply, descriptors.into_iter().next())),
            Ok(None) | Err(_) => Err(self.helper.lost()),
        }
    }

    /// The error for a reply of the wrong kind.
    pub(super) fn confused(&self) -> Error {
        Error::new(Code::EngineError, "the files helper sent a reply that does not match the call")
    }

    /// Commits or reverts a write.
    pub(super) fn finish(&self, finish: Finish) -> Result<(), Error> {
        let posted = LinkMessage::of(&finish, Vec::new()).map(|message| self.link.post(message));
        if posted.is_err() || self.link.has_lost() { Err(self.helper.lost()) } else { Ok(()) }
    }
}
