//! The native class's methods for durable jobs.

use crate::emitter::Settle;
use crate::piece::Piece;
use crate::process;
use crate::sandbox::NativeSandbox;
use crate::types::{NativeEvent, NativeJob, NativeJobStart, NativeJobStatus};
use crate::variables::zip;
use nacre_containment::job::meta::Meta;
use nacre_core::error::{Code, Error};
use nacre_core::jobs::status::{JobLife, JobState, JobStatus, status};
use nacre_core::jobs::{Job, NewJob, Store, cancel, follow, list, reader, remove};
use nacre_core::runtime;
use nacre_protocol::job::JobProgram;
use napi::bindgen_prelude::Result;
use napi_derive::napi;
use std::time::Duration;

type Answer = std::result::Result<NativeEvent, Error>;

#[napi]
impl NativeSandbox {
    /// Starts a durable job. Ends with `done` and `job`, once the command has been released.
    #[napi(catch_unwind)]
    pub fn start_job(&self, id: u32, request: NativeJobStart) -> Result<()> {
        let (sandbox, engine) = (self.sandbox.clone(), runtime::handle()?);
        self.on_disk(id, move |store| {
            let new = new_job(request);
            let launch = sandbox.job_launch(new.limits.as_ref(), new.cwd.as_deref())?;
            let meta = store.start(new, launch, &engine)?;
            Ok(NativeEvent { job: Some(shown(&meta)), ..NativeEvent::default() })
        })
    }

    /// Reads the state of a job. Ends with `done` and `jobStatus`.
    #[napi(catch_unwind)]
    pub fn job_status(&self, id: u32, job_id: String) -> Result<()> {
        self.on_disk(id, move |store| {
            let found = status(&store.find(&job_id)?)?;
            Ok(NativeEvent { job_status: Some(shown_status(&found)), ..NativeEvent::default() })
        })
    }

    /// Reads a part of a job's output. Ends with `done` and `jobStatus`, taken first, `data`, at most `maxBytes` from
    /// `cursor` on, and `atEnd`.
    #[napi(catch_unwind)]
    pub fn read_job(&self, id: u32, job_id: String, cursor: f64, max_bytes: u32) -> Result<()> {
        self.on_disk(id, move |store| {
            let slice = reader::read(&store.find(&job_id)?, cursor as u64, max_bytes as usize)?;
            Ok(NativeEvent {
                job_status: Some(shown_status(&slice.status)),
                data: Some(Piece(slice.bytes)),
                at_end: Some(slice.at_end),
                ..NativeEvent::default()
            })
        })
    }

    /// Ends with `done` when there are more than `cursor` bytes of output, or the job is over; for null, only then.
    #[napi(catch_unwind)]
    pub fn await_job(&self, id: u32, job_id: String, cursor: Option<f64>) -> Result<()> {
        let wait = self.waits.open(id);
        self.on_job(id, job_id, move |_, job| async move {
            match wait.run(follow::news(&job, cursor.map(|cursor| cursor as u64))).await {
                Some(outcome) => outcome.map(|()| NativeEvent::default()),
                None => Ok(NativeEvent::default()),
            }
        })
    }

    /// Cancels a job. Ends with `done` once all processes of the job have exited. Null: the grace time from its start.
    #[napi(catch_unwind)]
    pub fn cancel_job(&self, id: u32, job_id: String, grace_ms: Option<u32>) -> Result<()> {
        let grace = grace_ms.map(|ms| Duration::from_millis(u64::from(ms)));
        self.on_job(id, job_id, move |_, job| async move {
            cancel::cancel(&job, grace).await.map(|()| NativeEvent::default())
        })
    }

    /// Finds a job. Ends with `done`, and `job` if there is such a job.
    #[napi(catch_unwind)]
    pub fn attach_job(&self, id: u32, job_id: String) -> Result<()> {
        self.on_disk(id, move |store| {
            let found = match store.find(&job_id) {
                Ok(job) => list::attach(&job)?,
                Err(error) if error.code == Code::JobNotFound => None,
                Err(error) => return Err(error),
            };
            Ok(NativeEvent { job: found.map(|(meta, _)| shown(&meta)), ..NativeEvent::default() })
        })
    }

