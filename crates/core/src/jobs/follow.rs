//! Waits for changes of a job: more output, or its end.
//!
//! inotify(7) reports changes in the job's directory, and a pidfd reports the death of the supervisor. Both are set
//! up before the first read, so that no change is missed between read and wait. A poll once per second covers file
//! systems that do not report changes by other machines.

use super::reader;
use super::status::status;
use super::store::Job;
use crate::error::Error;
use crate::sys::{self, OwnsDescriptor};
use nacre_containment::job::leftover;
use nacre_containment::pidfd;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// The longest wait between two polls.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait without notifications, beyond max_user_instances of inotify(7).
const BLIND_WAIT: Duration = Duration::from_millis(100);

/// Resolves when the output is longer than `cursor` or no process of the job is left to write more. Without a cursor, when
/// the command has ended.
///
/// # Errors
/// `JOB_NOT_FOUND`, also if the job is removed meanwhile.
pub async fn news(job: &Job, cursor: Option<u64>) -> Result<(), Error> {
    let (watched, meta) = job.blocking(move |job| Ok((watch(job, cursor.is_some()), job.meta()?))).await?;
    let changes = watched.and_then(|inotify| Some(Changes(sys::watch(Watched(inotify)).ok()?)));
    let supervisor = meta.and_then(|meta| meta.own).and_then(|own| pidfd::open(own.pid).ok());
    let mut supervisor =
        FollowedSupervisor { watched: supervisor.and_then(|fd| sys::watch(fd).ok()), has_ended: false };
    while !has_news(job, cursor).await? {
        // Nothing reports when the guard of a killed supervisor has ended the rest.
        let is_blind = changes.is_none() || supervisor.has_ended;
        let longest = if is_blind { BLIND_WAIT } else { LONGEST_WAIT };
        tokio::select! {
            () = changed(changes.as_ref()) => {}
            () = supervisor.ended() => {}
            () = tokio::time::sleep(longest) => {}
        }
    }
    Ok(())
}

async fn has_news(job: &Job, cursor: Option<u64>) -> Result<bool, Error> {
    let look = move |job: &Job| {
        let status = status(job)?;
        match cursor {
            Some(cursor) => Ok(!status.alive || reader::size(job)? > cursor),
            None => Ok(status.is_over()),
        }
    };
    job.blocking(look).await
}

struct Changes(AsyncFd<Watched>);

struct Watched(Inotify);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl OwnsDescriptor for Watched {}

/// Watches the directory. Watches writes only for readers of the output, because that slows down a job with much
/// output. The end is a file that is renamed into place, or closed.
fn watch(job: &Job, output: bool) -> Option<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?;
    let kinds = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_CLOSE_WRITE;
    let mut kinds = kinds | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE_SELF;
    kinds |= AddWatchFlags::IN_ONLYDIR;
    kinds.set(AddWatchFlags::IN_MODIFY, output);
    inotify.add_watch(&leftover::within(&job.directory, ""), kinds).ok()?;
    Some(inotify)
}

/// Waits until the directory has changed since the last call.
async fn changed(changes: Option<&Changes>) {
    let Some(Changes(inotify)) = changes else { return std::future::pending().await };
    let Ok(mut guard) = inotify.readable().await else { return std::future::pending().await };
    while inotify.get_ref().0.read_events().is_ok() {}
    guard.clear_ready();
}

/// The process with the supervisor's pid. In another pid namespace, it may be a stranger.
struct FollowedSupervisor {
    watched: Option<AsyncFd<OwnedFd>>,
    has_ended: bool,
}

impl FollowedSupervisor {
    /// Resolves once, when the process has exited.
    async fn ended(&mut self) {
        let Some(fd) = &self.watched else { return std::future::pending().await };
        let _ = fd.readable().await;
        self.watched = None;
        self.has_ended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_containment::pid::Pid;

    #[tokio::test]
    async fn the_end_of_a_process_wakes_a_follower_only_once() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let fd = pidfd::open(Pid::new(child.id() as i32).unwrap()).unwrap();
        let mut supervisor = FollowedSupervisor { watched: Some(sys::watch(fd).unwrap()), has_ended: false };
        child.wait().unwrap();
        supervisor.ended().await;
        let again = tokio::time::timeout(Duration::from_millis(50), supervisor.ended());
        assert!(again.await.is_err(), "it would poll without a pause");
    }
}
