//! The native class behind `Sandbox`.

use crate::capabilities;
use crate::emitter::{self, Emitter, question};
use crate::isolation;
use crate::open_files::OpenFiles;
use crate::pending::{Call, CallSink, Calls, WINDOW, Waits};
use crate::process;
use crate::requests::Requests;
use crate::settle::{Pending, Settle};
use crate::socket::Socket;
use crate::types::{
    NativeCapabilities, NativeConfig, NativeDenial, NativeEvent, NativeExecExtras, NativeFailure, NativeKilledBy,
    NativePort, NativeProcess, NativeRunning, NativeSession, NativeStats, NativeTracedRequest, NativeWorkspaceConfig,
};
use crate::user;
use crate::variables::zip;
use nacre_core::blocking::blocking;
use nacre_core::budget::{Budget, Limited};
use nacre_core::error::{Code, Error};
use nacre_core::exec::{Chunk, Command, ExecRequest, Input, InputWriter, KillPolicy, SureSink};
use nacre_core::hook::Hook;
use nacre_core::host_commands::{Commands, OnCall};
use nacre_core::jobs::Store;
use nacre_core::log::Log;
use nacre_core::proxy::{Target, TracedRequest};
use nacre_core::questions::Question;
use nacre_core::runtime;
use nacre_core::sandbox::{Config, NewSession, Sandbox};
use nacre_core::wanted::Denial;
use nacre_core::workspace::Options;
use napi::bindgen_prelude::{Either, Env, Function, Result, ToNapiValue, Uint8Array};
use napi_derive::napi;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Time between SIGTERM and SIGKILL when a session or sandbox ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// A sandbox. Ends everything it started when it is garbage-collected or its thread exits.
#[napi]
pub struct NativeSandbox {
    pub(crate) sandbox: Sandbox,
    pub(crate) emitter: Arc<Emitter>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) jobs: Store,
    pub(crate) open_files: Arc<OpenFiles>,
    calls: Arc<Calls>,
    /// The commands of the host.
    on_call: OnCall,
    pub(crate) requests: Requests,
}

