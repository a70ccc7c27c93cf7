//! The results of commands, and the order in which callers get them.
//!
//! Some results need work that may block, and must not keep the session from its other tasks. Later results wait for them.

use super::observed::show_end;
use super::{EndedCommand, Foreground, ForegroundCommand};
use crate::error::{Code, Error};
use crate::exec::{By, ExecRequest, KilledBy, Outcome, SureSink};
use crate::feed::What;
use crate::limits;
use crate::session::calls::Calls;
use crate::session::confinement::Enclosure;
use crate::session::context::Context;
use crate::session::engine::SessionEngine;
use crate::session::errors;
use crate::session::timers::Timer;
use crate::shell::event::{Answer, Refusal};
use crate::shell::state::{Cause, End, Kill};
use crate::wanted::{Denial, DeniedUse};
use nacre_isolation::explain::{self, may_explain};
use nacre_isolation::git_config::GitConfigs;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

type CommandResult = Result<Outcome, Error>;

impl Foreground {
    /// Delivers the result of a command that has ended; see [`Answer::Ended`].
    pub fn conclude(
        &mut self,
        cx: &mut Context,
        calls: &mut Calls,
        engine: &mut SessionEngine,
        enclosure: &Enclosure,
        command: ForegroundCommand,
        (end, kill, restarted): (End, Option<Kill>, bool),
    ) {
        // A refused command has no result that reports it.
        let lost_state = if end == End::Refused { Vec::new() } else { engine.take_lost() };
        let outcome = Outcome { restarted, lost_state, cwd: cx.cwd.clone(), ..Outcome::default() };
        let seen = command.seen;
        let is_held = kill.is_some() || !matches!(end, End::Done { .. });
        let EndedCommand { request, mut outcome, pipes, died, answered, keeps_state } =
            command.finish(outcome, is_held);
        let killer = calls.answered(request.id);
        self.keep_pipes(cx, pipes);
        // Those of a command whose caller has its result belong to the next one.
        let answered_by_session = answered.is_none();
        let configs = enclosure.configs().filter(|configs| answered_by_session && configs.have_changed());
        match answered {
            Some(answered) => {
                (outcome.duration, outcome.dropped) = (answered.duration, answered.dropped);
                outcome.deny(answered.denied);
            }
            None => {
                enclosure.newcomers().into_iter().for_each(|newcomers| newcomers.look());
                self.pace.ended(outcome.duration);
                outcome.deny(enclosure.denials().map(|denials| denials.end_command()).unwrap_or_default());
            }
        }
        (outcome.exit_code, outcome.signal) = match (end, died) {
            (End::Done { status, .. }, _) => (Some(status), None),
            (End::Died, Some((code, signal))) => (code.or(signal.map(|signal| 128 + signal)), signal),
            _ => (None, None),
        };
        if matches!(end, End::Done { .. }) || died.is_some() && end == End::Died {
            self.status = outcome.exit_code.unwrap_or(0) as u64;
        }
        outcome.killed_by = match kill.map(|kill| kill.cause) {
            Some(Cause::Timeout) => Some(By::Timeout.into()),
            Some(Cause::OutputLimit) => Some(By::OutputLimit.into()),
            Some(Cause::Cancel) => killer,
            None => (end == End::Closed).then_some(By::Session.into()),
        };
        if let Some(kill) = kill {
            outcome.timed_out = kill.cause == Cause::Timeout;
            let is_limited = outcome.killed_by.as_ref().is_some_and(|killer| killer.by == By::Budget);
            outcome.cancelled = kill.cause == Cause::Cancel && !is_limited;
            // A command that ended by itself at the same moment keeps its status.
            if !matches!(end, End::Done { exited: false, .. }) {
                let signal = if kill.escalated || kill.shell_killed { libc::SIGKILL } else { self.ladder.signal };
                (outcome.exit_code, outcome.signal) = (None, Some(signal));
            }
        }
        cx.timers.clear(Timer::Output);
        show_end(cx, request.id, &outcome, seen, keeps_state);
        tracing::debug!(
            log = cx.config.log.id(),
            session = %cx.config.id,
            duration_us = outcome.duration.as_micros() as u64,
            exit_code = ?outcome.exit_code,
            signal = ?outcome.signal,
            "command ended"
        );
        let has_failed = answered_by_session && outcome.exit_code != Some(0);
        let is_merged = request.merge_output || request.terminal.is_some();
        let printed = if is_merged { &outcome.stdout } else { &outcome.stderr };
        if has_failed {
            for limit in limits::reached(printed, cx.config.limits) {
                let denial = Denial::from(DeniedUse::Limit(limit));
                cx.happens(What::Denied(denial.clone()));
                outcome.denials.push(denial);
            }
        }
        let is_explained = has_failed && enclosure.explains() && may_explain(printed);
        let judgement = is_explained.then(|| enclosure.judgement(cx.config.user.as_ref())).flatten();
        let explain = judgement.map(|judgement| {
            let (printed, command) = (printed.to_vec(), request.command.shown());
            let directories = [request.cwd.clone().unwrap_or_else(|| cx.cwd.clone()), outcome.cwd.clone()];
            move || judgement.printed(&printed, &command, directories)
        });
        let with = |error: Error, outcome| Err(Error { outcome: Some(Box::new(outcome)), ..error });
        let has_exited = kill.is_none() && matches!(end, End::Died | End::Done { exited: true, .. });
        let result = match end {
            End::Refused => {
                let error = errors::refused(cx, self.refused.take(), request.cwd.as_deref(), "command");
                return self.deliver(request.sink, Err(error));
            }
            End::SupervisorGone => {
                let message = format!("the supervisor of session '{}' died; its processes were killed", cx.config.id);
                with(Error::new(Code::EngineError, message), outcome)
            }
            End::Closed => with(cx.ended_error(), outcome),
            _ if has_exited && !cx.config.survive_exit => {
                with(errors::terminated(&cx.config.id, outcome.exit_code), outcome)
            }
            _ => Ok(outcome),
        };
        match (configs, explain) {
            (None, None) => self.deliver(request.sink, result),
            (configs, explain) => self.complete(cx, configs, explain, request.sink, result),
        }
    }

