//! What a program with hosts of its own needs, so that nothing else gets to run in its process.
//!
//! The kernel keeps other processes out if ptrace(2) and its kind are refused and /proc is read-only. What is left are libraries:
//! the loader maps those that variables and configuration files name. And the answers of the kernel: filters could forge them.

use super::builder::{Builder, argument, refuse};

/// The loader of glibc sets this flag for each part of a library, also for one without code. The kernel ignores it.
const MAP_DENYWRITE: u32 = 0x0800;

/// The flag of personality(2) by which all memory that can be read is executable.
const READ_IMPLIES_EXEC: u32 = 0x0040_0000;

/// The argument by which personality(2) only reports.
const REPORT: u32 = 0xFFFF_FFFF;

/// Passes each mapping of a library or other code to the broker. Refuses the calls by which a process says that it executes another
/// file (prctl(2), `PR_SET_MM`) or makes data executable, and filters, which what it executes inherits: with an answer of their own
/// to socket(2), a program would connect a socket that others have.
pub fn watch(filter: &mut Builder) {
    let refused = refuse(libc::EPERM);
    let test_bit = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    filter.call(libc::SYS_prctl, |filter| {
        filter.equal(0, libc::PR_SET_MM as u32, refused);
        // As a kernel without filters.
        filter.equal(0, libc::PR_SET_SECCOMP as u32, refuse(libc::EINVAL));
    });
    filter.call(libc::SYS_seccomp, |filter| filter.give(refuse(libc::ENOSYS)));
    filter.call(libc::SYS_personality, |filter| {
        filter.load(argument(0));
        filter.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, REPORT, 3, 0);
        filter.any_bit(0, READ_IMPLIES_EXEC, refused);
    });
    filter.call(libc::SYS_mmap, |filter| {
        filter.load(argument(3));
        // Neither memory without a file, nor data.
        filter.jump(test_bit, libc::MAP_ANONYMOUS as u32, 4, 0);
        filter.jump(test_bit, MAP_DENYWRITE, 2, 0);
        filter.load(argument(2));
        filter.jump(test_bit, libc::PROT_EXEC as u32, 0, 1);
        filter.give(libc::SECCOMP_RET_USER_NOTIF);
    });
}
