//! Recovery after the supervisor's death: saves the last state and kills the remaining processes of the session.
//!
//! The shell dies with the supervisor (parent-death signal). The standby does not, and has the state: a fork of it
//! writes the state to a file. Then everything that belongs to the session is killed, awaited and, if no other process
//! does it, reaped.

use super::background::Lost;
use super::internal::Internal;
use super::saved;
use crate::shell::channel::Channel;
use crate::supervisor::PidHold;
use crate::sys;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat};
use nacre_containment::session_mark;
use nacre_containment::signal;
use nacre_protocol::files::HELPER_NAME;
use std::collections::HashSet;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

/// Maximum time for SIGKILL to take effect, including writeback and unmapping.
const DYING: Duration = Duration::from_secs(2);
/// How long to wait until a group whose last member has ended can be removed.
const EMPTYING: Duration = Duration::from_millis(100);
/// Time limit for a files helper to remove its temporary files.
const HELPER_ENDING: Duration = Duration::from_millis(500);
/// Number of consecutive checks that must find nothing; see [`sweep`].
const EMPTY_LOOKS: u32 = 2;
/// Time between two checks. The processes are not children of this process, so they can only be polled.
const LOOK: Duration = Duration::from_micros(200);
/// Time between two checks while this process has too many open files to check anything.
const BLIND: Duration = Duration::from_millis(50);

/// A supervisor, and how everything below it is found when it has ended.
#[derive(Clone)]
pub(super) struct SupervisorTree {
    supervisor: PidHold,
    group: Option<Group>,
    /// The mark of everything below the supervisor.
    mark: Option<u64>,
    /// Shells that may have begun a session of their own.
    leaders: Vec<Identity>,
}

impl SupervisorTree {
    /// That of a supervisor, which may also live on, and of the session's control group, if the supervisor creates one.
    pub(super) fn new(supervisor: PidHold, group: Option<Group>, mark: Option<u64>) -> Self {
        Self { supervisor, group, mark, leaders: Vec::new() }
    }

    /// A shell begins a session of its own, unless it leads one already.
    pub(super) fn add_leader(&mut self, shell: Identity) {
        if !self.leaders.contains(&shell) {
            self.leaders.push(shell);
        }
    }

    /// The supervisor.
    pub(super) fn supervisor(&self) -> &PidHold {
        &self.supervisor
    }

    /// The session's control group.
    pub(super) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }
}

/// Starts the task; it reports [`Internal::Salvaged`].
pub(super) fn start(
    standby: Option<(Channel, Pid)>,
    tree: Option<SupervisorTree>,
    lost: Lost,
    report: UnboundedSender<Internal>,
) {
    tokio::spawn(async move {
        let saved = match &standby {
            Some((channel, _)) => match saved::ask(channel, u64::MAX, 0) {
                Ok(asked) => asked.read().await,
                Err(_) => None,
            },
            None => None,
        };
        let has_lost = standby.is_some() && saved.is_none();
        drop(standby);
        let of = tree.as_ref().map(|tree| tree.supervisor.pid());
        if let Some(tree) = tree {
            sweep(tree).await;
        }
        drop(lost);
        let _ = report.send(Internal::Salvaged { of, checkpoint: saved, has_lost });
    });
}

/// Waits until a supervisor without a link has ended everything below it. A stopped one cannot, so what is left is killed
/// in its place.
pub(super) async fn await_end(tree: SupervisorTree) {
    let _ = timeout(DYING, tree.supervisor.ended()).await;
    sweep(tree).await;
}

/// Kills the members of the session's control group, whatever still belongs to the session that the supervisor led, or one
/// of its shells, and whatever has the mark of the supervisor. Only a process that has left all three is missed.
///
/// The race: a process forks after a check of the process table and before its SIGKILL. The kernel closes the
/// supervisor's socket before it kills the shell, so the shell may be starting a command at that moment. The check does
/// not show that child. But a process with a pending SIGKILL cannot fork: a fork in progress either fails or is in the
/// process table once the signal has been sent. The next check therefore shows the child, and checks are repeated until
/// they find nothing. Everything that they find belongs to this session, because the supervisor's pid is held.
///
/// The pid of an ended shell is taken as long as the session that it led has processes. Only if that had none left, and
/// another process then got the same pid, began a session, and ended before the check, would its session be taken for
/// that of the shell.
///
/// One empty check is not enough. A check lists the processes first and reads them afterwards. If a listed shell forks
/// and dies before it is read, the check shows neither the shell nor its child, which was not listed. The next check
/// lists the child. Only a process that forks and ends by itself within each check could still be missed, and only
/// without a control group, whose kill is atomic against forks.
async fn sweep(tree: SupervisorTree) {
    let SupervisorTree { supervisor, group, .. } = &tree;
    // Usually the supervisor is dead, unless something else ended the connection.
    let _ = signal::send_to_child(supervisor.pid(), libc::SIGKILL);
    if let Some(group) = group {
        let _ = group.kill();
    }
    await_helper(supervisor).await;
    let mut give_up = Instant::now() + DYING;
    let mut empty_looks = 0;
    while empty_looks < EMPTY_LOOKS && Instant::now() < give_up {
        match kill_members(&tree, give_up).await {
            Ok(Found::Nothing) => empty_looks += 1,
            Ok(Found::Some) => empty_looks = 0,
            Err(error) if is_blind(&error) => {
                empty_looks = 0;
                sleep(BLIND).await;
                give_up = Instant::now() + DYING;
            }
            Err(_) => break,
        }
    }
    let give_up = Instant::now() + EMPTYING;
    while group.as_ref().is_some_and(|group| group.remove().is_err()) && Instant::now() < give_up {
        sleep(LOOK).await;
    }
}

