//! The native class's methods for background processes.

use crate::process;
use crate::sandbox::NativeSandbox;
use crate::settle::{Pending, Settle};
use crate::types::{
    NativeConditions, NativeFirst, NativeKilledBy, NativeLineQuery, NativeLog, NativeLogLines, NativeMessages,
    NativeProcess, NativeProcessRef, NativeProcessStart, NativeStats, NativeWaiting,
};
use nacre_core::error::{Code, Error};
use nacre_core::process::messages::{Failure, Messages};
use nacre_core::process::{Process, Stats, ports};
use nacre_core::runtime;
use napi::bindgen_prelude::{Result, ToNapiValue, Uint8Array};
use napi_derive::napi;
use std::sync::Arc;

#[napi]
impl NativeSandbox {
    /// Starts a process. Ends once the process has a pid.
    #[napi(catch_unwind)]
    pub fn start_process(&self, id: u32, request: NativeProcessStart) -> Result<Pending<NativeProcess>> {
        runtime::handle()?;
        let (settle, pending) = Settle::new(id, &self.emitter);
        self.sandbox.start_process(&request.session_id.clone(), process::new_process(request), move |started| {
            settle.answer(started.and_then(|started| process::begun(&started)));
        });
        Ok(pending)
    }

    /// All known processes, in the order of their starts. A process is known until it is cleaned up.
    #[napi(catch_unwind)]
    pub fn processes(&self) -> Vec<NativeProcess> {
        self.sandbox.processes().all().iter().filter_map(|known| process::shown(known)).collect()
    }

    /// Finds the present process with this id.
    #[napi(catch_unwind)]
    pub fn process(&self, process_id: String) -> Option<NativeProcess> {
        process::shown(self.sandbox.processes().find(&process_id)?.as_ref())
    }

    /// Kills a process with its tree. Ends once the process's whole tree has exited; false if it had ended before.
    #[napi(catch_unwind)]
    pub fn kill_process(
        &self,
        id: u32,
        process: NativeProcessRef,
        signal: i32,
        force_kill_after_delay: u32,
        by: NativeKilledBy,
    ) -> Result<Pending<bool>> {
        let (policy, by) = (process::policy(signal, force_kill_after_delay), process::killed_by(by));
        self.with(id, &process, move |found| async move {
            let killed = found.kill(by, policy).await;
            if killed {
                // The end is published a moment after the tree has ended.
                found.wait().await;
            }
            Ok(killed)
        })
    }

    /// Waits for the end of a process.
    #[napi(catch_unwind)]
    pub fn wait_process(&self, id: u32, process: NativeProcessRef) -> Result<Pending<Option<NativeProcess>>> {
        self.with(id, &process, |found| {
            let wait = self.waits.open(id);
            async move {
                let ended = wait.run(found.wait()).await;
                Ok(ended.and_then(|()| process::shown(&found)))
            }
        })
    }

    /// Reads at most `maxBytes` of a log, from `cursor` on. With `follow` it waits for output or the end of the process;
    /// without, there may be none.
    #[napi(catch_unwind)]
    pub fn read_log(
        &self,
        id: u32,
        process: NativeProcessRef,
        cursor: f64,
        max_bytes: u32,
        follow: bool,
    ) -> Result<Pending<Option<NativeLog>>> {
        let (cursor, most) = (cursor as u64, max_bytes as usize);
        self.with(id, &process, |found| {
            let wait = follow.then(|| self.waits.open(id));
            async move {
                let slice = match wait {
                    Some(wait) => wait.run(found.log.follow(cursor, most)).await,
                    None => Some(found.log.read(cursor, most).await),
                };
                Ok(slice.map(process::log))
            }
        })
    }

    /// Waits for the first of several things.
    #[napi(catch_unwind)]
    pub fn wait_for(
        &self,
        id: u32,
        process: NativeProcessRef,
        conditions: NativeConditions,
    ) -> Result<Pending<Option<NativeFirst>>> {
        let conditions = process::conditions(conditions);
        self.with(id, &process, |found| {
            let wait = self.waits.open(id);
            async move {
                let first = wait.run(found.wait_for(conditions)).await.transpose()?;
                Ok(first.map(|first| process::first(first, &found)))
            }
        })
    }

