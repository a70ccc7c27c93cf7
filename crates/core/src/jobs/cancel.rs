//! Ends a job from any process: signals its supervisor and waits until it has exited.
//!
//! The signal carries the grace time (sigqueue(3)). No file is written, so a full disk or a read-only directory cannot
//! keep a job alive. Only a supervisor that is a script reads the grace time from a file, since a shell does not get the
//! value. The supervisor exits when no process is left and the control group is removed. If it is killed, its guard holds
//! the job's lock until nothing is left.

use super::overrun;
use super::status::status;
use super::store::{Job, unknown};
use crate::error::{Code, Error};
use nacre_containment::cgroup::Group;
use nacre_containment::job::layout::{GRACE, GRACE_ROOM};
use nacre_containment::job::meta::Own;
use nacre_containment::job::{CANCEL, leftover, lock};
use nacre_containment::ladder::UNKILLABLE;
use nacre_containment::pid::Identity;
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::{pidfd, signal};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a supervisor may take beyond the grace time before this process does its work. A command without isolation
/// can take its supervisor's descriptors away (prlimit(2)) or stop it.
const OVERDUE: Duration = Duration::from_millis(1500);

/// Ends all processes of a job. Resolves once all have exited, immediately if none runs.
///
/// # Errors
/// `JOB_NOT_FOUND` if its files do not name a process to signal, `JOB_RUNNING` if another package started it,
/// `ENGINE_ERROR` if it cannot be signalled or does not die.
pub async fn cancel(job: &Job, grace: Option<Duration>) -> Result<(), Error> {
    let (before, meta) = job.blocking(|job| Ok((status(job)?, job.meta()?))).await?;
    let Some(meta) = meta else {
        let unknown = || Error::new(Code::JobNotFound, format!("job '{}' has a damaged meta.json", job.id));
        return if before.alive { Err(unknown()) } else { Ok(()) };
    };
    let default = meta.own.as_ref().map_or(5000, |own| own.grace_ms);
    let grace = grace.unwrap_or(Duration::from_millis(default));
    let gone = match &meta.own {
        None if before.alive => {
            let message = format!("job '{}' was started by another package: cancel it with that package", job.id);
            return Err(Error::new(Code::JobRunning, message));
        }
        None => true,
        Some(own) if !before.alive => sweep(job, own).await?,
        Some(own) if !own.is_of_this_namespace() => return Err(failed(job, "it runs in another pid namespace")),
        Some(own) => {
            let reason = |error: io::Error| failed(job, &error.to_string());
            if own.mark.is_some() {
                // Without the file, the supervisor takes the time given at the start, and is overrun before.
                let asked = move |job: &Job| write_grace(job, grace).map_err(|error| unknown(&job.id, &error));
                let _ = job.blocking(asked).await;
            }
            let mut ended = end(own, grace).await.map_err(reason)?;
            if !ended {
                let known = own.clone();
                let group = job.blocking(move |job| group_of(job, &known)).await?;
                ended = overrun::end(own, group, UNKILLABLE).await.map_err(reason)?;
            }
            ended && sweep(job, own).await?
        }
    };
    if gone { Ok(()) } else { Err(failed(job, "some of its processes survive SIGKILL")) }
}

fn failed(job: &Job, why: &str) -> Error {
    Error::new(Code::EngineError, format!("job '{}' cannot be cancelled: {why}", job.id))
}

/// Writes the grace time where a script looks for it, in hundredths of a second.
fn write_grace(job: &Job, grace: Duration) -> io::Result<()> {
    let [temporary, path] = [GRACE_ROOM, GRACE].map(|name| leftover::within(&job.directory, name));
    let _ = fs::remove_file(&temporary);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
    writeln!(file, "{}", grace.as_millis().div_ceil(10))?;
    fs::rename(temporary, path)
}

