//! The seccomp filter: refuses system calls that no confined program needs, and namespaces that it must not create.
//!
//! It is a list of refusals. The kernel caches the result for every call that does not depend on arguments, so these
//! cost nothing.

mod builder;
mod calls;
mod modes;
mod processes;
mod programs;

use crate::broker::{observed_calls, renaming_calls, renaming_calls_of_32_bits};
use builder::{ARCH, Builder, NUMBER, argument, refuse};
use nacre_protocol::confinement::{Confinement, Sockets};
use std::io;

pub use builder::Program;
pub use calls::{describe as describe_refused, is_internet_socket};

/// Flags of clone(2), clone3(2) and unshare(2) that create namespaces, including the time namespace.
const NAMESPACE_FLAGS: u32 = 0x7E02_0080;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// The interface for programs with 32 bits.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE_OF_32_BITS: u32 = 0x4000_0003;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE_OF_32_BITS: u32 = 0x4000_0028;

/// On x86-64, system calls of the x32 interface have this bit. They would bypass a list of plain numbers.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

/// ioctl(2) requests that type into a terminal or paste into a console.
const TERMINAL_INJECTIONS: [u32; 2] = [0x5412, 0x541C];

/// A flag of sendto(2) and sendmsg(2) that connects immediately, bypassing the rules for connect(2).
const MSG_FASTOPEN: u32 = 0x2000_0000;

/// The beginning of a filter: it is for one interface of the kernel.
fn start() -> Builder {
    let mut filter = Builder::default();
    filter.load(ARCH);
    filter.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, ARCHITECTURE, 1, 0);
    filter.give(libc::SECCOMP_RET_KILL_PROCESS);
    #[cfg(target_arch = "x86_64")]
    {
        filter.load(NUMBER);
        filter.jump(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32_BIT, 0, 1);
        filter.give(refuse(libc::ENOSYS));
    }
    filter
}

/// The filter of a program that writes files for others: nothing can get the set-user-ID or set-group-ID bit.
///
/// `hides_groups`: it sees no supplementary groups. In a user namespace of one user it cannot leave them, and the virtiofsd of
/// QEMU 7.2 ends where it has some.
pub fn of_file_server(hides_groups: bool) -> Program {
    let mut filter = start();
    modes::refuse_set_id(&mut filter);
    if hides_groups {
        filter.call(libc::SYS_getgroups, |filter| filter.give(refuse(0)));
    }
    filter.give(libc::SECCOMP_RET_ALLOW);
    filter.0
}

/// The filter of a session without rules: it refuses nothing, and passes the calls that rename to the broker.
pub fn of_renames() -> Program {
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let passing = |numbers: &mut dyn Iterator<Item = libc::c_long>| {
        let mut filter = Builder::default();
        numbers.for_each(|number| filter.call(number, |filter| filter.give(libc::SECCOMP_RET_USER_NOTIF)));
        filter.give(libc::SECCOMP_RET_ALLOW);
        filter.0
    };
    let mut filter = Builder::default();
    let parts = [
        (ARCHITECTURE, passing(&mut renaming_calls())),
        (ARCHITECTURE_OF_32_BITS, passing(&mut renaming_calls_of_32_bits())),
    ];
    for (architecture, part) in parts {
        filter.load(ARCH);
        filter.jump(equal, architecture, 0, part.len() as u8);
        filter.0.extend(part);
    }
    filter.give(libc::SECCOMP_RET_ALLOW);
    filter.0
}

/// The interface of a call, for [`crate::broker`]: whether it is that for programs with 32 bits.
pub fn is_of_32_bits(architecture: u32) -> bool {
    architecture == ARCHITECTURE_OF_32_BITS
}