    /// Reads lines of a log. May fail with INVALID_OPTION.
    #[napi(catch_unwind)]
    pub fn log_lines(
        &self,
        id: u32,
        process: NativeProcessRef,
        query: NativeLineQuery,
    ) -> Result<Pending<Option<NativeLogLines>>> {
        let query = process::line_query(query);
        self.with(id, &process, |found| {
            let wait = self.waits.open(id);
            async move {
                let lines = wait.run(found.log.lines(query)).await.transpose()?;
                Ok(lines.map(process::log_lines))
            }
        })
    }

    /// Gives up a pending awaitJob, or one whose `Pending` allows null: the call then ends with null. Those that change
    /// something give up only their wait for running commands.
    #[napi(catch_unwind)]
    pub fn abandon(&self, id: u32) {
        self.waits.abandon(id);
    }

    /// Reports that the reader of a process with a `window` has taken everything before the cursor.
    #[napi(catch_unwind)]
    pub fn take_log(&self, process: NativeProcessRef, cursor: f64) {
        if let Ok(found) = self.find(&process)
            && let Some(hold) = &found.hold
        {
            hold.take(cursor as u64);
        }
    }

    /// Sends a signal to the process group, with no further escalation. False if the process has ended.
    #[napi(catch_unwind)]
    pub fn signal_process(&self, process: NativeProcessRef, signal: i32) -> bool {
        self.find(&process).is_ok_and(|found| found.signal(signal))
    }

    /// Sends a piece of standard input. Ends once the pipe took the data, with an error if the input is closed or was never a
    /// pipe.
    #[napi(catch_unwind)]
    pub fn write_process(&self, id: u32, process: NativeProcessRef, data: Uint8Array) -> Result<Pending<()>> {
        let closed = || {
            Error::new(
                Code::InputClosed,
                format!("the input of process '{}' is closed; start it again", process.process_id),
            )
        };
        let found = self.find(&process).map_err(|error| match error.code {
            Code::ProcessNotFound => closed(),
            _ => error,
        });
        match found.and_then(|found| if found.takes_input() { Ok(found) } else { Err(closed()) }) {
            Ok(found) => {
                let (chunk, pending) = self.chunk(id, &data);
                found.write(chunk);
                Ok(pending)
            }
            Err(error) => Ok(self.refuse(id, error)),
        }
    }

    /// Closes standard input.
    #[napi(catch_unwind)]
    pub fn close_process_input(&self, process: NativeProcessRef) {
        if let Ok(found) = self.find(&process) {
            found.close_input();
        }
    }

    /// Sends a line to the channel of messages. True if the socket has taken it at once; otherwise the call ends later, then
    /// too. May fail with CHANNEL_CLOSED or CHANNEL_FULL.
    #[napi(catch_unwind, ts_return_type = "true | null")]
    pub fn send_message(&self, id: u32, process: NativeProcessRef, line: Uint8Array) -> Result<Option<bool>> {
        let sent = self.with_messages(&process, |messages| messages.send(&line));
        match sent {
            Ok((_, None)) => return Ok(Some(true)),
            Ok((found, Some(sent))) => self.settle(id, async move {
                sent.await.map(|()| true).map_err(|failure| process::message_error(failure, &found))
            })?,
            Err(error) => self.refuse(id, error),
        };
        Ok(None)
    }

    /// Returns the messages after the first `taken`, which are dropped. With `follow`, the call ends later if there are none: when
    /// there is one, or the channel ends.
    #[napi(catch_unwind)]
    pub fn receive_messages(
        &self,
        id: u32,
        process: NativeProcessRef,
        taken: f64,
        follow: bool,
    ) -> Result<Option<NativeMessages>> {
        match self.with_messages(&process, |messages| Ok(messages.look(taken as u64, follow))) {
            Ok((_, Some(received))) => return Ok(Some(process::messages(received))),
            Ok((found, None)) => {
                let wait = self.waits.open(id);
                self.settle(id, async move {
                    let Some(messages) = found.messages() else { return Err(Error::engine_failed()) };
                    Ok(wait.run(messages.receive(taken as u64)).await.map(process::messages))
                })?
            }
            Err(error) => self.refuse(id, error),
        };
        Ok(None)
    }

