//! Jobs that an existing package started. Their `meta.json` identifies processes only by a process group.
//!
//! The number of the group may have been reused. A process therefore counts as the job's only with evidence: it has the
//! job's output open, or it is the group's leader and started no later than the directory's date allows. Without
//! evidence, the job may be reported as crashed, but no other process is ever signalled.

use super::store::{Job, unknown};
use crate::blocking::blocking;
use crate::error::Error;
use nacre_containment::job::clock;
use nacre_containment::job::file::{self, Unreadable};
use nacre_containment::job::layout::OUTPUT;
use nacre_containment::job::meta::Meta;
use nacre_containment::ladder::Ladder;
use nacre_containment::proc_table::{self, Stat};
use nix::sys::stat::FileStat;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The maximum delay between the directory and the start of its leader, in ms.
const SLACK_MS: u64 = 2000;

/// The running processes of the job's group and their descendants, if the group is the job's. `directory` is the
/// actual directory of the job, whatever its `meta.json` claims.
///
/// # Errors
/// This process cannot look.
pub fn members(meta: &Meta, directory: &File) -> io::Result<Vec<Stat>> {
    let mut group = proc_table::scan()?;
    group.retain(|stat| stat.group == meta.pgid.raw() && stat.is_running());
    let output = match file::stat(directory, OUTPUT) {
        Err(Unreadable::Io(error)) => return Err(error),
        // Something else in its place is no evidence.
        output => output.unwrap_or(None),
    };
    let is_evidence =
        |stat: &Stat| is_leader_in_time(stat, meta) || output.is_some_and(|output| has_output_open(stat, &output));
    if !group.iter().any(is_evidence) {
        return Ok(Vec::new());
    }
    let roots: Vec<_> = group.iter().map(|stat| stat.identity.pid).collect();
    let below = proc_table::descendants(&roots, &HashSet::new())?;
    Ok(group.into_iter().chain(below.into_iter().filter(Stat::is_running)).collect())
}

/// Ends the group: SIGTERM, and SIGKILL after the grace time. True once all processes have exited.
///
/// # Errors
/// `ENGINE_ERROR` if this process cannot look.
pub async fn end(job: &Job, meta: &Meta, grace: Duration, unkillable: Duration) -> Result<bool, Error> {
    let give_up = Instant::now() + grace + unkillable;
    let mut ladder = Ladder::new(libc::SIGTERM, grace);
    loop {
        let (known, looked) = (meta.clone(), job.clone());
        let left = blocking(move || members(&known, &looked.directory).map_err(|error| unknown(&looked.id, &error)));
        let left = left.await?;
        if left.is_empty() || Instant::now() > give_up {
            return Ok(left.is_empty());
        }
        if ladder.is_overdue() {
            ladder.kill();
        }
        ladder.step(&left, None, None);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_leader_in_time(stat: &Stat, meta: &Meta) -> bool {
    let started = || Some(boot_ms()? + stat.identity.start_ticks * 10);
    let bounds = || Some((started()?, clock::parse(&meta.created_at)?));
    stat.identity.pid == meta.pgid && bounds().is_some_and(|(started, made)| started <= made + SLACK_MS)
}

/// The boot time by the current wall clock, in ms since the epoch.
fn boot_ms() -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis() as u64;
    let up = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok()?;
    now.checked_sub(up.tv_sec() as u64 * 1000 + up.tv_nsec() as u64 / 1_000_000)
}

fn has_output_open(stat: &Stat, output: &FileStat) -> bool {
    [1, 2].into_iter().any(|number| {
        let open = fs::metadata(format!("/proc/{}/fd/{number}", stat.identity.pid));
        open.is_ok_and(|open| (open.dev(), open.ino()) == (output.st_dev, output.st_ino))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_containment::pid::Pid;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::Command;

    fn meta(directory: &Path, group: i32, created_at: String) -> Meta {
        let text = format!(
            r#"{{"jobId":"j","pgid":{group},"outputFile":"o","exitFile":"e","dir":"{}","createdAt":"{created_at}"}}"#,
            directory.display()
        );
        Meta::parse(text.as_bytes(), "j").unwrap()
    }

    #[tokio::test]
    async fn a_group_counts_by_its_age_or_by_the_output_it_has_open_and_never_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let job = Job::at(directory.path());
        let output = File::create(directory.path().join(OUTPUT)).unwrap();
        let mut stranger = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let mut own = Command::new("sleep").arg("60").process_group(0).stdout(output).spawn().unwrap();
        let long_ago = "2001-01-01T00:00:00.000Z".to_string();
        let (strange, known) = (stranger.id() as i32, own.id() as i32);
        assert!(members(&meta(directory.path(), strange, long_ago.clone()), &job.directory).unwrap().is_empty());
        assert!(members(&meta(directory.path(), strange, "nonsense".into()), &job.directory).unwrap().is_empty());
        assert_eq!(members(&meta(directory.path(), strange, clock::now()), &job.directory).unwrap().len(), 1);
        let found = meta(directory.path(), known, long_ago.clone());
        assert_eq!(members(&found, &job.directory).unwrap()[0].identity.pid, Pid::new(known).unwrap());
        let second = Duration::from_secs(1);
        let (gone, _) = tokio::join!(end(&job, &found, second, second), async {
            tokio::task::spawn_blocking(move || own.wait()).await
        });
        assert!(gone.unwrap());
        assert!(end(&job, &meta(directory.path(), strange, long_ago), second, second).await.unwrap());
        assert!(stranger.try_wait().unwrap().is_none());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