    /// Answers a command that never ran.
    pub fn conclude_unrun(
        &mut self,
        cx: &Context,
        request: Box<ExecRequest>,
        killer: Option<KilledBy>,
        answer: Answer,
        error: Option<Error>,
    ) {
        let timed_out = answer == Answer::Refused(Refusal::TimedOut);
        let outcome = Outcome {
            cancelled: !timed_out,
            timed_out,
            duration: request.timeout.filter(|_| timed_out).unwrap_or_default(),
            killed_by: if timed_out { Some(By::Timeout.into()) } else { killer },
            waited_for: self.running.as_ref().filter(|_| timed_out).map(ForegroundCommand::blocker),
            cwd: cx.cwd.clone(),
            ..Outcome::default()
        };
        show_end(cx, request.id, &outcome, [0; 2], true);
        match answer {
            // It has not waited for its turn.
            Answer::Refused(Refusal::Cancelled | Refusal::TimedOut) => request.sink.finished(Ok(outcome)),
            _ => self.deliver(request.sink, Err(error.unwrap_or_else(|| cx.ended_error()))),
        }
    }

    /// Delivers a result after the earlier ones, and after work that may block: git's config is written back, and refusals are
    /// explained.
    fn complete(
        &mut self,
        cx: &Context,
        configs: Option<Arc<GitConfigs>>,
        explain: Option<impl FnOnce() -> Vec<explain::Refusal> + Send + 'static>,
        sink: SureSink,
        mut result: CommandResult,
    ) {
        let (feed, id) = (Arc::clone(&cx.config.feed), cx.config.id.clone());
        let (before, delivered) = self.next_delivery();
        tokio::spawn(async move {
            before.await;
            // A file may be on a disk that does not respond.
            let work = move || {
                let withheld = configs.map(|configs| configs.write_back()).unwrap_or_default();
                let files = explain.map(|explain| explain()).unwrap_or_default();
                let keys = withheld.iter().map(|key| DeniedUse::Config(key.clone()).into());
                let mut denials: Vec<Denial> = files.into_iter().map(Denial::from).chain(keys).collect();
                let outcome = match &mut result {
                    Ok(outcome) => Some(outcome),
                    Err(error) => error.outcome.as_deref_mut(),
                };
                if let Some(outcome) = outcome {
                    // What was observed says more.
                    denials.retain(|denial| !outcome.denials.iter().any(|known| known.is_about(denial)));
                    outcome.withheld = withheld;
                    outcome.denials.extend(denials.iter().cloned());
                }
                denials.into_iter().for_each(|denial| feed.push(&id, What::Denied(denial)));
                result
            };
            // If that fails, the caller gets an error.
            if let Ok(result) = tokio::task::spawn_blocking(work).await {
                sink.finished(result);
            }
            drop(delivered);
        });
    }

    /// Delivers a result after the earlier ones.
    pub fn deliver(&mut self, sink: SureSink, result: CommandResult) {
        if !self.awaits_delivery() {
            return sink.finished(result);
        }
        let (before, delivered) = self.next_delivery();
        tokio::spawn(async move {
            before.await;
            sink.finished(result);
            drop(delivered);
        });
    }

    /// Whether a result is still to be delivered.
    pub fn awaits_delivery(&mut self) -> bool {
        // One that has ended must not be asked again.
        self.last_delivery.take_if(|last| last.try_recv() != Err(TryRecvError::Empty));
        self.last_delivery.is_some()
    }

    /// The end of what is before, and what reports the end of the next.
    fn next_delivery(&mut self) -> (impl Future<Output = ()> + Send + use<>, oneshot::Sender<()>) {
        let (delivered, last) = oneshot::channel();
        let before = if self.awaits_delivery() { self.last_delivery.take() } else { None };
        self.last_delivery = Some(last);
        let before = async move {
            if let Some(before) = before {
                let _ = before.await;
            }
        };
        (before, delivered)
    }
}