/// Signals the supervisor and waits for its end. False if it is overdue.
///
/// The race with a reused pid: the pidfd is opened first and the identity checked afterwards, so the signal can only reach
/// the checked process. Without pidfds a window of microseconds remains.
async fn end(own: &Own, grace: Duration) -> io::Result<bool> {
    let supervisor = own.identity();
    // A script polls, and looks for processes by starting programs.
    let overdue = if own.mark.is_some() { UNKILLABLE } else { OVERDUE };
    let give_up = Instant::now() + grace + overdue;
    let held = match pidfd::open(supervisor.pid) {
        Ok(fd) => Some(fd),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(true),
        Err(_) => None,
    };
    if !proc_table::is_alive(supervisor)? {
        return Ok(true);
    }
    send_signal(held.as_ref(), supervisor, CANCEL, grace)?;
    send_signal(held.as_ref(), supervisor, libc::SIGCONT, grace)?;
    // A stopped guard would not notice that the supervisor ends.
    if let Some(guard) = overrun::guard_of(own)? {
        signal::send_to(guard, libc::SIGCONT)?;
    }
    let watched = held.map(crate::sys::watch).transpose()?;
    while proc_table::is_alive(supervisor)? {
        if Instant::now() > give_up {
            return Ok(false);
        }
        match &watched {
            Some(fd) => {
                let left = give_up.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
                let _ = tokio::time::timeout(left, fd.readable()).await;
            }
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    Ok(true)
}

fn send_signal(held: Option<&OwnedFd>, to: Identity, signal: i32, grace: Duration) -> io::Result<()> {
    let value = i32::try_from(grace.as_millis()).unwrap_or(i32::MAX);
    signal::or_gone(signal::queue(to.pid, held.map(AsFd::as_fd), signal, value as u64))
}

/// Ends what a killed supervisor has left, if its guard was killed too: the processes of its control group, or those with
/// the mark of a script. True once all have exited.
///
/// # Errors
/// `ENGINE_ERROR` if the work on its files fails.
pub async fn sweep(job: &Job, own: &Own) -> Result<bool, Error> {
    let give_up = Instant::now() + UNKILLABLE;
    loop {
        let own = own.clone();
        let is_gone = job.blocking(move |job| {
            let failed = |error| unknown(&job.id, &error);
            if !own.is_of_this_boot().map_err(failed)? {
                return Ok(true);
            }
            // A guard that is at work kills and reaps these processes itself.
            if lock::is_held(&job.directory).map_err(failed)? {
                return Ok(false);
            }
            if let Some(mark) = &own.mark {
                return kill_marked(mark).map_err(failed);
            }
            let Some(path) = group_of(job, &own)? else { return Ok(true) };
            let group = Group::at(&path);
            let _ = group.kill();
            Ok(group.remove().is_ok())
        });
        if is_gone.await? {
            return Ok(true);
        }
        if Instant::now() > give_up {
            return Ok(false);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Kills the processes that a script's supervisor has marked in their environment. True if there are none.
fn kill_marked(mark: &str) -> io::Result<bool> {
    let entry = format!("NACRE_JOB={mark}");
    let mut found = Vec::new();
    for stat in proc_table::scan()?.into_iter().filter(Stat::is_running) {
        if proc_table::carries(stat.identity.pid, &entry)? {
            found.push(stat);
        }
    }
    for stat in &found {
        signal::send_to(stat.identity, libc::SIGKILL)?;
    }
    Ok(found.is_empty())
}

/// The control group of a job, if it has one.
///
/// Its path comes from a file, so three checks precede any write: the path is in a control group hierarchy, no
/// symlink leads elsewhere, and the name is the one that the job's supervisor gave the group.
///
/// # Errors
/// `ENGINE_ERROR` if that cannot be looked up.
fn group_of(job: &Job, own: &Own) -> Result<Option<PathBuf>, Error> {
    let Some(path) = &own.cgroup else { return Ok(None) };
    let found = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.and_then(|path| Ok((statfs(&path)?.filesystem_type() == CGROUP2_SUPER_MAGIC, path))),
    };
    let (is_group, path) = found.map_err(|error| unknown(&job.id, &error))?;
    let name = format!("nacre-job-{}-{}", own.pid, job.id);
    Ok((path.file_name().is_some_and(|last| last == name.as_str()) && is_group).then_some(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_containment::job::meta::{boot_id, pid_namespace};
    use nacre_containment::pid::Pid;
    use std::os::unix::fs::symlink;

    fn own(cgroup: PathBuf) -> Own {
        let pid = Pid::new(40).unwrap();
        Own {
            pid,
            start_time: 7,
            boot_id: boot_id().unwrap().into(),
            pid_namespace: pid_namespace().into(),
            command_pid: pid,
            mark: None,
            cgroup: Some(cgroup),
            command: "make".into(),
            cwd: "/".into(),
            timeout_ms: None,
            grace_ms: 5000,
            limits: nacre_containment::limits::Limits::default(),
            open_files: None,
        }
    }

    /// Writing to the FIFO would block the caller.
    #[tokio::test]
    async fn a_directory_that_is_no_control_group_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let job = Job::at(root.path());
        let forged = root.path().join("nacre-job-40-j");
        fs::create_dir(&forged).unwrap();
        nix::unistd::mkfifo(&forged.join("cgroup.kill"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(sweep(&job, &own(forged.clone())).await.unwrap());
        assert!(forged.exists());
        let link = root.path().join("elsewhere/nacre-job-40-j");
        fs::create_dir(root.path().join("elsewhere")).unwrap();
        symlink("/sys/fs/cgroup", &link).unwrap();
        assert_eq!(group_of(&job, &own(link)).unwrap(), None);
    }
}
