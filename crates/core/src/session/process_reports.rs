//! Handles reports about a background process, from the process and from the supervisor.

use super::context::Session;
use super::processes::{Outlets, Stage, Starting, refuse_killed};
use crate::error::{Code, Error};
use crate::process::pump::Status;
use crate::process::{self, StartRequest};
use crate::shell::channel::Received;
use nacre_containment::pid::Identity;
use nacre_containment::tree::Tree;
use nacre_protocol::shell::Reply;
use nacre_protocol::supervisor::{LimitProblem, Order, Report};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::oneshot;

impl Session {
    /// Handles a supervisor's report about a process.
    pub(super) fn process_report(&mut self, report: Report) {
        match report {
            Report::Adopted { key, identity, group, problem } => self.adopted(key, identity, group, problem),
            Report::ProcessEnded { key, code, signal, out_of_memory, alone } => {
                let status = Status { code, signal, out_of_memory, alone };
                if let Some(Starting { stage: Stage::SettingUp { ended, .. }, .. }) =
                    self.processes.starting.get_mut(&key)
                {
                    // The process may already have reported its beginning, so its channel decides.
                    *ended = Some(status);
                } else if let Some(ended) = self.processes.living.remove(&key) {
                    let _ = ended.send(status);
                }
            }
            Report::ProcessKilled { id, found, .. } => {
                if let Some(reply) = self.processes.kills.remove(&id) {
                    let _ = reply.send(found);
                }
            }
            _ => {}
        }
    }

    fn adopted(&mut self, key: u64, root: Option<Identity>, group: Option<String>, problem: Option<LimitProblem>) {
        let Some(Starting { request, stage: Stage::Adopting { channel } }) = self.processes.take_adopting(key) else {
            return self.adopted_late(key, root.is_some());
        };
        match (root, problem) {
            (None, _) => refuse_killed(request),
            (Some(_), Some(problem)) => {
                self.drop_process(key);
                let message = format!("process '{}' cannot be limited: {problem}", request.process.id);
                request.refuse(Error::new(Code::LimitUnsupported, message));
            }
            (Some(root), None) => self.begin(key, request, channel, self.tree(key, root, group), None),
        }
    }

    /// Handles the late adoption of a process that has already been sent its command, or its earlier end.
    fn adopted_late(&mut self, key: u64, lives: bool) {
        match (self.processes.is_known(key), lives) {
            (true, true) => {}
            (false, true) => self.drop_process(key),
            // Its end was reaped before the adoption.
            (_, false) => drop(self.processes.living.remove(&key)),
        }
    }

    /// Handles a report of a starting process.
    pub(super) fn handle_process_report(&mut self, key: u64, received: Received) {
        let Some(Starting { request, stage }) = self.processes.starting.remove(&key) else { return };
        let Stage::SettingUp { tree, outlets, ended } = stage else { return };
        match received {
            Received::Reply(Reply::Refused { reason, about, .. }) => {
                let error = self.refused(Some((reason, about)), request.new.cwd.as_deref(), "process");
                request.refuse(error);
            }
            Received::Reply(_) => {
                let process = Arc::clone(&request.process);
                self.settle(key, request, outlets, tree);
                self.drop_if_doomed(key, &process);
                if let Some(status) = ended
                    && let Some(ended) = self.processes.living.remove(&key)
                {
                    let _ = ended.send(status);
                }
            }
            Received::Closed { .. } => refuse_killed(request),
        }
    }

    /// Completes the start of a process.
    pub(super) fn settle(&mut self, key: u64, request: StartRequest, outlets: Outlets, tree: Tree) {
        let (ended, end) = oneshot::channel();
        self.processes.living.insert(key, ended);
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, process = %request.process.id, pid = %tree.root.pid, "process started");
        process::pump(Arc::clone(&request.process), outlets, end);
        request.process.born(key, process::Birth { pid: tree.root.pid, at: SystemTime::now(), tree });
        if let Some(timeout) = request.new.timeout {
            process::end_after(Arc::clone(&request.process), timeout, request.new.kill);
        }
        request.starter.answer(Ok(()));
    }

    /// Kills a process whose kill was requested before it began, now that the supervisor has adopted it.
    pub(super) fn drop_if_doomed(&self, key: u64, process: &process::Process) {
        if process.is_doomed() {
            self.drop_process(key);
        }
    }

    /// Kills a process that no caller waits for.
    pub(super) fn drop_process(&self, key: u64) {
        if let Some(supervisor) = &self.link.supervisor {
            supervisor.order(&Order::KillProcess { id: 0, key, signal: libc::SIGKILL, grace_ms: 0 });
        }
    }
}
