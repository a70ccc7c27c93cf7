//! The native class's methods for durable jobs.

use crate::piece::Piece;
use crate::process;
use crate::sandbox::NativeSandbox;
use crate::settle::Pending;
use crate::types::{NativeJob, NativeJobOutput, NativeJobStart, NativeJobStatus};
use crate::variables::zip;
use nacre_containment::job::meta::Meta;
use nacre_core::error::{Code, Error};
use nacre_core::jobs::status::{JobLife, JobState, JobStatus, status};
use nacre_core::jobs::{Job, NewJob, Store, cancel, follow, list, reader, remove};
use nacre_core::runtime;
use nacre_protocol::job::JobProgram;
use napi::bindgen_prelude::{Result, ToNapiValue};
use napi_derive::napi;
use std::time::Duration;

#[napi]
impl NativeSandbox {
    /// Starts a durable job. Ends once the command has been released.
    #[napi(catch_unwind)]
    pub fn start_job(&self, id: u32, request: NativeJobStart) -> Result<Pending<NativeJob>> {
        let (sandbox, engine) = (self.sandbox.clone(), runtime::handle()?);
        self.on_disk(id, move |store| {
            let new = new_job(request);
            let launch = sandbox.job_launch(new.limits.as_ref(), new.cwd.as_deref())?;
            Ok(shown(&store.start(new, launch, &engine)?))
        })
    }

    /// Reads the state of a job.
    #[napi(catch_unwind)]
    pub fn job_status(&self, id: u32, job_id: String) -> Result<Pending<NativeJobStatus>> {
        self.on_disk(id, move |store| Ok(shown_status(&status(&store.find(&job_id)?)?)))
    }

    /// Reads a part of a job's output: at most `maxBytes` from `cursor` on.
    #[napi(catch_unwind)]
    pub fn read_job(&self, id: u32, job_id: String, cursor: f64, max_bytes: u32) -> Result<Pending<NativeJobOutput>> {
        self.on_disk(id, move |store| {
            let slice = reader::read(&store.find(&job_id)?, cursor as u64, max_bytes as usize)?;
            let status = shown_status(&slice.status);
            Ok(NativeJobOutput { status, data: Piece(slice.bytes), at_end: slice.at_end })
        })
    }

    /// Waits for more than `cursor` bytes of output, or the end of the job; for null, only for that.
    #[napi(catch_unwind)]
    pub fn await_job(&self, id: u32, job_id: String, cursor: Option<f64>) -> Result<Pending<()>> {
        let wait = self.waits.open(id);
        self.on_job(id, job_id, move |_, job| async move {
            wait.run(follow::news(&job, cursor.map(|cursor| cursor as u64))).await.unwrap_or(Ok(()))
        })
    }

    /// Cancels a job. Ends once all processes of the job have exited. Null: the grace time from its start.
    #[napi(catch_unwind)]
    pub fn cancel_job(&self, id: u32, job_id: String, grace_ms: Option<u32>) -> Result<Pending<()>> {
        let grace = grace_ms.map(|ms| Duration::from_millis(u64::from(ms)));
        self.on_job(id, job_id, move |_, job| async move { cancel::cancel(&job, grace).await })
    }

    /// Finds a job, if there is such a job.
    #[napi(catch_unwind)]
    pub fn attach_job(&self, id: u32, job_id: String) -> Result<Pending<Option<NativeJob>>> {
        self.on_disk(id, move |store| {
            let found = match store.find(&job_id) {
                Ok(job) => list::attach(&job)?,
                Err(error) if error.code == Code::JobNotFound => None,
                Err(error) => return Err(error),
            };
            Ok(found.map(|(meta, _)| shown(&meta)))
        })
    }

    /// Lists all jobs.
    #[napi(catch_unwind)]
    pub fn list_jobs(&self, id: u32) -> Result<Pending<Vec<NativeJob>>> {
        self.on_disk(id, move |store| {
            let all = list::list(store)?.into_iter();
            let jobs = all.map(|(meta, found)| NativeJob { status: Some(shown_status(&found)), ..shown(&meta) });
            Ok(jobs.collect())
        })
    }

    /// Removes a job's directory.
    #[napi(catch_unwind)]
    pub fn remove_job(&self, id: u32, job_id: String) -> Result<Pending<()>> {
        self.on_job(id, job_id, move |store, job| async move { remove::remove(&store, &job).await })
    }
}

impl NativeSandbox {
    /// Runs work on files, on a thread that may block.
    fn on_disk<T: ToNapiValue + Send + 'static>(
        &self,
        id: u32,
        act: impl FnOnce(&Store) -> std::result::Result<T, Error> + Send + 'static,
    ) -> Result<Pending<T>> {
        let store = self.jobs.clone();
        self.settle(id, async move { store.blocking(act).await })
    }

    /// Waits for a job on the engine's thread. The job's own code moves its file access to other threads.
    fn on_job<R>(
        &self,
        id: u32,
        job_id: String,
        act: impl FnOnce(Store, Job) -> R + Send + 'static,
    ) -> Result<Pending<()>>
    where
        R: Future<Output = std::result::Result<(), Error>> + Send + 'static,
    {
        let store = self.jobs.clone();
        self.settle(id, async move {
            let job = store.blocking(move |store| store.find(&job_id)).await?;
            act(store, job).await
        })
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
