//! Rules for calls that affect other processes.

use super::builder::{Builder, argument, refuse};
use super::refusal;
use nacre_protocol::confinement::Confinement;

/// Calls that copy the memory or the descriptors of another process. Debuggers do not need them: they use ptrace(2)
/// and /proc. With them, a program could copy the shell's socket.
const COPYING: &[libc::c_long] = &[libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd];

/// Other calls that reach into processes. Refused unless something else limits them to the session's.
const TRACING: &[libc::c_long] = &[libc::SYS_ptrace, libc::SYS_process_madvise, libc::SYS_kcmp];

/// Calls that set how a process is scheduled, or where its memory is. The first argument is the process.
const SCHEDULING: &[libc::c_long] = &[
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
];

/// The first argument of setpriority(2): the second one is a process.
const PRIO_PROCESS: u32 = 0;

/// The first argument of ioprio_set(2): the second one is a process, not a group or a user.
const IOPRIO_WHO_PROCESS: u32 = 1;

/// Refuses to reach into other processes. A filter sees numbers, and does not know the caller's own pid. So a rule
/// about pids can only let 0 through, which means the caller.
///
/// Neither Landlock nor another user's rights stop the calls that set limits and priorities: any process of the same
/// user can be their target, and for root any process at all. A processor limit of one second would kill the host.
pub fn refuse_others(filter: &mut Builder, confinement: &Confinement) {
    let refused = refuse(libc::EPERM);
    let tracing = TRACING.iter().filter(|_| confinement.refuses_ptrace);
    for number in COPYING.iter().chain(tracing) {
        filter.call(*number, |filter| filter.give(refusal(*number, confinement)));
    }
    filter.call(libc::SYS_prlimit64, limits);
    if confinement.keeps_dumpable {
        filter.call(libc::SYS_prctl, |filter| filter.equal(0, libc::PR_SET_DUMPABLE as u32, refused));
    }
    if !confinement.refuses_scheduling {
        return;
    }
    for number in SCHEDULING {
        filter.call(*number, |filter| filter.unless_zero(0, refused));
    }
    for (number, process) in [(libc::SYS_setpriority, PRIO_PROCESS), (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS)] {
        filter.call(number, |filter| {
            filter.load(argument(0));
            filter.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, process, 1, 0);
            filter.give(refused);
            filter.unless_zero(1, refused);
        });
    }
}

/// prlimit64(2): reading limits stays allowed, also those of other processes. The third argument points to new
/// limits; both halves of a pointer count. This holds in pid namespaces too: there, a command could limit its shell.
fn limits(filter: &mut Builder) {
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    filter.load(argument(0));
    filter.jump(equal, 0, 5, 0);
    filter.load(argument(2));
    filter.jump(equal, 0, 0, 2);
    filter.load(argument(2) + 4);
    filter.jump(equal, 0, 1, 0);
    filter.give(refuse(libc::EPERM));
}