#[napi]
impl NativeSandbox {
    /// Creates a sandbox. Starts nothing.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, config: NativeConfig, on_event: Function<'_, NativeEvent, ()>) -> Result<Self> {
        let emitter = Arc::new(Emitter::new(on_event)?);
        let jobs = Store::new(config.jobs_root.clone());
        let on_call = receive(Arc::clone(&emitter));
        let requests = Requests::default();
        let commands = config.command_names.zip(config.commands_root).map(|(names, root)| Commands {
            names,
            root: root.into(),
            on_call: on_call.clone(),
        });
        let sandbox = Sandbox::new(Config {
            commands,
            on_function: requests.receive(Arc::clone(&emitter)),
            log: if config.log == Some(true) { log_to(Arc::clone(&emitter)) } else { Log::default() },
            on_question: tell(Arc::clone(&emitter)),
            on_traced: trace(Arc::clone(&emitter)),
            on_end: end(Arc::clone(&emitter)),
            cwd: config.cwd.into(),
            env: config
                .env_names
                .into_iter()
                .zip(config.env_values)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            shell: config.shell.map(Into::into),
            supervisor: config.supervisor.into(),
            survive_exit: config.survive_exit,
            state_dir: config.state_dir.into(),
            keep: config.keep,
            jobs_root: config.jobs_root.into(),
            limits: config.limits.map(process::limits).unwrap_or_default(),
            budget: config.budget_cpu.map(milliseconds),
            user: config.user.map(user::spec),
            isolation: config.isolation.map(isolation::rules),
            workspace: config.workspace.map(workspace),
            own_variables: config.own_variables.unwrap_or_default(),
            force_plain: config.engine.as_deref() == Some("plain"),
            force_subreaper: config.containment.as_deref() == Some("subreaper"),
        });
        env.add_env_cleanup_hook(sandbox.downgrade(), |sandbox| {
            if let Some(sandbox) = sandbox.upgrade() {
                abandon(sandbox);
            }
        })?;
        Ok(Self {
            sandbox,
            emitter,
            jobs,
            open_files: Arc::default(),
            waits: Arc::default(),
            calls: Arc::default(),
            on_call,
            requests,
        })
    }

    /// Goes on with what an earlier sandbox of the same name has kept. Returns an error as a call would have it.
    #[napi(catch_unwind)]
    pub fn go_on(&self) -> Option<NativeFailure> {
        let error = self.sandbox.go_on().err()?;
        Some(NativeFailure { code: error.code.as_str().into(), message: error.message })
    }

    /// Queues a command. Returns the number of the process that it can become, or its last event, if the command has ended
    /// at once. Positional, with `extras` only where needed: reading an object would take longer than running `true`.
    #[napi(catch_unwind)]
    #[allow(clippy::too_many_arguments, reason = "reading an object would take longer than `true` takes to run")]
    pub fn exec(
        &self,
        id: u32,
        session_id: String,
        text: Option<String>,
        timeout: u32,
        kill_signal: i32,
        force_kill_after_delay: u32,
        max_buffer: f64,
        as_text: bool,
        extras: Option<NativeExecExtras>,
    ) -> Result<Option<Either<f64, NativeEvent>>> {
        runtime::handle()?;
        let request = extras.unwrap_or_default();
        // Otherwise events precede the last one, or the process may be asked for.
        let at_once = !request.events && request.start != Some(true) && request.process.is_none();
        let window = request.window.map_or(WINDOW, |window| window.max(1) as usize);
        let credit = request.events.then(|| Arc::new(Semaphore::new(window)));
        let (input, writer) = match request.input.as_str() {
            "bytes" => {
                (Input::Bytes(Arc::new(request.input_bytes.map(|bytes| bytes.to_vec()).unwrap_or_default())), None)
            }
            "stream" => {
                let (writer, input) = InputWriter::open();
                (input, Some(writer))
            }
            _ => (Input::None, None),
        };
        let command = match (text, request.argv) {
            (Some(text), _) => Command::Text(text.into_bytes()),
            (None, argv) => Command::Argv(argv.unwrap_or_default().into_iter().map(String::into_bytes).collect()),
        };
        let process = request
            .process
            .and_then(|process| self.sandbox.command(&session_id, process::detached(process, writer.clone(), id)));
        let number = process.as_ref().map(|process| process.number as f64);
        let sink = CallSink {
            id,
            emitter: Arc::clone(&self.emitter),
            calls: Arc::clone(&self.calls),
            as_text,
            announces: request.events || request.start == Some(true),
            process: process.clone(),
        };
        let call =
            Call { session: session_id.clone(), credit: credit.clone(), input: writer, process: process.clone() };
        self.calls.lock().insert(id, call);
        if let (Some(limit), Some(process)) = (request.budget_cpu, &process) {
            self.sandbox.limit_command(&session_id, u64::from(id), process, milliseconds(limit));
        }
        let ended = self.sandbox.exec(
            &session_id,
            ExecRequest {
                at_once,
                is_traced: request.traced.unwrap_or_default(),
                id: u64::from(id),
                command,
                cwd: request.cwd.map(Into::into),
                env: zip(request.env_names, request.env_values),
                timeout: (timeout > 0).then(|| Duration::from_millis(u64::from(timeout))),
                kill: KillPolicy {
                    signal: kill_signal,
                    grace: Duration::from_millis(u64::from(force_kill_after_delay)),
                },
                max_buffer: max_buffer.min(isize::MAX as f64) as usize,
                output_limit: request.output_limit.map(|limit| limit as u64),
                input,
                merge_output: request.merge_output.unwrap_or_default(),
                terminal: request.pty.map(|pty| process::size(pty.cols, pty.rows)),
                live: credit,
                process,
                sink: SureSink::new(sink),
            },
        );
        Ok(match ended {
            Some(outcome) => {
                self.calls.lock().remove(&id);
                Some(Either::B(emitter::ended(id, outcome, as_text)))
            }
            None => number.map(Either::A),
        })
    }

    /// Ends a pending exec: a queued command never runs, a running one is killed. The exec still ends with its one
    /// event. A second call only has an effect with SIGKILL, which cuts the grace time short.
    #[napi(catch_unwind)]
    pub fn interrupt(&self, id: u32, signal: Option<i32>, by: NativeKilledBy) {
        let session = self.calls.lock().get(&id).map(|call| call.session.clone());
        if let Some(session) = session {
            self.sandbox.interrupt(&session, u64::from(id), signal, process::killed_by(by));
        }
    }

    /// Kills a command, whichever caller has made it. Ends once that has ended; false if there is none.
    #[napi(catch_unwind)]
    pub fn kill_command(
        &self,
        id: u32,
        session_id: String,
        command: u32,
        signal: Option<i32>,
        by: NativeKilledBy,
    ) -> Result<Pending<bool>> {
        let sandbox = self.sandbox.clone();
        let is_command = self.calls.lock().get(&command).is_some_and(|call| call.session == session_id);
        let killing =
            is_command.then(|| sandbox.kill_command(&session_id, u64::from(command), signal, process::killed_by(by)));
        self.settle(id, async move {
            let killed = killing.is_some();
            if let Some(killing) = killing {
                killing.await;
            }
            Ok(killed)
        })
    }

    /// Makes a running command a process, and frees its session. With `endsCall` the exec ends now, with its result so far;
    /// otherwise it goes on to its one event.
    #[napi(catch_unwind)]
    pub fn detach(&self, id: u32, exec_id: u32, ends_call: bool) -> Result<Pending<NativeProcess>> {
        let running = self.calls.lock().get(&exec_id).map(|call| (call.session.clone(), call.process.clone()));
        runtime::handle()?;
        let Some((session, Some(process))) = running else {
            let error = Error::not_detached("it has already ended: its result has all of its output");
            return Ok(self.refuse(id, error));
        };
        let (settle, pending) = Settle::new(id, &self.emitter);
        self.sandbox.detach(&session, u64::from(exec_id), process, ends_call, move |detached| {
            settle.answer(detached.and_then(|detached| process::begun(&detached)));
        });
        Ok(pending)
    }

    /// Returns permits, one per consumed `output` event; the engine sends at most 16 events without.
    #[napi(catch_unwind)]
    pub fn credit(&self, id: u32, count: u32) {
        if let Some(credit) = self.calls.lock().get(&id).and_then(|call| call.credit.as_ref()) {
            credit.add_permits(count as usize);
        }
    }

    /// Sends a piece of standard input, for `input: 'stream'`. Ends once the pipe took the bytes, or the command has ended.
    #[napi(catch_unwind)]
    pub fn write(&self, id: u32, write_id: u32, data: Uint8Array) -> Pending<()> {
        let input = self.calls.lock().get(&id).and_then(|call| call.input.clone());
        let Some(input) = input.filter(InputWriter::is_open) else {
            let closed = Error::new(Code::InputClosed, "the command has ended, or its input is closed; run it again");
            return self.refuse(write_id, closed);
        };
        let (chunk, pending) = self.chunk(write_id, &data);
        input.send(chunk);
        pending
    }

    /// Closes standard input.
    #[napi(catch_unwind)]
    pub fn close_input(&self, id: u32) {
        if let Some(input) = self.calls.lock().get(&id).and_then(|call| call.input.as_ref()) {
            input.close();
        }
    }

    /// Sets and unsets variables of a session.
    #[napi(catch_unwind)]
    pub fn set_env(
        &self,
        id: u32,
        session_id: String,
        names: Vec<String>,
        values: Vec<Option<String>>,
    ) -> Result<Pending<()>> {
        runtime::handle()?;
        self.settle(id, self.sandbox.set_env(&session_id, zip(Some(names), Some(values))))
    }

    /// Creates a session.
    #[napi(catch_unwind)]
    pub fn create_session(&self, id: u32, session: NativeSession) -> Result<Pending<()>> {
        let budget = session
            .budget_cpu
            .map(|limit| Budget::new(Limited::Session(session.session_id.clone()), milliseconds(limit)));
        let new = NewSession {
            budget,
            id: session.session_id,
            cwd: session.cwd.map(Into::into),
            env: zip(session.env_names, session.env_values),
            survive_exit: session.survive_exit,
            isolation: session.isolation.map(isolation::rules),
        };
        runtime::handle()?;
        self.settle(id, self.sandbox.create_session(new))
    }

    /// Ends a session.
    #[napi(catch_unwind)]
    pub fn delete_session(&self, id: u32, session_id: String) -> Result<Pending<()>> {
        self.settle(id, self.sandbox.delete_session(&session_id, FAREWELL))
    }

    /// Whether rules restrict the network of a session, or of the sandbox.
    #[napi(catch_unwind)]
    pub fn restricts_network(&self, session_id: Option<String>) -> bool {
        self.sandbox.restricts_network(session_id.as_deref())
    }

    /// How the shell of a session has exited without `surviveExit`, if it has.
    #[napi(catch_unwind)]
    pub fn exit_of(&self, session_id: String) -> Option<String> {
        self.sandbox.exit_error(&session_id).map(|error| error.message)
    }

    /// Lists the ids of the sessions.
    #[napi(catch_unwind)]
    pub fn sessions(&self) -> Vec<String> {
        self.sandbox.sessions()
    }

    /// Looks up the running and queued commands of a session.
    #[napi(catch_unwind)]
    pub fn running(&self, id: u32, session_id: String) -> Result<Pending<Vec<NativeRunning>>> {
        let asking = self.sandbox.running(&session_id);
        self.settle(id, async move { Ok(asking.await?.into_iter().map(process::running).collect()) })
    }

    /// Looks up what the rules of a session refuse of an absolute path, or of a host with a port to a program.
    #[napi(catch_unwind)]
    pub fn judge(
        &self,
        id: u32,
        session_id: String,
        path: Option<String>,
        host: Option<String>,
        program: Option<String>,
    ) -> Result<Pending<Vec<NativeDenial>>> {
        runtime::handle()?;
        let asking = self.sandbox.judgement(&session_id);
        self.settle(id, async move {
            let Some(judgement) = asking.await? else { return Ok(Vec::new()) };
            let target = host.and_then(|host| Target::parse(&host, None));
            let mut found: Vec<Denial> =
                target.and_then(|target| judgement.host(&target, program.as_deref())).into_iter().collect();
            if let Some(path) = path {
                found.extend(judgement.path(path.into()).await?.into_iter().map(Denial::from));
            }
            Ok(found.into_iter().map(emitter::denial).collect())
        })
    }

    /// Reads the resource usage of a session, or of all of them.
    #[napi(catch_unwind)]
    pub fn stats(&self, id: u32, session_id: Option<String>) -> Result<Pending<NativeStats>> {
        let asking = self.sandbox.stats(session_id.as_deref());
        self.settle(id, async move { asking.await.map(process::session_stats) })
    }

    /// Lists where the programs of a session listen, or of all of them.
    #[napi(catch_unwind)]
    pub fn ports(&self, id: u32, session_id: Option<String>) -> Result<Pending<Vec<NativePort>>> {
        let asking = self.sandbox.ports(session_id.as_deref());
        self.settle(id, async move { Ok(asking.await?.into_iter().map(process::port).collect()) })
    }

    /// Connects to a port of a session, or of any of them. Returns a connected socket, which belongs to JavaScript from now on.
    #[napi(catch_unwind, ts_return_type = "Pending<number>")]
    pub fn connect(&self, id: u32, session_id: Option<String>, port: u32) -> Result<Pending<Socket>> {
        let connecting = self.sandbox.connect(session_id.as_deref(), port as u16);
        self.settle(id, async move { connecting.await.map(Socket) })
    }

    /// Ends everything.
    #[napi(catch_unwind)]
    pub fn destroy(&self, id: u32) -> Result<Pending<()>> {
        let (destroying, open_files) = (self.sandbox.destroy(FAREWELL), Arc::clone(&self.open_files));
        self.settle(id, async move {
            destroying.await;
            open_files.close_all();
            Ok(())
        })
    }

    /// A call that a session has made of a command of the host has ended: its socket is closed.
    #[napi(catch_unwind)]
    pub fn call_ended(&self, session_id: String) {
        self.on_call.ended(&session_id);
    }

    /// Makes pending events keep the event loop alive.
    #[napi(js_name = "ref", catch_unwind)]
    pub fn keep_alive(&self, env: Env) {
        self.emitter.keep_alive(&env, true);
    }

    /// Lets the event loop end despite pending events.
    #[napi(js_name = "unref", catch_unwind)]
    pub fn let_end(&self, env: Env) {
        self.emitter.keep_alive(&env, false);
    }

    /// Probes the system.
    #[napi(catch_unwind)]
    pub fn capabilities(&self, id: u32) -> Result<Pending<NativeCapabilities>> {
        let sandbox = self.sandbox.clone();
        self.settle(id, blocking(move || Ok(capabilities::describe(&sandbox))))
    }
}

