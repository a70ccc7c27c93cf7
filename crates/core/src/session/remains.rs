//! What a dead supervisor has left behind: killed, waited for and, where nobody else will, reaped.

use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What SIGKILL may take, with all that has to be written back and unmapped.
const DYING_LIMIT: Duration = Duration::from_secs(2);
/// A group whose last member is gone can be removed a moment later.
const GROUP_LIMIT: Duration = Duration::from_millis(100);
/// They are nobody's children here, so there is nothing to wait on but time.
const LOOK: Duration = Duration::from_micros(200);

/// Ends the members of the session's control group, and whatever still belongs to the session that the supervisor led.
/// The latter misses processes that have made a session of their own; only a control group holds those.
pub async fn sweep(supervisor: Pid, group: Option<Group>) {
    let session = proc_table::scan().filter(|stat| stat.session == supervisor.raw());
    let mut left: Vec<Identity> = session.map(|stat| stat.identity).collect();
    if let Some(group) = &group {
        left.extend(group.members_below().into_iter().filter_map(Stat::read).map(|stat| stat.identity));
        let _ = group.kill();
    }
    bury(left).await;
    let give_up = Instant::now() + GROUP_LIMIT;
    while group.as_ref().is_some_and(|group| group.remove().is_err()) && Instant::now() < give_up {
        sleep(LOOK).await;
    }
}

/// Kills processes and waits until they are gone.
pub async fn bury(mut dying: Vec<Identity>) {
    let give_up = Instant::now() + DYING_LIMIT;
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
/// namespace or a subreaper, is reaped here: the runtime knows nothing of it. Those whose parent is dying too may yet
/// become one.
fn is_gone(identity: Identity, dying: &[i32]) -> bool {
    match Stat::read(identity.pid).filter(|stat| stat.identity == identity) {
        None => true,
        Some(stat) if stat.is_running() => false,
        Some(stat) if stat.parent == std::process::id() as i32 => {
            crate::sys::reap(identity.pid);
            true
        }
        Some(stat) => !dying.contains(&stat.parent),
    }
}
