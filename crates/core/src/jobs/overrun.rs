//! Ends a job whose supervisor does not: it is stopped, or its command has taken its descriptors away.
//!
//! This process kills the job's control group and everything below the supervisor and its guard. A supervisor that can
//! still reap then records the end itself, for which it needs no new descriptor. Otherwise it is killed too, and then
//! its guard, which could not clean up either.

use nacre_containment::cgroup::Group;
use nacre_containment::job::meta::Own;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::signal;
use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a supervisor without processes may take to record the end, and then its guard to clean up. A busy disk can
/// take seconds.
const RECORD: Duration = Duration::from_secs(4);

/// Ends everything. True once nothing is left.
///
/// # Errors
/// This process cannot look up or signal processes.
pub async fn end(own: &Own, group: Option<PathBuf>, unkillable: Duration) -> io::Result<bool> {
    let begun = Instant::now();
    let (supervisor, guard) = (own.identity(), guard_of(own)?);
    loop {
        let path = group.clone();
        let waited = begun.elapsed();
        let left = tokio::task::spawn_blocking(move || step(supervisor, guard, path, waited));
        if !left.await.map_err(io::Error::other)?? {
            return Ok(true);
        }
        if begun.elapsed() > unkillable {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends SIGKILL to all that is found. False if there was nothing.
fn step(supervisor: Identity, guard: Option<Identity>, group: Option<PathBuf>, waited: Duration) -> io::Result<bool> {
    let group = group.map(Group::at);
    if let Some(group) = &group {
        let _ = group.kill();
    }
    let mut owners = Vec::new();
    let mut spare = HashSet::new();
    for owner in [Some(supervisor), guard].into_iter().flatten() {
        spare.insert(owner.pid);
        if proc_table::is_alive(owner)? {
            owners.push(owner);
        }
    }
    let roots: Vec<Pid> = owners.iter().map(|owner| owner.pid).collect();
    let mut below = proc_table::descendants(&roots, &spare)?;
    // Between two scans an owner may have ended, and its pid may have been reused: its children do not count then.
    for owner in &owners {
        if !proc_table::is_alive(*owner)? {
            return Ok(true);
        }
    }
    below.retain(Stat::is_running);
    for stat in &below {
        signal::send_to(stat.identity, libc::SIGKILL)?;
    }
    for owner in &owners {
        let patience = if *owner == supervisor { RECORD } else { 2 * RECORD };
        // A stopped supervisor goes on, to reap and to record.
        let is_stuck = below.is_empty() && waited > patience;
        signal::send_to(*owner, if is_stuck { libc::SIGKILL } else { libc::SIGCONT })?;
    }
    Ok(!below.is_empty() || !owners.is_empty())
}

/// The guard: the supervisor's parent, if it runs the same program and leads another session. A supervisor whose guard
/// was killed has another parent, which must not be signalled. The guard of a script is below its supervisor.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn guard_of(own: &Own) -> io::Result<Option<Identity>> {
    let supervisor = own.identity();
    if own.mark.is_some() {
        return Ok(None);
    }
    let Some(stat) = Stat::look(supervisor.pid)?.filter(|stat| stat.identity == supervisor) else { return Ok(None) };
    let Some(parent) = Pid::new(stat.parent).map(Stat::look).transpose()?.flatten() else { return Ok(None) };
    let program = |pid: Pid| {
        let found = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((found.dev(), found.ino()))
    };
    let is_same = program(parent.identity.pid).is_some_and(|found| Some(found) == program(supervisor.pid));
    Ok((is_same && parent.session == parent.identity.pid.raw()).then_some(parent.identity))
}
