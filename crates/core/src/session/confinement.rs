//! Confining a session: the order to its supervisor, and pids in its namespace.

use super::context::Session;
use super::pid_namespace::Inside;
use crate::error::{Code, Error};
use crate::outbox::Descriptor;
use crate::proxy::Proxy;
use crate::shell::listener;
use crate::supervisor::Supervisor;
use crate::sys;
use nacre_containment::pid::Pid;
use nacre_protocol::supervisor::Order;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

impl Session {
    /// Orders the supervisor to confine everything that it starts.
    pub(super) fn confine(&self) -> io::Result<()> {
        let (Some(confinement), Some(supervisor)) = (&self.config.confinement, &self.link.supervisor) else {
            return Ok(());
        };
        let file = sys::memory_file()?;
        sys::replace_contents(&file, &serde_json::to_vec(confinement.as_ref())?)?;
        let channel_name = listener::name()?.to_string();
        let order = Order::Confine { fork_key: self.wait.fork_key(), channel_name };
        supervisor.order_with(&order, vec![Descriptor::from(file)]);
        Ok(())
    }

    /// Records that the session is confined.
    pub(super) fn confined(&mut self, init: Option<Pid>, listener: Option<OwnedFd>) {
        tracing::debug!(log = self.config.log.id(), session = %self.config.id, ?init, "the session is confined");
        self.link.inside = init.map(Inside::new);
        self.link.proxy = self.config.proxied.as_ref().and_then(|proxied| {
            let listener = listener.or_else(|| proxied.listener.as_ref()?.try_clone().ok())?;
            let started = Proxy::start(listener, &proxied.allow, proxied.denials.clone());
            started.inspect_err(|error| {
                tracing::error!(log = self.config.log.id(), session = %self.config.id, %error, "the proxy cannot be started");
            })
            .ok()
        });
    }

    /// Translates a pid inside the session's namespace to a pid of this process's. `None` if the process has ended.
    pub(super) fn outside(&self, pid: i32) -> Option<Pid> {
        let Some(inside) = &self.link.inside else { return Pid::new(pid) };
        inside.outside(pid, self.link.supervisor.as_ref().map(Supervisor::pid))
    }

    /// The root directory of the session's programs, as a path that this process can open.
    pub(super) fn root(&self) -> PathBuf {
        let has_own = self.config.confinement.as_ref().is_some_and(|confinement| confinement.namespaces.is_some());
        let shell = self.link.shell_pid.or(self.link.standby.as_ref().map(|(_, pid)| *pid)).filter(|_| has_own);
        shell.map_or_else(|| PathBuf::from("/"), |pid| PathBuf::from(format!("/proc/{pid}/root")))
    }

    /// Why a program cannot be confined.
    pub(super) fn isolation_error(&self, errno: i32, detail: &str) -> Error {
        let known = self.link.not_confined.as_deref().unwrap_or(detail);
        let reason = if known.is_empty() { io::Error::from_raw_os_error(errno).to_string() } else { known.to_string() };
        Error::new(Code::IsolationUnsupported, format!("the session cannot be isolated: {reason}"))
    }
}