impl NativeSandbox {
    /// Works on a call on the engine's thread, and answers it then.
    pub(crate) fn settle<T: ToNapiValue + Send + 'static>(
        &self,
        id: u32,
        work: impl Future<Output = std::result::Result<T, Error>> + Send + 'static,
    ) -> Result<Pending<T>> {
        let (settle, pending) = Settle::new(id, &self.emitter);
        runtime::spawn(async move { settle.answer(work.await) })?;
        Ok(pending)
    }

    /// Answers a call with an error.
    pub(crate) fn refuse<T: ToNapiValue + Send + 'static>(&self, id: u32, error: Error) -> Pending<T> {
        let (settle, pending) = Settle::new(id, &self.emitter);
        settle.answer(Err(error));
        pending
    }

    /// A piece of input that settles its call once it is taken. If nothing receives it, dropping it settles the call.
    pub(crate) fn chunk(&self, id: u32, data: &Uint8Array) -> (Chunk, Pending<()>) {
        let (settle, pending) = Settle::new(id, &self.emitter);
        let taken = Taken(Some(settle));
        (Chunk { bytes: data.to_vec(), taken: Box::new(move || drop(taken)) }, pending)
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        abandon(self.sandbox.clone());
    }
}

/// Settles a call when it is dropped, so a chunk that was never written is settled, too.
struct Taken(Option<Settle<()>>);

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(settle) = self.0.take() {
            settle.answer(Ok(()));
        }
    }
}

