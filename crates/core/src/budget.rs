//! Budgets: the processor time that a command, a session or a sandbox may use in all.
//!
//! Only what has a budget is looked at: one task for the command, or for the supervisor of the session. The next look is due
//! when all processors together could have used the rest up, so a budget is exceeded by little, however large it is. While
//! nothing is used, looks become rare.
//!
//! A control group counts everything that was ever in it. Without groups, the kernel adds the time of an ended process to the
//! process that reaps it, and the supervisor reaps the orphans of its session. So the sum over the living processes and the
//! supervisor misses nothing of the session. A command has used what that sum has grown by, without the processes that are not
//! of it.

use crate::error::{Code, Error};
use crate::exec::{By, KilledBy};
use crate::hook::Hook;
use crate::process::Process;
use crate::supervisor::PidHold;
use nacre_containment::cgroup::Group;
use nacre_containment::pid::{Identity, Pid};
use nacre_containment::proc_table::{self, Stat, ticks};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(10);
/// The longest time between two looks while nothing is used, if the rest of the budget does not last longer.
const LONGEST_IDLE: Duration = Duration::from_secs(1);
/// Looks take at most one part in so many of a processor.
const SHARE: u32 = 20;

/// What has a budget.
#[derive(Clone, Debug)]
pub enum Limited {
    /// One command.
    Command,
    /// The session with this id.
    Session(String),
    /// All sessions of the sandbox together.
    Sandbox,
}

impl fmt::Display for Limited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command => formatter.write_str("the command"),
            Self::Session(id) => write!(formatter, "session '{id}'"),
            Self::Sandbox => formatter.write_str("the sandbox"),
        }
    }
}

/// A budget of processor time, and what of it was used.
#[derive(Debug)]
pub struct Budget {
    owner: Limited,
    limit: Duration,
    /// Microseconds.
    used: AtomicU64,
}

impl Budget {
    /// A budget of which nothing was used.
    pub fn new(owner: Limited, limit: Duration) -> Arc<Self> {
        Arc::new(Self { owner, limit, used: AtomicU64::new(0) })
    }

    /// What is left of it.
    fn left(&self) -> Duration {
        self.limit.saturating_sub(Duration::from_micros(self.used.load(Ordering::Relaxed)))
    }

    fn charge(&self, used: Duration) {
        self.used.fetch_add(used.as_micros() as u64, Ordering::Relaxed);
    }

    /// What ends those who have used it up.
    pub(crate) fn killer(&self) -> KilledBy {
        let reason = format!("budget.cpuMs of {} is {}", self.owner, self.limit.as_millis());
        KilledBy { by: By::Budget, reason: Some(reason) }
    }

    /// The error of what begins too late.
    fn error(&self) -> Error {
        let (owner, limit) = (&self.owner, self.limit.as_millis());
        let remedy = if matches!(owner, Limited::Sandbox) { "sandbox" } else { "session" };
        let message = format!(
            "{owner} has used up its budget.cpuMs of {limit}, and runs nothing more: create another {remedy}, or give it \
             a larger budget"
        );
        Error::new(Code::BudgetExceeded, message)
    }
}

/// The budgets of a session: its own and that of its sandbox.
pub struct SessionBudgets {
    budgets: Vec<Arc<Budget>>,
    /// Wakes the task that looks, since something begins.
    begins: Notify,
    /// Wakes the task that looks at the disk.
    writes: Option<Arc<Notify>>,
    /// Receives the first budget that is used up.
    on_used_up: Hook<Arc<Budget>>,
}

impl SessionBudgets {
    /// `None` if nothing is limited: then nothing looks.
    pub fn new(
        budgets: Vec<Arc<Budget>>,
        writes: Option<Arc<Notify>>,
        on_used_up: Hook<Arc<Budget>>,
    ) -> Option<Arc<Self>> {
        let is_limited = !budgets.is_empty() || writes.is_some();
        is_limited.then(|| Arc::new(Self { budgets, begins: Notify::new(), writes, on_used_up }))
    }

    /// Announces that a command or a process begins.
    ///
    /// # Errors
    /// `BUDGET_EXCEEDED`: it must not.
    pub fn begin(&self) -> Result<(), Error> {
        self.begins.notify_one();
        self.writes.iter().for_each(|writes| writes.notify_one());
        self.budgets.iter().find(|budget| budget.left().is_zero()).map_or(Ok(()), |budget| Err(budget.error()))
    }

    /// Looks at everything below a supervisor, until that has ended. Its pid is held meanwhile, so that what has ended since the
    /// last look counts, too.
    pub(crate) fn watch(self: &Arc<Self>, supervisor: PidHold, group: Option<Group>) {
        if self.budgets.is_empty() {
            return;
        }
        let budgets = Arc::clone(self);
        tokio::spawn(async move {
            let mut meter = Meter::new(supervisor.pid(), group, Counted::Session);
            let used_up = run_out(&budgets.budgets, &mut meter, &budgets.begins, supervisor.ended()).await;
            if let Some(budget) = used_up {
                budgets.on_used_up.call(budget);
                // What goes on until it is ended counts against the sandbox.
                supervisor.ended().await;
                let _ = meter.charge(&budgets.budgets).await;
            }
        });
    }
}

