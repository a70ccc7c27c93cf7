//! Background processes of the plain engine: each runs in a new bash.

use super::context::{Internal, Session};
use super::plain::first_letter;
use super::processes::{Stage, Starting};
use crate::error::{Code, Error};
use crate::outbox::Descriptor;
use crate::process::StartRequest;
use crate::shell::plain_script;
use crate::sys;
use nacre_containment::pid::Identity;
use nacre_protocol::supervisor::{Order, Role, StartStep};

impl Session {
    /// Starts a background process from the state after the last finished command.
    pub(super) fn plain_process(&mut self, mut request: StartRequest) {
        let key = self.next_key();
        let new = &request.new;
        let limits = [new.limits.inherited.open_files, new.limits.inherited.processes];
        let has_terminal = new.terminal.is_some();
        let script = self.plain_script(&new.env, new.cwd.as_deref(), limits, |plan| {
            plain_script::process(plan, &new.command, has_terminal)
        });
        let script = match script {
            Ok(script) => script,
            Err(error) => return request.refuse(error),
        };
        let role =
            Role::Process { key, mark: self.mark(key), limits: new.limits.group.clone(), terminal: has_terminal };
        let order = Order::Start {
            role,
            arguments: plain_script::process_arguments(),
            first_descriptor: 0,
            cwd: (!self.config.cwd.is_dir()).then(|| "/".to_string()),
        };
        let started = sys::memory_file().and_then(|text| {
            sys::replace_contents(&text, &script)?;
            let (ready, theirs) = sys::pipe()?;
            sys::set_nonblocking(&ready)?;
            let (streams, outlets) = self.open_outlets(&mut request)?;
            if let Some(supervisor) = &self.link.supervisor {
                supervisor
                    .order_with(&order, streams.into_iter().chain([text, theirs].map(Descriptor::from)).collect());
            }
            Ok((ready, outlets))
        });
        match started {
            Ok((ready, outlets)) => {
                self.processes.add_plain(key, Starting { request, stage: Stage::Plain { ready, outlets } })
            }
            Err(error) => {
                let message = format!("process '{}' cannot be started: {error}", request.process.id);
                request.refuse(Error::new(Code::SpawnFailed, message));
            }
        }
    }

    /// Handles the start of a process's bash, which reports when its command begins.
    pub(super) fn plain_process_started(&mut self, key: u64, root: Identity, group: Option<String>) {
        let Some((request, ready, outlets)) = self.processes.take_plain(key) else { return self.drop_process(key) };
        self.processes.set_up(key, request, self.tree(key, root, group), outlets);
        let internal = self.internal.clone();
        tokio::spawn(async move {
            let received = first_letter(ready).await;
            let _ = internal.send(Internal::Process(key, received));
        });
    }

    /// Handles a process's bash that could not be started.
    pub(super) fn plain_process_failed(&mut self, key: u64, step: StartStep, errno: i32, detail: &str) {
        let Some((request, ..)) = self.processes.take_plain(key) else { return };
        request.refuse(self.start_error(step, errno, detail));
    }
}
