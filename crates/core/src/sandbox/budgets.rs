//! Budgets of commands, sessions and the sandbox: where they apply, and how what has used them up is ended.

use super::{NewSession, Sandbox};
use crate::budget::{self, Budget, Limited, SessionBudgets};
use crate::exec::{KillPolicy, KilledBy};
use crate::hook::Hook;
use crate::process::Process;
use crate::session::Handle;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How processes are ended whose session has used its budget up.
const KILL: KillPolicy = KillPolicy { signal: libc::SIGTERM, grace: Duration::from_secs(5) };

/// How long a session may take to come to rest, once everything that is known of it has ended.
const SETTLING: Duration = Duration::from_secs(10);

impl Sandbox {
    /// Ends a command that is about to be queued when it has used so much processor time. `process`: the one that it can become.
    pub fn limit_command(&self, session: &str, command: u64, process: &Arc<Process>, limit: Duration) {
        let Ok(handle) = self.session(session) else { return };
        let (sandbox, id, handle) = (self.downgrade(), session.to_string(), handle.downgrade());
        let (process, budget) = (Arc::clone(process), Budget::new(Limited::Command, limit));
        let itself = Arc::clone(&process);
        let others = move || {
            let processes = sandbox.upgrade()?.processes().living_of(&id);
            let roots: Vec<_> = processes.iter().filter_map(|process| Some(process.life().birth?.pid)).collect();
            // Otherwise the next commands of the session are beside it.
            itself.is_command().then_some(roots)
        };
        // Without the engine's thread, no command runs.
        let _ = crate::runtime::spawn(async move {
            let used_up = budget::used_up_by(&process, &budget, others).await;
            if let (Some(by), Some(session)) = (used_up, handle.upgrade()) {
                session.interrupt(command, None, by);
            }
        });
    }

    /// What limits a session, if something does.
    pub(super) fn budgets(&self, new: &NewSession) -> Option<Arc<SessionBudgets>> {
        let (sandbox, id) = (self.downgrade(), new.id.clone());
        let end = move |budget: &Arc<Budget>| {
            let Some(sandbox) = sandbox.upgrade() else { return };
            let Some(handle) = sandbox.lock().open.get(&id).map(|open| open.handle.clone()) else { return };
            tokio::spawn(sandbox.end_session(handle, KILL, budget.killer()));
        };
        let budgets = new.budget.iter().chain(&self.inner.budget).cloned().collect();
        SessionBudgets::new(budgets, self.watch_disk(), Hook::new(end))
    }

    /// Ends everything in a session that has used a budget up. Its files can still be read.
    pub(super) fn end_session(
        &self,
        session: Handle,
        policy: KillPolicy,
        by: KilledBy,
    ) -> impl Future<Output = ()> + Send + use<> {
        let processes = self.processes().living_of(session.id());
        async move {
            let running = session.running().await.unwrap_or_default();
            let signal = Some(policy.signal).filter(|_| policy.grace.is_zero());
            // The last first: what is queued never runs.
            let ended = running.iter().rev().map(|command| session.kill_command(command.id, signal, by.clone()));
            for ended in ended.collect::<Vec<_>>() {
                ended.await;
            }
            let kill = |process: Arc<Process>| {
                let by = by.clone();
                tokio::spawn(async move { process.kill(by, policy).await })
            };
            for kill in processes.into_iter().map(kill).collect::<Vec<_>>() {
                let _ = kill.await;
            }
            let hold = session.hold();
            let is_held = timeout(SETTLING, hold.granted()).await.unwrap_or(false);
            // What earlier commands have left behind ends with the supervisor; the next one has the state of the shell.
            if is_held && hold.freeze(true).await.is_err_and(|busy| busy.count > 0) {
                hold.start_again();
            }
        }
    }
}