    /// Ends the channel of messages to a process, behind the messages so far.
    #[napi(catch_unwind)]
    pub fn finish_messages(&self, process: NativeProcessRef) {
        if let Ok(found) = self.find(&process)
            && let Some(messages) = found.messages()
        {
            messages.finish();
        }
    }

    /// Sets the size of a terminal. False if the process has ended.
    #[napi(catch_unwind)]
    pub fn resize_process(&self, process: NativeProcessRef, cols: u32, rows: u32) -> bool {
        let found = self.find(&process);
        found.is_ok_and(|found| found.resize(process::size(cols, rows)))
    }

    /// Reads the resource usage of a process and its tree. Fails if the process has ended.
    #[napi(catch_unwind)]
    pub fn process_stats(&self, id: u32, process: NativeProcessRef) -> Result<Pending<NativeStats>> {
        self.with(id, &process, |found| async move {
            let life = found.life();
            match life.birth.filter(|_| life.end.is_none()) {
                Some(birth) => Ok(process::stats(Stats::of(birth.tree).await?)),
                None => Err(Error::new(Code::ProcessNotFound, format!("process '{}' has ended", found.id))),
            }
        })
    }

    /// The program that waits for input, if one does.
    #[napi(catch_unwind)]
    pub fn process_waiting(&self, id: u32, process: NativeProcessRef) -> Result<Pending<Option<NativeWaiting>>> {
        self.with(id, &process, |found| async move { Ok(found.waiting().await?.map(process::waiting)) })
    }

    /// Whether a process of the tree listens on the TCP port.
    #[napi(catch_unwind)]
    pub fn process_listens(&self, id: u32, process: NativeProcessRef, port: u32) -> Result<Pending<bool>> {
        self.with(id, &process, move |found| async move {
            let birth = found.life().birth;
            match birth {
                Some(birth) => ports::listens(birth.tree, port as u16).await,
                None => Ok(false),
            }
        })
    }

    /// Forgets a command and its log. No effect if it has become a process.
    #[napi(catch_unwind)]
    pub fn forget_command(&self, number: f64) {
        self.sandbox.processes().forget_command(number as u64);
    }

    /// Forgets those of these processes that have ended, and their logs. Returns how many.
    #[napi(catch_unwind)]
    pub fn forget_processes(&self, process_ids: Vec<String>) -> u32 {
        self.sandbox.processes().forget(&process_ids.into_iter().collect()) as u32
    }
}

impl NativeSandbox {
    /// Acts on the channel of messages of a process.
    fn with_messages<T>(
        &self,
        process: &NativeProcessRef,
        act: impl FnOnce(&Messages) -> std::result::Result<T, Failure>,
    ) -> std::result::Result<(Arc<Process>, T), Error> {
        let found = self.find(process)?;
        let done = found.messages().ok_or(Failure::Closed).and_then(|messages| act(messages));
        match done {
            Ok(done) => Ok((found, done)),
            Err(failure) => Err(process::message_error(failure, &found)),
        }
    }

    fn find(&self, process: &NativeProcessRef) -> std::result::Result<Arc<Process>, Error> {
        self.sandbox.processes().get(process.number as u64, &process.process_id)
    }

    /// Runs work for a process on the engine's thread and sends the result.
    fn with<T, R>(&self, id: u32, process: &NativeProcessRef, act: impl FnOnce(Arc<Process>) -> R) -> Result<Pending<T>>
    where
        T: ToNapiValue + Send + 'static,
        R: Future<Output = std::result::Result<T, Error>> + Send + 'static,
    {
        match self.find(process) {
            Ok(found) => self.settle(id, act(found)),
            Err(error) => Ok(self.refuse(id, error)),
        }
    }
}
