//! The system calls that the filter refuses whatever is in memory, with their names.

macro_rules! named {
    ($($call:ident),* $(,)?) => { &[$((libc::$call, stringify!($call))),*] };
}

/// The number of a call, and its name behind `SYS_`.
type Named = (libc::c_long, &'static str);

/// open_tree_attr (Linux 6.15), which the libc crate does not have yet.
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;

/// Refused whatever their arguments.
const REFUSED: &[Named] = named![
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_setns,
    SYS_open_by_handle_at,
    SYS_bpf,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_syslog,
    SYS_vhangup,
    SYS_fanotify_init,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_lookup_dcookie,
    SYS_nfsservctl,
];

/// Refused only on x86-64.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[Named] = named![SYS_iopl, SYS_ioperm, SYS_kexec_file_load];
#[cfg(target_arch = "aarch64")]
const REFUSED_HERE: &[Named] = &[];

/// System V objects and POSIX message queues. Without an IPC namespace these are the machine's, and any number can
/// name one.
const IPC: &[Named] = named![
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
];

/// Refused with certain numbers as arguments, or with some confinements.
const SOMETIMES: &[Named] = named![SYS_socket, SYS_clone, SYS_unshare, SYS_ptrace];

/// What programs try first, and do without: it would be in every report.
const QUIET: [libc::c_long; 3] = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

const NAMESPACES: [(u64, &str); 8] = [
    (libc::CLONE_NEWUSER as u64, "CLONE_NEWUSER"),
    (libc::CLONE_NEWNS as u64, "CLONE_NEWNS"),
    (libc::CLONE_NEWPID as u64, "CLONE_NEWPID"),
    (libc::CLONE_NEWNET as u64, "CLONE_NEWNET"),
    (libc::CLONE_NEWIPC as u64, "CLONE_NEWIPC"),
    (libc::CLONE_NEWUTS as u64, "CLONE_NEWUTS"),
    (libc::CLONE_NEWCGROUP as u64, "CLONE_NEWCGROUP"),
    (0x80, "CLONE_NEWTIME"),
];

const FAMILIES: [(i32, &str); 8] = [
    (libc::AF_UNIX, "AF_UNIX"),
    (libc::AF_INET, "AF_INET"),
    (libc::AF_INET6, "AF_INET6"),
    (libc::AF_NETLINK, "AF_NETLINK"),
    (libc::AF_PACKET, "AF_PACKET"),
    (libc::AF_ALG, "AF_ALG"),
    (libc::AF_VSOCK, "AF_VSOCK"),
    (libc::AF_BLUETOOTH, "AF_BLUETOOTH"),
];

const TYPES: [(i32, &str); 4] = [
    (libc::SOCK_STREAM, "SOCK_STREAM"),
    (libc::SOCK_DGRAM, "SOCK_DGRAM"),
    (libc::SOCK_RAW, "SOCK_RAW"),
    (libc::SOCK_SEQPACKET, "SOCK_SEQPACKET"),
];

/// The numbers of the calls that are refused whatever their arguments.
pub fn refused(with_ipc: bool) -> impl Iterator<Item = libc::c_long> {
    let ipc = IPC.iter().filter(move |_| with_ipc);
    REFUSED.iter().chain(REFUSED_HERE).chain(ipc).map(|(number, _)| *number).chain([SYS_OPEN_TREE_ATTR])
}

/// The name of a refused call as a report has it, without its arguments. `None`: it is not reported.
pub fn name(call: libc::c_long) -> Option<&'static str> {
    let mut known = REFUSED.iter().chain(REFUSED_HERE).chain(IPC).chain(SOMETIMES);
    let (_, name) = known.find(|(number, _)| *number == call && !QUIET.contains(number))?;
    name.strip_prefix("SYS_")
}

/// Whether a call makes a socket to the internet.
pub fn is_internet_socket(call: libc::c_long, arguments: &[u64; 6]) -> bool {
    call == libc::SYS_socket && matches!(arguments[0] as i32, libc::AF_INET | libc::AF_INET6)
}

/// A refused call with what it was refused for.
pub fn describe(call: libc::c_long, arguments: &[u64; 6]) -> Option<String> {
    let name = name(call)?;
    let [first, second, ..] = *arguments;
    Some(match call {
        libc::SYS_clone | libc::SYS_unshare => {
            let wanted = NAMESPACES.iter().filter(|(flag, _)| first & flag != 0);
            format!("{name}({})", wanted.map(|(_, name)| *name).collect::<Vec<_>>().join(" | "))
        }
        libc::SYS_socket => {
            let shown = |number: i32, names: &[(i32, &str)]| {
                let found = names.iter().find(|(known, _)| *known == number);
                found.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
            };
            format!("{name}({}, {})", shown(first as i32, &FAMILIES), shown((second & 0xF) as i32, &TYPES))
        }
        _ => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::observed_calls;

    #[test]
    fn no_refused_call_is_among_those_that_the_broker_lets_through() {
        let named = REFUSED.iter().chain(REFUSED_HERE).chain(IPC).chain(SOMETIMES).map(|(number, _)| *number);
        let reported: Vec<libc::c_long> = named.filter(|number| name(*number).is_some()).collect();
        assert!(reported.len() > 50 && !reported.contains(&libc::SYS_connect));
        assert_eq!(observed_calls().find(|number| reported.contains(number)), None);
    }

    #[test]
    fn a_report_says_what_a_call_was_refused_for() {
        let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::SIGCHLD;
        let namespaces = describe(libc::SYS_clone, &[flags as u64, 0, 0, 0, 0, 0]);
        assert_eq!(namespaces.as_deref(), Some("clone(CLONE_NEWUSER | CLONE_NEWNS)"));
        let kind = (libc::SOCK_RAW | libc::SOCK_CLOEXEC) as u64;
        let socket = describe(libc::SYS_socket, &[libc::AF_PACKET as u64, kind, 0, 0, 0, 0]);
        assert_eq!(socket.as_deref(), Some("socket(AF_PACKET, SOCK_RAW)"));
        let is_to_internet = |family: i32| is_internet_socket(libc::SYS_socket, &[family as u64, kind, 0, 0, 0, 0]);
        let families = [libc::AF_PACKET, libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
        assert_eq!(families.map(is_to_internet), [false, false, true, true]);
        assert_eq!(describe(libc::SYS_socket, &[99, 77, 0, 0, 0, 0]).as_deref(), Some("socket(99, 13)"));
        assert_eq!(describe(libc::SYS_mount, &[0; 6]).as_deref(), Some("mount"));
        assert_eq!(describe(libc::SYS_io_uring_setup, &[0; 6]), None);
    }
}
