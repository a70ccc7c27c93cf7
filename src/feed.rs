//! The native class's methods for the feed of events.

use crate::emitter::{self, request};
use crate::process::{self, since_epoch};
use crate::sandbox::NativeSandbox;
use crate::settle::Pending;
use crate::types::{NativeDenial, NativeFeed, NativeFeedEvent, NativeRequest};
use nacre_core::feed::{Batch, FeedEvent, What};
use nacre_core::runtime;
use nacre_core::wanted::Wanted;
use napi::bindgen_prelude::{Buffer, Result};
use napi_derive::napi;
use std::sync::Arc;

#[napi]
impl NativeSandbox {
    /// The number of the last event. The caller counts as a reader of what follows.
    #[napi(catch_unwind)]
    pub fn last_event(&self) -> f64 {
        let feed = self.sandbox.feed();
        feed.watch();
        feed.last() as f64
    }

    /// Reads at most `most` events after `since`, for which it waits.
    #[napi(catch_unwind)]
    pub fn read_events(&self, id: u32, since: f64, most: u32) -> Result<Pending<Option<NativeFeed>>> {
        let (feed, wait) = (Arc::clone(self.sandbox.feed()), self.waits.open(id));
        self.settle(id, async move {
            let batch = wait.run(feed.read(since as u64, most as usize)).await.transpose()?;
            Ok(batch.map(shown))
        })
    }

    /// What was refused in a session.
    #[napi(catch_unwind)]
    pub fn denials(&self, id: u32, session_id: String) -> Result<Pending<Vec<NativeDenial>>> {
        runtime::handle()?;
        let (feed, asking) = (Arc::clone(self.sandbox.feed()), self.sandbox.judgement(&session_id));
        self.settle(id, async move {
            if let Some(judgement) = asking.await? {
                judgement.receive();
            }
            Ok(feed.refusals(&session_id).into_iter().map(emitter::denial).collect())
        })
    }

    /// Adds that a service has been started again.
    #[napi(catch_unwind)]
    pub fn service_restarted(&self, session_id: String, process_id: String, restarts: u32) {
        self.sandbox.service_restarted(&session_id, process_id, restarts);
    }
}

fn shown(batch: Batch) -> NativeFeed {
    NativeFeed {
        events: batch.events.into_iter().map(event).collect(),
        lost: batch.lost as f64,
        is_over: batch.is_over,
    }
}

/// The event, about what a program wanted.
fn about(wanted: Wanted, event: NativeFeedEvent) -> NativeFeedEvent {
    NativeFeedEvent { target: Some(wanted.target), request: wanted.request.map(request), ..event }
}

fn event(event: FeedEvent) -> NativeFeedEvent {
    let at = since_epoch(event.at);
    let new = |kind: &str, id: String| NativeFeedEvent {
        cursor: event.number as f64,
        time: at,
        session_id: event.session.clone(),
        kind: kind.into(),
        id: Some(id).filter(|id| !id.is_empty()),
        ..NativeFeedEvent::default()
    };
    match event.what {
        What::SessionStarted => new("sessionStarted", String::new()),
        What::SessionEnded => new("sessionEnded", String::new()),
        What::CommandQueued { id, command } => {
            NativeFeedEvent { command: Some(command), ..new("commandQueued", id.to_string()) }
        }
        What::CommandStarted { id, command, pid } => {
            NativeFeedEvent { command: Some(command), pid: Some(pid), ..new("commandStarted", id.to_string()) }
        }
        What::CommandOutput { id, total, newest: [stdout, stderr] } => NativeFeedEvent {
            total: Some(total.map(|bytes| bytes as f64).to_vec()),
            stdout: Some(Buffer::from(stdout)),
            stderr: Some(Buffer::from(stderr)),
            ..new("commandOutput", id.to_string())
        },
        What::CommandWaiting { id, waiting } => {
            NativeFeedEvent { waiting: Some(process::waiting(waiting)), ..new("commandWaiting", id.to_string()) }
        }
        What::CommandDetached { id, process } => {
            NativeFeedEvent { process_id: Some(process), ..new("commandDetached", id.to_string()) }
        }
        What::CommandEnded { id, end } => NativeFeedEvent {
            exit_code: end.exit_code,
            signal: end.signal,
            killed_by: end.killed_by.map(process::killer),
            duration: Some(end.duration.as_secs_f64() * 1000.0),
            total: Some(end.total.map(|bytes| bytes as f64).to_vec()),
            cwd: Some(end.cwd),
            usage: end.usage.map(|usage| emitter::usage(usage, end.traffic)),
            ..new("commandEnded", id.to_string())
        },
        What::ProcessStarted { id, command, pid, terminal } => NativeFeedEvent {
            command: Some(command),
            pid: Some(pid),
            terminal: terminal.map(process::pty),
            ..new("processStarted", id)
        },
        What::ProcessResized { id, size } => {
            NativeFeedEvent { terminal: Some(process::pty(size)), ..new("processResized", id) }
        }
        What::ProcessWaiting { id, waiting } => {
            NativeFeedEvent { waiting: Some(process::waiting(waiting)), ..new("processWaiting", id) }
        }
        What::ProcessEnded { id, exit, killed_by } => NativeFeedEvent {
            exit_code: exit.code,
            signal: exit.signal,
            reason: process::reason(exit.reason).map(Into::into),
            killed_by: killed_by.map(process::killer),
            ..new("processEnded", id)
        },
        What::ServiceRestarted { id, restarts } => {
            NativeFeedEvent { restarts: Some(restarts), ..new("serviceRestarted", id) }
        }
        What::Denied(denial) => {
            NativeFeedEvent { denial: Some(emitter::denial(denial)), ..new("denied", String::new()) }
        }
        What::Request(request) => NativeFeedEvent {
            target: Some(request.origin.to_string()),
            request: Some(NativeRequest { method: request.method, path: request.path }),
            status: request.status.map(Into::into),
            total: Some([request.sent, request.received].map(|bytes| bytes as f64).to_vec()),
            duration: Some(request.duration.as_secs_f64() * 1000.0),
            secrets: Some(request.secrets).filter(|names| !names.is_empty()),
            denied: request.denied.map(|reason| reason.as_str().into()),
            protocol: Some(request.protocol.into()),
            ..new("request", String::new())
        },
        What::Asked { id, wanted, expires_at } => {
            NativeFeedEvent { expires_at: Some(since_epoch(expires_at)), ..about(wanted, new("asked", id.to_string())) }
        }
        What::Answered { id, wanted, answer } => NativeFeedEvent {
            answer: answer.map(|answer| answer.as_str().into()),
            ..about(wanted, new("answered", id.to_string()))
        },
    }
}