    /// Lists all jobs. Ends with `done` and `jobs`.
    #[napi(catch_unwind)]
    pub fn list_jobs(&self, id: u32) -> Result<()> {
        self.on_disk(id, move |store| {
            let all = list::list(store)?.into_iter();
            let jobs = all.map(|(meta, found)| NativeJob { status: Some(shown_status(&found)), ..shown(&meta) });
            Ok(NativeEvent { jobs: Some(jobs.collect()), ..NativeEvent::default() })
        })
    }

    /// Removes a job's directory.
    #[napi(catch_unwind)]
    pub fn remove_job(&self, id: u32, job_id: String) -> Result<()> {
        self.on_job(id, job_id, move |store, job| async move {
            remove::remove(&store, &job).await.map(|()| NativeEvent::default())
        })
    }
}

impl NativeSandbox {
    /// Runs work on files, on a thread that may block.
    fn on_disk(&self, id: u32, act: impl FnOnce(&Store) -> Answer + Send + 'static) -> Result<()> {
        let (store, settle) = (self.jobs.clone(), Settle::new(id, &self.emitter));
        Ok(runtime::spawn(async move { settle.answer(store.blocking(act).await) })?)
    }

    /// Waits for a job on the engine's thread. The job's own code moves its file access to other threads.
    fn on_job<R>(&self, id: u32, job_id: String, act: impl FnOnce(Store, Job) -> R + Send + 'static) -> Result<()>
    where
        R: Future<Output = Answer> + Send + 'static,
    {
        let (store, settle) = (self.jobs.clone(), Settle::new(id, &self.emitter));
        Ok(runtime::spawn(async move {
            let answer = match store.blocking(move |store| store.find(&job_id)).await {
                Ok(job) => act(store, job).await,
                Err(error) => Err(error),
            };
            settle.answer(answer);
        })?)
    }
}

fn new_job(request: NativeJobStart) -> NewJob {
    NewJob {
        id: request.job_id,
        program: match (request.text, request.argv) {
            (Some(text), _) => JobProgram::Text(text),
            (None, argv) => JobProgram::Argv(argv.unwrap_or_default()),
        },
        command: request.command,
        cwd: request.cwd.map(Into::into),
        env: zip(request.env_names, request.env_values),
        process_name: request.process_name,
        timeout_ms: (request.timeout > 0.0).then_some(request.timeout as u64),
        grace_ms: u64::from(request.grace_ms),
        limits: request.limits.map(process::limits),
        stdin: request.stdin.map(|bytes| bytes.to_vec()),
    }
}

fn shown(meta: &Meta) -> NativeJob {
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    let own = meta.own.as_ref();
    NativeJob {
        job_id: meta.job_id.clone(),
        dir: text(&meta.dir),
        output_file: text(&meta.output_file),
        exit_file: text(&meta.exit_file),
        pgid: meta.pgid.raw(),
        cgroup: own.and_then(|own| own.cgroup.as_deref()).map(text),
        process_name: meta.process_name.clone(),
        created_at: meta.created_at.clone(),
        command: own.map(|own| own.command.clone()),
        status: None,
    }
}

fn shown_status(found: &JobStatus) -> NativeJobStatus {
    let nothing = NativeJobStatus { state: "running".into(), alive: found.alive, ..NativeJobStatus::default() };
    match &found.state {
        JobState::Running => nothing,
        JobState::Crashed(life) => {
            let reason = if *life == JobLife::Rebooted { "reboot" } else { "killed" };
            NativeJobStatus { state: "crashed".into(), reason: Some(reason.into()), ..nothing }
        }
        JobState::Exited(record) => {
            let exited = NativeJobStatus { state: "exited".into(), ..nothing };
            match &record.end {
                None => NativeJobStatus { exit_code: Some(record.exit), ..exited },
                Some(end) => NativeJobStatus {
                    exit_code: end.exit_code,
                    signal: end.signal,
                    reason: Some(end.reason.as_str().into()),
                    ended_at: Some(end.ended_at.clone()),
                    duration: Some(end.duration_ms as f64),
                    output_lost: end.output_lost,
                    ..exited
                },
            }
        }
    }
}
