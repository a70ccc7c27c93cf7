//! What can be seen of the shell from outside, in `/proc`.

use super::transport::{Pipe, Transport};
use crate::driver::Suspicion;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use std::os::unix::fs::FileTypeExt;

/// So many looks in a row; the shell spends about a sixth of its time in the report.
const LOOP_SAMPLES: usize = 32;

/// Three things give a lost report away. The shell sleeps in the read of a token, having its pipe as standard input,
/// although it has taken the one it was sent (`set -n`: the report was skipped). It sleeps in its EXIT trap, waiting for
/// the order to go on, and has told neither its end nor that its state is saved (`enable -n printf; exit`). Or it runs
/// through the loop without end, since `set -n` or a function called `builtin` stands in for the waiting too: then its
/// standard output is the control pipe or its own, which it never is while a command runs.
pub fn suspicion(transport: &dyn Transport, shell: Pid, token_unread: bool) -> Option<Suspicion> {
    let shows = |fd: i32, pipe: Pipe| {
        let held = std::fs::read_link(format!("/proc/{shell}/fd/{fd}")).ok();
        held.is_some() && held == transport.link_name(pipe).ok()
    };
    let stat = Stat::read(shell)?;
    if stat.state == b'S' && (shows(0, Pipe::Token) && !token_unread || shows(0, Pipe::Resume)) {
        return Some(Suspicion::Waits);
    }
    let runs = stat.state == b'R' && (0..LOOP_SAMPLES).any(|_| shows(1, Pipe::Control) || shows(1, Pipe::BaseOutput));
    runs.then_some(Suspicion::Runs { cpu_ticks: stat.cpu_ticks })
}

/// Heap and stack of the shell (the sixth field of `/proc/<pid>/statm`, proc(5)).
pub fn private_bytes(shell: Pid) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{shell}/statm")).unwrap_or_default();
    statm.split(' ').nth(5).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// The shell's own descriptors above 2 that lead to pipes, FIFOs or sockets.
pub fn unsharable_descriptors(shell: Pid) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{shell}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
            let kind = std::fs::metadata(entry.path()).ok()?.file_type();
            (fd > 2 && (kind.is_fifo() || kind.is_socket())).then_some(fd)
        })
        .collect()
}
