//! The supervisor's only reap loop.

use crate::process_setup::Setting;
use crate::process_table::{ProcessTable, Reaped};
use crate::spawn::child_pid;
use nacre_containment::pid::Pid;
use nacre_protocol::supervisor::Report;

/// For waitpid: every child.
const ANY: i32 = -1;

/// How a child ended: exit code or signal number.
struct Ended {
    pid: Pid,
    code: Option<i32>,
    signal: Option<i32>,
}

enum Wait {
    Ended(Ended),
    NoneEnded,
    Childless,
}

/// Reaps every child that has ended and reports those that the host tracks. Returns true when no child is left at all.
pub fn reap(table: &mut ProcessTable, setting: &Setting) -> bool {
    let childless = loop {
        match next_ended(ANY) {
            Wait::Ended(ended) => report(&ended, table, setting),
            Wait::NoneEnded => break false,
            Wait::Childless => break true,
        }
    };
    table.tidy();
    childless
}

/// The same, but stops at an order that is waiting, and then returns false.
///
/// A standby that the host promotes can run a command and end before the order to promote it is read. Such an order was
/// sent before the end: it is waiting once the end can be seen, so it is looked for between seeing an end and reaping it.
pub fn reap_unless_ordered(table: &mut ProcessTable, setting: &Setting, is_ordered: impl Fn() -> bool) -> bool {
    while let Some(child) = peek() {
        if is_ordered() {
            return false;
        }
        if let Wait::Ended(ended) = next_ended(child) {
            report(&ended, table, setting);
        }
    }
    table.tidy();
    true
}

/// A child that has ended. It stays.
fn peek() -> Option<i32> {
    // SAFETY: all zeros are a valid siginfo_t, and waitid stores one through the pointer.
    let (found, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let found = libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT);
        (found, info)
    };
    // SAFETY: waitid has filled in the fields of SIGCHLD, or left zeros.
    let child = unsafe { info.si_pid() };
    (found == 0 && child > 0).then_some(child)
}

fn report(ended: &Ended, table: &mut ProcessTable, setting: &Setting) {
    let Ended { pid, code, signal } = *ended;
    match table.reaped(pid) {
        Reaped::Shell => setting.report(&Report::ShellEnded { pid, code, signal }),
        Reaped::Standby => setting.report(&Report::StandbyEnded { pid }),
        Reaped::Process(key) => {
            let out_of_memory = table.processes.ran_out_of_memory(key);
            let alone = table.processes.was_alone(key);
            setting.report(&Report::ProcessEnded { key, code, signal, out_of_memory, alone });
        }
        Reaped::Orphan => {}
    }
}

/// Not by nix: it has no name for the signals 32 and up, and would reap such a child without saying which it was.
fn next_ended(child: i32) -> Wait {
    loop {
        let mut status = 0;
        // SAFETY: waitpid stores an int through the pointer.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 => return Wait::NoneEnded,
            raw if raw > 0 => {
                let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
                let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
                if code.is_some() || signal.is_some() {
                    return Wait::Ended(Ended { pid: child_pid(raw), code, signal });
                }
            }
            _ if crate::spawn::errno() == libc::EINTR => {}
            _ => return Wait::Childless,
        }
    }
}

#[cfg(test)]
#[path = "reap_tests.rs"]
mod tests;
