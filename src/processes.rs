//! The native class's methods for background processes.

use crate::emitter::Settle;
use crate::process;
use crate::sandbox::{NativeSandbox, chunk};
use crate::types::{
    NativeConditions, NativeEvent, NativeKilledBy, NativeLineQuery, NativeProcess, NativeProcessRef, NativeProcessStart,
};
use nacre_core::error::{Code, Error};
use nacre_core::process::{Process, Stats, ports};
use nacre_core::runtime;
use napi::bindgen_prelude::{Result, Uint8Array};
use napi_derive::napi;
use std::sync::Arc;

#[napi]
impl NativeSandbox {
    /// Starts a process. Ends with `done` and `process`, once the process has a pid.
    #[napi(catch_unwind)]
    pub fn start_process(&self, id: u32, request: NativeProcessStart) -> Result<()> {
        let (sandbox, emitter) = self.parts();
        runtime::handle()?;
        let settle = Settle::new(id, &emitter);
        sandbox.start_process(&request.session_id.clone(), process::new_process(request), move |started| {
            let event = |process| NativeEvent { process, ..NativeEvent::default() };
            settle.answer(started.map(|started| event(process::shown(&started))));
        });
        Ok(())
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

    /// Kills a process with its tree. Ends with `done` and `killed` once the process's whole tree has exited; false if
    /// it had ended before.
    #[napi(catch_unwind)]
    pub fn kill_process(
        &self,
        id: u32,
        process: NativeProcessRef,
        signal: i32,
        force_kill_after_delay: u32,
        by: NativeKilledBy,
    ) -> Result<()> {
        let (policy, by) = (process::policy(signal, force_kill_after_delay), process::killed_by(by));
        self.with(id, &process, move |found| async move {
            let killed = found.kill(by, policy).await;
            if killed {
                // The end is published a moment after the tree has ended.
                found.wait().await;
            }
            Ok(NativeEvent { killed: Some(killed), ..NativeEvent::default() })
        })
    }

    /// Waits for the end of a process. Ends with `done` and `process` once it has ended.
    #[napi(catch_unwind)]
    pub fn wait_process(&self, id: u32, process: NativeProcessRef) -> Result<()> {
        self.with(id, &process, |found| {
            let wait = self.waits.open(id);
            async move {
                let ended = wait.run(found.wait()).await;
                Ok(NativeEvent { process: ended.and_then(|()| process::shown(&found)), ..NativeEvent::default() })
            }
        })
    }

    /// Ends with `done` and `log`: at most `maxBytes` from `cursor` on. With `follow` it waits for output or the end of the
    /// process; without, the log may be empty.
    #[napi(catch_unwind)]
    pub fn read_log(
        &self,
        id: u32,
        process: NativeProcessRef,
        cursor: f64,
        max_bytes: u32,
        follow: bool,
    ) -> Result<()> {
        let (cursor, most) = (cursor as u64, max_bytes as usize);
        self.with(id, &process, |found| {
            let wait = follow.then(|| self.waits.open(id));
            async move {
                let slice = match wait {
                    Some(wait) => wait.run(found.log.follow(cursor, most)).await,
                    None => Some(found.log.read(cursor, most).await),
                };
                Ok(NativeEvent { log: slice.map(process::log), ..NativeEvent::default() })
            }
        })
    }

    /// Waits for the first of several things. Ends with `done`, `first` and `process`, and with `waiting` or `logLines`
    /// if that came first.
    #[napi(catch_unwind)]
    pub fn wait_for(&self, id: u32, process: NativeProcessRef, conditions: NativeConditions) -> Result<()> {
        let conditions = process::conditions(conditions);
        self.with(id, &process, |found| {
            let wait = self.waits.open(id);
            async move {
                let first = wait.run(found.wait_for(conditions)).await.transpose()?;
                Ok(first.map_or_else(NativeEvent::default, |first| process::first(first, &found)))
            }
        })
    }

    /// Reads lines of a log. Ends with `done` and `logLines`, or with INVALID_OPTION.
    #[napi(catch_unwind)]
    pub fn log_lines(&self, id: u32, process: NativeProcessRef, query: NativeLineQuery) -> Result<()> {
        let query = process::line_query(query);
        self.with(id, &process, |found| {
            let wait = self.waits.open(id);
            async move {
                let lines = wait.run(found.log.lines(query)).await.transpose()?;
                Ok(NativeEvent { log_lines: lines.map(process::log_lines), ..NativeEvent::default() })
            }
        })
    }

    /// Gives up a pending fileRead, fileReadAt, fileNext, awaitJob, waitProcess, waitFor, readEvents, readLog, logLines,
    /// workspaceChanges or workspaceDiff, or the wait of workspaceCommit, workspaceDiscard, checkpoint or fork for
    /// running commands. The call then ends with an empty `done`.
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

    /// Sends a piece of standard input. Ends with `done` once the pipe took the data, with an error if the input is
    /// closed or was never a pipe.
    #[napi(catch_unwind)]
    pub fn write_process(&self, id: u32, process: NativeProcessRef, data: Uint8Array) -> Result<()> {
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
        let written = found.and_then(|found| {
            if !found.takes_input() {
                return Err(closed());
            }
            found.write(chunk(&self.emitter, id, &data));
            Ok(())
        });
        if written.is_err() {
            self.emitter.settle(id, written);
        }
        Ok(())
    }

    /// Closes standard input.
    #[napi(catch_unwind)]
    pub fn close_process_input(&self, process: NativeProcessRef) {
        if let Ok(found) = self.find(&process) {
            found.close_input();
        }
    }

    /// Sets the size of a terminal. False if the process has ended.
    #[napi(catch_unwind)]
    pub fn resize_process(&self, process: NativeProcessRef, cols: u32, rows: u32) -> bool {
        let found = self.find(&process);
        found.is_ok_and(|found| found.resize(process::size(cols, rows)))
    }

    /// Reads the resource usage of a process and its tree. Ends with `done` and `stats`, or with an error if the
    /// process has ended.
    #[napi(catch_unwind)]
    pub fn process_stats(&self, id: u32, process: NativeProcessRef) -> Result<()> {
        self.with(id, &process, |found| async move {
            let life = found.life();
            match life.birth.filter(|_| life.end.is_none()) {
                Some(birth) => {
                    let stats = Stats::of(birth.tree).await?;
                    Ok(NativeEvent { stats: Some(process::stats(stats)), ..NativeEvent::default() })
                }
                None => Err(Error::new(Code::ProcessNotFound, format!("process '{}' has ended", found.id))),
            }
        })
    }

    /// Ends with `done`, and with `waiting` if a program waits for input.
    #[napi(catch_unwind)]
    pub fn process_waiting(&self, id: u32, process: NativeProcessRef) -> Result<()> {
        self.with(id, &process, |found| async move {
            let waiting = found.waiting().await?.map(process::waiting);
            Ok(NativeEvent { waiting, ..NativeEvent::default() })
        })
    }

    /// Ends with `done` and `listens`: whether a process of the tree listens on the TCP port.
    #[napi(catch_unwind)]
    pub fn process_listens(&self, id: u32, process: NativeProcessRef, port: u32) -> Result<()> {
        self.with(id, &process, move |found| async move {
            let birth = found.life().birth;
            let listens = match birth {
                Some(birth) => ports::listens(birth.tree, port as u16).await?,
                None => false,
            };
            Ok(NativeEvent { listens: Some(listens), ..NativeEvent::default() })
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
    fn find(&self, process: &NativeProcessRef) -> std::result::Result<Arc<Process>, Error> {
        self.sandbox.processes().get(process.number as u64, &process.process_id)
    }

    /// Runs work for a process on the engine's thread and sends the result.
    fn with<F, R>(&self, id: u32, process: &NativeProcessRef, act: F) -> Result<()>
    where
        F: FnOnce(Arc<Process>) -> R,
        R: Future<Output = std::result::Result<NativeEvent, Error>> + Send + 'static,
    {
        let emitter = Arc::clone(&self.emitter);
        match self.find(process) {
            Ok(found) => {
                let (acting, settle) = (act(found), Settle::new(id, &emitter));
                Ok(runtime::spawn(async move { settle.answer(acting.await) })?)
            }
            Err(error) => {
                emitter.settle(id, Err(error));
                Ok(())
            }
        }
    }
}