/// Resolves once a command, or the process that it has become, has used its budget up; `None` if that ends before. `others`: the
/// roots of the processes of its session that are not of it; `None` if they cannot be told from it any more.
pub(crate) async fn used_up_by(
    process: &Process,
    budget: &Arc<Budget>,
    others: impl Fn() -> Option<Vec<Pid>> + Send + Sync + 'static,
) -> Option<KilledBy> {
    let tree = process.birth().await?.tree;
    let roots = Box::new(move || Some([others()?, tree.spare.clone()].concat()));
    let counted = match tree.group {
        Some(_) => Counted::Group,
        None => Counted::Command(Others { roots, seen: HashMap::new() }),
    };
    let mut meter = Meter::new(tree.guardian, tree.group, counted);
    // What was used before the command counts against nothing.
    meter.charge(&[]).await?;
    run_out(std::slice::from_ref(budget), &mut meter, &Notify::new(), process.wait())
        .await
        .map(|budget| budget.killer())
}

/// Looks until one of the budgets is used up. `None` once what was looked at has ended; that is charged, too.
async fn run_out<'a>(
    budgets: &'a [Arc<Budget>],
    meter: &mut Meter,
    begins: &Notify,
    ended: impl Future<Output = ()>,
) -> Option<&'a Arc<Budget>> {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let (mut ended, mut wait) = (std::pin::pin!(ended), Duration::ZERO);
    loop {
        let begun = Instant::now();
        let used = meter.charge(budgets).await;
        if let Some(budget) = budgets.iter().find(|budget| budget.left().is_zero()) {
            return Some(budget);
        }
        let left = budgets.iter().map(|budget| budget.left()).min().unwrap_or_default();
        let soonest = (left / processors).max(SHORTEST).max(begun.elapsed() * SHARE);
        wait = match used {
            Some(Duration::ZERO) | None => (wait * 2).clamp(soonest, soonest.max(LONGEST_IDLE)),
            Some(_) => soonest,
        };
        let now = Instant::now();
        tokio::select! {
            () = &mut ended => {
                let _ = meter.charge(budgets).await;
                return None;
            }
            () = sleep_until(now + wait) => continue,
            () = begins.notified() => {}
        }
        wait = wait.min(soonest);
        tokio::select! {
            () = &mut ended => {
                let _ = meter.charge(budgets).await;
                return None;
            }
            () = sleep_until((now + wait).max(Instant::now())) => {}
        }
    }
}

/// Reads the processor time of a session, or of a command in it.
struct Meter {
    supervisor: Pid,
    /// Its group, if it has one.
    group: Option<Group>,
    counted: Counted,
    /// What the last look has found.
    last: Duration,
}

/// What a meter counts.
enum Counted {
    /// Everything below the supervisor.
    Session,
    /// The group, in which only the command runs.
    Group,
    /// Everything below the supervisor that is not of something else.
    Command(Others),
}

/// The processes of a session that are not of a command.
struct Others {
    /// The roots of their trees.
    roots: Box<dyn Fn() -> Option<Vec<Pid>> + Send + Sync>,
    /// Their parents, and their clock ticks with those of what they have reaped. Once the supervisor has reaped one, its own count
    /// has these, too.
    seen: HashMap<Identity, (i32, u64)>,
}

impl Meter {
    fn new(supervisor: Pid, group: Option<Group>, counted: Counted) -> Self {
        Self { supervisor, group, counted, last: Duration::ZERO }
    }

    /// Looks, and charges what was used since the last look. Returns that; `None` if it cannot be seen.
    async fn charge(&mut self, budgets: &[Arc<Budget>]) -> Option<Duration> {
        let (supervisor, group) = (self.supervisor, self.group.clone());
        let mut counted = std::mem::replace(&mut self.counted, Counted::Session);
        let looked = tokio::task::spawn_blocking(move || (counted.look(supervisor, group.as_ref()), counted));
        let (total, counted) = looked.await.ok()?;
        self.counted = counted;
        let used = total?.saturating_sub(self.last);
        self.last += used;
        budgets.iter().for_each(|budget| budget.charge(used));
        Some(used)
    }
}

impl Counted {
    /// The time so far.
    fn look(&mut self, supervisor: Pid, group: Option<&Group>) -> Option<Duration> {
        let in_group = group.and_then(Group::cpu_time);
        match self {
            Self::Session => in_group.or_else(|| Some(ticks(below(supervisor)?.0))),
            Self::Group => in_group,
            Self::Command(others) => {
                let (all, members) = below(supervisor)?;
                Some(ticks(all.saturating_sub(others.ticks(supervisor, &members)?)))
            }
        }
    }
}

impl Others {
    fn ticks(&mut self, supervisor: Pid, members: &[Stat]) -> Option<u64> {
        self.seen.retain(|_, (parent, _)| *parent == supervisor.raw());
        let mut trees: HashSet<Pid> = (self.roots)()?.into_iter().collect();
        // Parents come first.
        for stat in members {
            let of_tree = Pid::new(stat.parent).is_some_and(|parent| trees.contains(&parent));
            if of_tree || trees.contains(&stat.identity.pid) {
                trees.insert(stat.identity.pid);
                self.seen.insert(stat.identity, (stat.parent, stat.cpu_ticks + stat.reaped_ticks));
            }
        }
        Some(self.seen.values().map(|(_, ticks)| ticks).sum())
    }
}

/// The clock ticks of everything below a supervisor, and what lives of it. The supervisor may have ended.
fn below(supervisor: Pid) -> Option<(u64, Vec<Stat>)> {
    let reaped = Stat::read(supervisor)?.reaped_ticks;
    let members = proc_table::descendants(&[supervisor], &HashSet::new()).ok()?;
    let living: u64 = members.iter().map(|stat| stat.cpu_ticks + stat.reaped_ticks).sum();
    Some((reaped + living, members))
}
