//! Budgets: the processor time that a command, a session or a sandbox may use in all.
//!
//! Only what has a budget is looked at: one task for the command, or for the supervisor of the session. The next look is due
//! when all processors together could have used the rest up, so a budget is exceeded by little, however large it is. While
//! nothing is used, looks become rare.

use crate::error::{Code, Error};
use crate::exec::{By, KilledBy};
use crate::hook::Hook;
use crate::process::Process;
use crate::supervisor::PidHold;
use nacre_containment::cgroup::Group;
use nacre_containment::cpu_meter::CpuMeter;
use nacre_containment::pid::Pid;
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
            let mut meter = Some(CpuMeter::of_tree(supervisor.pid(), group));
            let used_up = run_out(&budgets.budgets, &mut meter, &budgets.begins, supervisor.ended()).await;
            if let Some(budget) = used_up {
                budgets.on_used_up.call(budget);
                // What goes on until it is ended counts against the sandbox.
                supervisor.ended().await;
                let _ = charge(&mut meter, &budgets.budgets).await;
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
    let others = Box::new(move || Some([others()?, tree.spare.clone()].concat()));
    let mut meter = Some(CpuMeter::of_part(tree.guardian, tree.group, others));
    // What was used before the command counts against nothing.
    charge(&mut meter, &[]).await?;
    run_out(std::slice::from_ref(budget), &mut meter, &Notify::new(), process.wait())
        .await
        .map(|budget| budget.killer())
}

/// Looks until one of the budgets is used up. `None` once what was looked at has ended; that is charged, too.
async fn run_out<'a>(
    budgets: &'a [Arc<Budget>],
    meter: &mut Option<CpuMeter>,
    begins: &Notify,
    ended: impl Future<Output = ()>,
) -> Option<&'a Arc<Budget>> {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let (mut ended, mut wait) = (std::pin::pin!(ended), Duration::ZERO);
    loop {
        let begun = Instant::now();
        let used = charge(meter, budgets).await;
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
                let _ = charge(meter, budgets).await;
                return None;
            }
            () = sleep_until(now + wait) => continue,
            () = begins.notified() => {}
        }
        wait = wait.min(soonest);
        tokio::select! {
            () = &mut ended => {
                let _ = charge(meter, budgets).await;
                return None;
            }
            () = sleep_until((now + wait).max(Instant::now())) => {}
        }
    }
}

/// Looks, and charges what was used since the last look. Returns that; `None` if it cannot be seen. The meter is on a thread that may
/// block meanwhile.
async fn charge(meter: &mut Option<CpuMeter>, budgets: &[Arc<Budget>]) -> Option<Duration> {
    let mut moved = meter.take()?;
    let (used, moved) = tokio::task::spawn_blocking(move || (moved.used(), moved)).await.ok()?;
    *meter = Some(moved);
    let used = used?;
    budgets.iter().for_each(|budget| budget.charge(used));
    Some(used)
}