fn log_to(emitter: Arc<Emitter>) -> Log {
    Log::new(move |level, line| {
        emitter.emit(NativeEvent::Log { level: level.as_str().into(), message: line });
    })
}

/// Sends each question to JavaScript.
fn tell(emitter: Arc<Emitter>) -> Hook<Question> {
    Hook::new(move |asked| {
        emitter.emit(NativeEvent::Question { question: question(asked) });
    })
}

/// Sends each request of a traced command to JavaScript.
fn trace(emitter: Arc<Emitter>) -> Hook<TracedRequest> {
    Hook::new(move |traced| {
        emitter.emit(match traced {
            TracedRequest::Began { number, command, wish, traceparent } => NativeEvent::Request {
                request: *number as f64,
                id: *command as u32,
                about: NativeTracedRequest {
                    method: wish.method.clone(),
                    scheme: wish.scheme.into(),
                    host: wish.origin.host.clone(),
                    port: wish.origin.port.into(),
                    path: wish.path.clone(),
                    traceparent: traceparent.clone(),
                },
            },
            TracedRequest::Ended { number, request } => NativeEvent::Reply {
                request: *number as f64,
                status: request.status.map(Into::into),
                denied: request.denied.map(|reason| reason.as_str().into()),
            },
        });
    })
}

/// Sends the end of each session to JavaScript.
fn end(emitter: Arc<Emitter>) -> Hook<str> {
    Hook::new(move |session: &str| emitter.emit(NativeEvent::Ended { session_id: session.into() }))
}

/// Sends each call of a command of the host to JavaScript.
fn receive(emitter: Arc<Emitter>) -> OnCall {
    OnCall::new(move |session, connection| {
        emitter.emit(NativeEvent::Called { session_id: session.into(), socket: Socket(connection) });
    })
}

/// Ends the sandbox's processes without waiting, since no call can reach the sandbox any more.
fn abandon(sandbox: Sandbox) {
    let _ = runtime::spawn(sandbox.destroy(Duration::ZERO));
}

/// Converts a workspace from JavaScript.
/// A time that JavaScript gives.
fn milliseconds(time: f64) -> Duration {
    Duration::from_millis(time as u64)
}

fn workspace(given: NativeWorkspaceConfig) -> Options {
    Options {
        path: given.path.into(),
        id: given.id,
        directory: given.directory.map(PathBuf::from),
        memory: given.memory,
        max_bytes: given.max_bytes.map(|bytes| bytes as u64),
        undo_steps: given.undo_steps,
        passes_mounts: given.passes_mounts,
    }
}
