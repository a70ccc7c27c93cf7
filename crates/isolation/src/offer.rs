//! The isolation that this machine offers, determined by probing.

use crate::{broker, foreign, landlock, namespaces};
use nacre_protocol::confinement::Namespaces;
use serde::{Deserialize, Serialize};

/// Namespaces that can be created here, or the reason why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Whether a user namespace must come first, since this process may not create the others directly.
    pub needs_user: bool,
    /// Mount namespaces; every other kind needs them.
    pub mounts: Result<(), String>,
    /// Pid namespaces with their own `/proc`.
    pub processes: Result<(), String>,
    /// Network namespaces.
    pub network: Result<(), String>,
    /// The version of Landlock's interface; 0 without Landlock.
    pub landlock: i32,
    /// seccomp filters work.
    pub seccomp: bool,
    /// Whether connections can be made on behalf of programs.
    pub broker: Result<(), String>,
    /// Whether connections can be redirected to the proxy on behalf of programs that ignore it.
    pub redirects: Result<(), String>,
    /// Whether the broker can read processes that are not dumpable: root with CAP_SYS_PTRACE can.
    pub reads_undumpable: bool,
}

/// Probes everything in short-lived children. Call it from a single-threaded process.
pub fn probe() -> Offer {
    let kinds = |user| Namespaces { user, ipc: true, network: false, processes: false };
    let alone = namespaces::try_out(kinds(false));
    let needs_user = alone.is_err();
    let mounts = alone.or_else(|_| namespaces::try_out(kinds(true)));
    let with = |kinds| mounts.clone().and_then(|()| namespaces::try_out(kinds));
    let broker = has_broker(needs_user && mounts.is_ok());
    Offer {
        needs_user,
        processes: with(Namespaces { processes: true, ..kinds(needs_user) }),
        network: with(Namespaces { network: true, ..kinds(needs_user) }),
        landlock: landlock::version(),
        seccomp: has_seccomp(),
        redirects: mounts.clone().and(broker.clone()).and_then(|()| broker::can_redirect()),
        broker,
        reads_undumpable: reads_undumpable(),
        mounts,
    }
}

fn has_broker(user: bool) -> Result<(), String> {
    foreign::try_out(user, true).map_err(|error| error.to_string())?;
    broker::try_out_listener()
}

fn reads_undumpable() -> bool {
    foreign::try_out(false, false).is_ok()
}

/// True if the kernel supports filters and lets this process query them (seccomp(2), `SECCOMP_GET_ACTION_AVAIL`).
fn has_seccomp() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one number through the pointer.
    unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) == 0 }
}