/// The filter of a confinement.
///
/// `fork_key` is a number that clone3(2) must have as its third argument, which the kernel ignores: its flags are
/// behind a pointer, where no filter can see them. The shell receives the key with each request to fork. Other
/// programs fall back to clone(2), as C libraries do on ENOSYS. Without a key, so does the shell.
///
/// `renames`: the broker gets the calls that rename.
pub fn program(confinement: &Confinement, fork_key: Option<u64>, renames: bool) -> Program {
    let mut filter = start();
    for number in calls::refused(confinement.refuses_ipc) {
        filter.call(number, |filter| filter.give(refusal(number, confinement)));
    }
    processes::refuse_others(&mut filter, confinement);
    modes::refuse_set_id(&mut filter);
    for number in [libc::SYS_clone, libc::SYS_unshare] {
        filter.call(number, |filter| filter.any_bit(0, NAMESPACE_FLAGS, refusal(number, confinement)));
    }
    let fork_key = fork_key.filter(|_| !confinement.keeps_dumpable);
    filter.call(libc::SYS_clone3, |filter| match fork_key {
        Some(key) => only_with_key(filter, key),
        None => filter.give(refuse(libc::ENOSYS)),
    });
    filter.call(libc::SYS_ioctl, |filter| {
        for request in TERMINAL_INJECTIONS {
            filter.equal(1, request, refuse(libc::EPERM));
        }
    });
    filter.call(libc::SYS_socket, |filter| sockets(filter, confinement));
    filter.call(libc::SYS_socketpair, |filter| {
        only_connected(filter, refuse(libc::EPERM));
        filter.load(argument(0));
        filter.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::AF_UNIX as u32, 1, 0);
        filter.give(refuse(libc::EPERM));
    });
    if confinement.brokered {
        filter.call(libc::SYS_connect, |filter| filter.give(libc::SECCOMP_RET_USER_NOTIF));
    }
    if confinement.sockets == Sockets::Tcp || confinement.programs.is_some() {
        for (number, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            filter.call(number, |filter| filter.any_bit(flags, MSG_FASTOPEN, refuse(libc::EPERM)));
        }
    }
    if confinement.programs.is_some() {
        programs::watch(&mut filter);
    }
    // Behind all that refuses such a call.
    let observed = observed_calls().filter(|_| confinement.observed.is_some());
    for number in observed.chain(renaming_calls().filter(|_| renames)) {
        filter.call(number, |filter| filter.give(libc::SECCOMP_RET_USER_NOTIF));
    }
    filter.give(libc::SECCOMP_RET_ALLOW);
    filter.0
}

/// How a call is refused: by the broker, if it is to be reported.
fn refusal(number: libc::c_long, confinement: &Confinement) -> u32 {
    let is_reported = confinement.brokered && calls::name(number).is_some();
    if is_reported { libc::SECCOMP_RET_USER_NOTIF } else { refuse(libc::EPERM) }
}

fn only_with_key(filter: &mut Builder, key: u64) {
    let wrong = refuse(libc::ENOSYS);
    for (offset, half) in [(argument(2), key as u32), (argument(2) + 4, (key >> 32) as u32)] {
        filter.load(offset);
        filter.jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, half, 1, 0);
        filter.give(wrong);
    }
}

/// The bits of a socket's type that are not flags.
const MASK_TYPE: u32 = 0xF;

/// Refuses Unix sockets of a type (the second argument) that can send to any name without connecting, even as one of
/// a pair: datagrams, and raw sockets, which the kernel turns into datagrams.
fn only_connected(filter: &mut Builder, refused: u32) {
    let jump_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    filter.load(argument(1));
    filter.op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, MASK_TYPE);
    filter.jump(jump_equal, libc::SOCK_STREAM as u32, 2, 0);
    filter.jump(jump_equal, libc::SOCK_SEQPACKET as u32, 1, 0);
    filter.give(refused);
}

/// socket(2): allows internet families as the rules say, and the kernel's own list of routes. Unix sockets lead to
/// other programs, so they need the broker; pairs (socketpair(2)) do not.
fn sockets(filter: &mut Builder, confinement: &Confinement) {
    let allowed = confinement.sockets;
    let refused = refusal(libc::SYS_socket, confinement);
    let jump_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    if confinement.brokered {
        let mut unix = Builder::default();
        only_connected(&mut unix, refused);
        unix.give(libc::SECCOMP_RET_ALLOW);
        filter.load(argument(0));
        filter.jump(jump_equal, libc::AF_UNIX as u32, 0, unix.0.len() as u8);
        filter.0.extend(unix.0);
    }
    if allowed == Sockets::Tcp {
        // TCP has two protocol numbers; other stream protocols are beyond Landlock's rule.
        filter.load(argument(2));
        filter.jump(jump_equal, 0, 2, 0);
        filter.jump(jump_equal, libc::IPPROTO_TCP as u32, 1, 0);
        filter.give(refused);
        filter.load(argument(1));
        filter.op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, MASK_TYPE);
        filter.jump(jump_equal, libc::SOCK_STREAM as u32, 3, 0);
        // A raw netlink socket for routes stays allowed.
        filter.load(argument(0));
        filter.jump(jump_equal, libc::AF_NETLINK as u32, 1, 0);
        filter.give(refused);
    }
    filter.load(argument(0));
    if allowed != Sockets::None {
        for family in [libc::AF_INET, libc::AF_INET6] {
            filter.jump(jump_equal, family as u32, 0, 1);
            filter.give(libc::SECCOMP_RET_ALLOW);
        }
    }
    filter.jump(jump_equal, libc::AF_NETLINK as u32, 1, 0);
    filter.give(refused);
    filter.equal(2, libc::NETLINK_ROUTE as u32, libc::SECCOMP_RET_ALLOW);
    filter.give(refused);
}

/// Installs a filter for this thread and everything it starts. Needs no_new_privs.
pub fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel copies the program, which outlives the call.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
