//! The pid namespace of a session, and its processes' pids in it.

use nacre_containment::pid::Pid;
use nacre_containment::proc_table;
use nacre_isolation::namespaces;
use std::fs::File;

/// The pid namespace of a session, seen from outside.
pub(super) struct Inside {
    init: Pid,
    /// The namespace, if it can be opened.
    namespace: Option<File>,
}

impl Inside {
    pub(super) fn new(init: Pid) -> Self {
        Self { init, namespace: File::open(format!("/proc/{init}/ns/pid")).ok() }
    }

    /// The namespace's init, which adopts orphans.
    pub(super) fn init(&self) -> Pid {
        self.init
    }

    /// Translates a pid inside the namespace to a pid of this process's. `None` if the process has ended, or this process
    /// cannot look: then the caller gives the fork up.
    ///
    /// From Linux 6.11 on, the kernel translates it. On older kernels, the supervisor's children are searched by the
    /// numbers that `/proc` lists for each namespace.
    pub(super) fn outside(&self, pid: i32, supervisor: Option<Pid>) -> Option<Pid> {
        if let Some(outside) = self.namespace.as_ref().and_then(|file| namespaces::pid_from(file, pid)) {
            return Pid::new(outside);
        }
        let mut children = proc_table::children(supervisor?).ok()?.into_iter().filter(|child| *child != self.init);
        children.find(|child| number_inside(*child) == Some(pid))
    }
}

/// The pid of a process in its innermost pid namespace.
fn number_inside(pid: Pid) -> Option<i32> {
    let status = proc_table::read_file(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status).into_owned();
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().next_back()?.parse().ok()
}
