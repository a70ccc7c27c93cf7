//! After the supervisor's death: the last state is saved, and what is left of the session is killed.
//!
//! The shell died with the supervisor (parent-death signal). The standby did not, and still has the state: a fork of it
//! writes the state down. Then everything that belongs to the session is killed, waited for and, where no other process
//! will do it, reaped.

use super::context::Internal;
use crate::shell::channel::{Channel, Received};
use crate::shell::checkpoint;
use crate::sys;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use nacre_protocol::shell::{Reply, Request, RequestFlags, RequestKind};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

/// How long the standby may take to write the state down. A large state takes a tenth of a second.
const SAVING: Duration = Duration::from_secs(2);
/// What SIGKILL may take, with all that has to be written back and unmapped.
const DYING: Duration = Duration::from_secs(2);
/// A group whose last member has ended can be removed a moment later.
const EMPTYING: Duration = Duration::from_millis(100);
/// The processes are no children of this one, so they can only be looked at again and again.
const LOOK: Duration = Duration::from_micros(200);

/// Starts the task; it reports [`Internal::Salvaged`].
pub(super) fn start(
    standby: Option<(Channel, Pid)>,
    supervisor: Option<Pid>,
    group: Option<Group>,
    report: UnboundedSender<Internal>,
) {
    tokio::spawn(async move {
        let saved = match &standby {
            Some((channel, _)) => timeout(SAVING, save(channel)).await.ok().flatten(),
            None => None,
        };
        drop(standby);
        if let Some(supervisor) = supervisor {
            sweep(supervisor, group).await;
        }
        let _ = report.send(Internal::Salvaged(saved));
    });
}

/// The state of an idle bash process, as text that restores it.
pub(super) async fn save(channel: &Channel) -> Option<Vec<u8>> {
    let file = sys::memory_file().ok()?;
    let (child, theirs) = Channel::pair().ok()?;
    let request = Request {
        flags: RequestFlags::CHECKPOINT | RequestFlags::NO_WARM,
        ..Request::new(RequestKind::Fork, u64::MAX)
    };
    channel.send(&request, vec![theirs.into(), file.try_clone().ok()?.into()]).ok()?;
    loop {
        match channel.receive().await {
            Received::Reply(Reply::Forked { id: u64::MAX, result: Ok(_), .. }) => break,
            Received::Reply(Reply::Forked { id: u64::MAX, .. }) | Received::Closed { .. } => return None,
            Received::Reply(_) => {}
        }
    }
    while !matches!(child.receive().await, Received::Closed { .. }) {}
    checkpoint::restore_text(&sys::contents(&file).ok()?)
}

/// Ends the members of the session's control group, and whatever still belongs to the session that the supervisor led.
/// The latter misses processes that have made a session of their own; only a control group holds those.
async fn sweep(supervisor: Pid, group: Option<Group>) {
    let Ok(mut left) = tokio::task::spawn_blocking(move || session_members(supervisor)).await else { return };
    if let Some(group) = &group {
        left.extend(group.members_below().into_iter().filter_map(Stat::read).map(|stat| stat.identity));
        let _ = group.kill();
    }
    kill_and_wait(left).await;
    let give_up = Instant::now() + EMPTYING;
    while group.as_ref().is_some_and(|group| group.remove().is_err()) && Instant::now() < give_up {
        sleep(LOOK).await;
    }
}

fn session_members(supervisor: Pid) -> Vec<Identity> {
    proc_table::scan().filter(|stat| stat.session == supervisor.raw()).map(|stat| stat.identity).collect()
}

async fn kill_and_wait(mut dying: Vec<Identity>) {
    let give_up = Instant::now() + DYING;
    for identity in &dying {
        let _ = signal::send_to(*identity, libc::SIGKILL);
    }
    loop {
        let pids: Vec<i32> = dying.iter().map(|identity| identity.pid.raw()).collect();
        dying.retain(|identity| !is_gone(*identity, &pids));
        if dying.is_empty() || Instant::now() >= give_up {
            return;
        }
        sleep(LOOK).await;
    }
}

/// Whether a killed process is gone for good. One that has become a child of this process, which is then init in its pid
/// namespace or a subreaper, is reaped here: the runtime does not track it. Those whose parent is dying too may yet
/// become one.
fn is_gone(identity: Identity, dying: &[i32]) -> bool {
    match Stat::read(identity.pid).filter(|stat| stat.identity == identity) {
        None => true,
        Some(stat) if stat.is_running() => false,
        Some(stat) if stat.parent == std::process::id() as i32 => {
            sys::reap(identity.pid);
            true
        }
        Some(stat) => !dying.contains(&stat.parent),
    }
}
