//! The supervisor's only reap loop.

use crate::process_setup::Setting;
use crate::process_table::{ProcessTable, Reaped};
use crate::spawn::child_pid;
use nacre_containment::pid::Pid;
use nacre_protocol::supervisor::Report;
use rustix::process::{WaitOptions, waitpid};

/// The end of a child: exit code or signal number.
pub struct Ended {
    /// The child.
    pub pid: Pid,
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, of any number.
    pub signal: Option<i32>,
}

/// Why the reap loop stopped.
#[derive(PartialEq, Eq)]
enum ReaperStop {
    Ordered,
    NoneEnded,
    Childless,
}

/// Reaps all ended children and reports those that the host tracks. Returns true if no child is left.
pub fn reap(table: &mut ProcessTable, setting: &Setting) -> bool {
    reap_until(table, setting, || false) == ReaperStop::Childless
}

/// Does the same, but stops and returns false if an order is waiting.
///
/// A standby that the host promotes can run a command and end before the promotion order is read. Such an order was
/// sent before the end. So once the end is visible the order is waiting, and is checked for before the child is
/// reaped.
pub fn reap_unless_ordered(table: &mut ProcessTable, setting: &Setting, is_ordered: impl Fn() -> bool) -> bool {
    reap_until(table, setting, is_ordered) != ReaperStop::Ordered
}

fn reap_until(table: &mut ProcessTable, setting: &Setting, is_ordered: impl Fn() -> bool) -> ReaperStop {
    let stop = loop {
        let child = match peek() {
            Ok(Some(child)) => child,
            Ok(None) => break ReaperStop::NoneEnded,
            Err(Childless) => break ReaperStop::Childless,
        };
        if is_ordered() {
            break ReaperStop::Ordered;
        }
        if let Some(ended) = collect(child) {
            report(&ended, table, setting);
        }
    };
    table.tidy();
    stop
}

/// No child is left.
pub struct Childless;

/// Finds a child that has ended, without reaping it.
fn peek() -> Result<Option<i32>, Childless> {
    peek_at(libc::P_ALL, 0)
}

/// True for a child that has ended and is not reaped yet.
pub fn has_ended(child: Pid) -> bool {
    matches!(peek_at(libc::P_PID, child.raw().cast_unsigned()), Ok(Some(_)))
}

fn peek_at(kind: libc::idtype_t, id: libc::id_t) -> Result<Option<i32>, Childless> {
    // SAFETY: all zeros are a valid siginfo_t, and waitid stores one through the pointer.
    let (found, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let found = libc::waitid(kind, id, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT);
        (found, info)
    };
    // SAFETY: waitid has filled in the fields of SIGCHLD, or left zeros.
    let child = unsafe { info.si_pid() };
    if found < 0 { Err(Childless) } else { Ok((child > 0).then_some(child)) }
}

fn report(ended: &Ended, table: &mut ProcessTable, setting: &Setting) {
    let Ended { pid, code, signal } = *ended;
    match table.reaped(pid) {
        Reaped::Shell => setting.report(&Report::ShellEnded { pid, code, signal }),
        Reaped::Standby => setting.report(&Report::StandbyEnded { pid }),
        Reaped::Process(key) => {
            let out_of_memory = table.processes.ran_out_of_memory(key);
            let asked = table.processes.asked(key);
            setting.report(&Report::ProcessEnded { key, code, signal, out_of_memory, asked });
        }
        Reaped::Orphan => {}
    }
}

/// Reaps any child that has ended; `None` if none has.
///
/// # Errors
/// There is no child.
pub fn collect_any() -> Result<Option<Ended>, Childless> {
    peek().map(|child| child.and_then(collect))
}

fn collect(child: i32) -> Option<Ended> {
    let (pid, status) = waitpid(rustix::process::Pid::from_raw(child), WaitOptions::NOHANG).ok()??;
    let pid = child_pid(pid.as_raw_nonzero().get());
    Some(Ended { pid, code: status.exit_status(), signal: status.terminating_signal() })
}

#[cfg(test)]
#[path = "reap_tests.rs"]
mod tests;