/// At the limit of open files, this process can neither look nor signal.
fn is_blind(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

enum Found {
    Nothing,
    Some,
}

/// Looks for remaining processes once, kills them and waits for their ends.
async fn kill_members(tree: &SupervisorTree, give_up: Instant) -> io::Result<Found> {
    let looked = tree.clone();
    let mut left = tokio::task::spawn_blocking(move || members(&looked)).await??;
    remove_ended(&mut left)?;
    if left.is_empty() {
        return Ok(Found::Nothing);
    }
    if let Some(group) = &tree.group {
        let _ = group.kill();
    }
    kill_and_wait(left, give_up).await?;
    Ok(Found::Some)
}

/// Waits until the files helper has removed its temporary files, which it does when the supervisor dies. A program with
/// the same name can only delay the end of the session by this time.
async fn await_helper(supervisor: &PidHold) {
    let give_up = Instant::now() + HELPER_ENDING;
    while Instant::now() < give_up {
        let held = supervisor.clone();
        let is_helper = move |stat: &Stat| {
            stat.session == held.pid().raw() && stat.is_running() && stat.name.starts_with(HELPER_NAME.to_bytes())
        };
        let look = move || proc_table::scan().is_ok_and(|all| !all.iter().any(is_helper));
        if tokio::task::spawn_blocking(look).await.unwrap_or(true) {
            return;
        }
        sleep(LOOK).await;
    }
}

/// The remaining processes of the session, without the supervisor.
fn members(SupervisorTree { supervisor, group, mark, leaders }: &SupervisorTree) -> io::Result<Vec<Identity>> {
    let mut listed: HashSet<Pid> = match group {
        Some(group) => match group.members_below() {
            Err(error) if is_blind(&error) => return Err(error),
            // Those that belong to the session by its number are still found.
            listed => listed.unwrap_or_default().into_iter().collect(),
        },
        None => HashSet::new(),
    };
    let mut all = proc_table::scan()?;
    let mut sessions = vec![supervisor.pid().raw()];
    // Another process may have the pid of an ended shell.
    let is_taken =
        |leader: &Identity| all.iter().any(|stat| stat.identity.pid == leader.pid && stat.identity != *leader);
    sessions.extend(leaders.iter().filter(|leader| !is_taken(leader)).map(|leader| leader.pid.raw()));
    for Identity { pid, .. } in all.iter().map(|stat| stat.identity) {
        if let Some(mark) = *mark
            && session_mark::has(pid, mark)?
        {
            listed.insert(pid);
        }
    }
    all.retain(|stat| sessions.contains(&stat.session) || listed.contains(&stat.identity.pid));
    Ok(all.iter().map(|stat| stat.identity).filter(|identity| identity.pid != supervisor.pid()).collect())
}

async fn kill_and_wait(mut dying: Vec<Identity>, give_up: Instant) -> io::Result<()> {
    let mut unsent = Ok(());
    for identity in &dying {
        // What may not be signalled is waited for.
        let sent = signal::send_to(*identity, libc::SIGKILL);
        unsent = unsent.and(sent.or_else(|error| if is_blind(&error) { Err(error) } else { Ok(()) }));
    }
    unsent?;
    while !dying.is_empty() && Instant::now() < give_up {
        remove_ended(&mut dying)?;
        sleep(LOOK).await;
    }
    Ok(())
}

/// Removes ended processes from the list.
fn remove_ended(dying: &mut Vec<Identity>) -> io::Result<()> {
    let pids: Vec<i32> = dying.iter().map(|identity| identity.pid.raw()).collect();
    let mut left = Vec::new();
    for identity in dying.iter() {
        if !is_gone(*identity, &pids)? {
            left.push(*identity);
        }
    }
    *dying = left;
    Ok(())
}

/// Whether a killed process has been reaped. If this process is init of its pid namespace or a subreaper, a killed
/// process may become its child. It is then reaped here, because the runtime does not track it. A process whose parent
/// is also dying may still become such a child.
fn is_gone(identity: Identity, dying: &[i32]) -> io::Result<bool> {
    let stat = Stat::look(identity.pid)?;
    Ok(match stat.filter(|stat| stat.identity == identity) {
        None => true,
        Some(stat) if stat.is_running() => false,
        Some(stat) if stat.parent == std::process::id() as i32 => {
            sys::reap(identity.pid);
            true
        }
        Some(stat) => !dying.contains(&stat.parent),
    })
}
