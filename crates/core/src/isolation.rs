//! The isolation settings of a sandbox, and the mechanisms that this machine offers.

use crate::error::{Code, Error};
use crate::functions::Functions;
use crate::proxy::{Denials, Hosts, Policy, ProgramHosts, Requests};
use crate::questions::Asking;
use crate::session::Proxied;
use nacre_isolation::mount_table::MountTable;
use nacre_isolation::network;
use nacre_isolation::offer::Offer;
use nacre_isolation::programs::{self, Program};
use nacre_protocol::confinement::Confinement;
use nacre_protocol::confinement::{Namespaces, Network, Rules};
use nacre_protocol::host_programs::{HostProgram, IN_PROJECT, WhileMissing};
use nacre_protocol::standing::RunAs;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The rules of a session: what its programs may read, write, reach and see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// The rules. Paths are absolute, without links.
    pub rules: Rules,
    /// What the proxy lets through, if the rules allow no other connections.
    pub hosts: Hosts,
}

/// The mechanism that enforces each kind of rule on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// `namespace`, `landlock` or `none`.
    pub filesystem: &'static str,
    /// `namespace`, `landlock+seccomp`, `seccomp` or `none`.
    pub network: &'static str,
    /// `namespace`, `landlock` or `none`.
    pub processes: &'static str,
    /// `mounted` or `variables`: how programs learn to trust what decrypts connections.
    pub trust: &'static str,
    /// One sentence for each gap.
    pub notes: Vec<String>,
}

/// The mechanisms that this machine offers. The supervisor's program determines them once, because probing needs forks
/// and this process may be large.
///
/// # Errors
/// `SPAWN_FAILED` if the supervisor cannot run.
pub fn offer(supervisor: &Path, switch: Option<&str>) -> Result<Offer, Error> {
    static OFFER: OnceLock<Result<Offer, String>> = OnceLock::new();
    let offer = OFFER.get_or_init(|| {
        let output =
            crate::supervisor::program(supervisor).arg("--offer").output().map_err(|error| error.to_string())?;
        let mut offer: Offer = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        limit(&mut offer, switch);
        Ok(offer)
    });
    offer.clone().map_err(|reason| {
        let message = format!("cannot run {}: {reason}", supervisor.display());
        Error::new(Code::SpawnFailed, message)
    })
}

/// What of this program answers for the network of a session.
#[derive(Clone, Debug, Default)]
pub struct Answering {
    /// Answers about hosts that no list has, and about requests.
    pub asking: Option<Asking>,
    /// Answers requests, and knows values.
    pub functions: Functions,
}

/// Where the refused connections of a confinement are reported, if something refuses them. `requests`: whose feed gets them.
///
/// # Errors
/// `SPAWN_FAILED` if no socket is available.
pub fn denials(
    confinement: &Confinement,
    answering: &Answering,
    requests: &Requests,
) -> Result<Option<Denials>, Error> {
    let refuses = confinement.brokered || confinement.network == Network::Proxy;
    let new = || Denials::new(answering.asking.clone(), confinement.learns(), requests);
    refuses
        .then(new)
        .transpose()
        .map_err(|error| Error::cannot("open a socket for reports of refused connections", &error))
}

/// The proxy of a confinement that needs one, and its port. `requests`: where its requests are reported.
///
/// # Errors
/// `SPAWN_FAILED` if no port is available.
pub fn proxied(
    confinement: &mut Confinement,
    hosts: &Hosts,
    functions: &Functions,
    denials: Option<Denials>,
    requests: Requests,
) -> Result<Option<Proxied>, Error> {
    let Some(denials) = denials.filter(|_| confinement.network == Network::Proxy) else { return Ok(None) };
    let is_inside = confinement.namespaces.is_some_and(|namespaces| namespaces.network);
    let listener = (!is_inside).then(|| network::listen_on_loopback(0)).transpose().and_then(|listener| {
        confinement.proxy_port = Some(match &listener {
            Some(listener) => network::port_of(listener)?,
            None => network::PROXY_PORT,
        });
        Ok(listener.map(Arc::new))
    });
    let listener = listener.map_err(|error| Error::cannot("open a port for the session's proxy", &error))?;
    let (policy, programs) = Policy::new(hosts, denials, functions, requests)
        .map_err(|error| Error::cannot("make the authority that decrypts the session's connections", &error))?;
    let names = hosts.programs.iter().map(|program| program.name.clone());
    let programs = names.zip(programs).collect();
    Ok(Some(Proxied { policy, programs, listener }))
}

/// Lets a confinement know the programs that have hosts of their own. `shared`: trees in which other sessions of its sandbox can
/// write. `path`: the variable PATH of the session. `user`: that of its programs, if not this process's.
///
/// # Errors
/// Why a program could take the place of another one.
pub fn know_programs(
    programs: &[ProgramHosts],
    confinement: &mut Confinement,
    mounts: &MountTable,
    shared: &[PathBuf],
    path: Option<&OsStr>,
    user: Option<u32>,
) -> Result<(), String> {
    let has = |kind: fn(Namespaces) -> bool| confinement.namespaces.is_some_and(kind);
    if !(has(|own| own.network) && confinement.brokered) {
        return Err("without network namespaces and a broker, connections of programs cannot be told apart".into());
    }
    if !has(|own| own.processes) {
        return Err("without a pid namespace, others can reach into a program: set isolation.processes to 'own'".into());
    }
    if confinement.learns() {
        return Err("with isolation.learn, programs could write to each other: leave one of the two out".into());
    }
    let named: Vec<_> = programs.iter().map(|one| Program { name: &one.name, files: &one.files }).collect();
    let user = user.map_or_else(RunAs::own, |uid| RunAs { uid, gid: uid, groups: Vec::new() });
    confinement.programs = Some(programs::resolve(&named, confinement, mounts, shared, path, &user)?);
    confinement.refuses_ptrace = true;
    Ok(())
}

/// The variables by which programs find the proxy, in upper and lower case. If the session has its own loopback
/// interface, programs reach its servers directly, unless the list refers to the machine's loopback.
pub fn proxy_variables(port: u16, confinement: &Confinement, allow: &[String]) -> Vec<(String, OsString)> {
    let http = format!("http://127.0.0.1:{port}");
    let is_loopback = |entry: &String| ["localhost:", "127.", "[::1]:"].iter().any(|start| entry.starts_with(start));
    let has_own = confinement.namespaces.is_some_and(|namespaces| namespaces.network);
    let direct = if has_own && !allow.iter().any(is_loopback) { "localhost,127.0.0.1,::1" } else { "" };
    // Not by SOCKS, which the port also speaks: without another package, each client of Python's httpx would fail.
    let named = [("HTTP_PROXY", http.as_str()), ("HTTPS_PROXY", &http), ("ALL_PROXY", &http), ("NO_PROXY", direct)];
    let both = named.into_iter().flat_map(|(name, value)| {
        [(name.to_string(), OsString::from(value)), (name.to_lowercase(), OsString::from(value))]
    });
    // Node.js 24 and newer ignores the other variables without this one.
    both.chain([("NODE_USE_ENV_PROXY".to_string(), OsString::from("1"))]).collect()
}

/// The test switch of `limit`. Read on the caller's thread, which may change the environment.
pub fn switch() -> Option<String> {
    std::env::var("NACRE_ISOLATION").ok()
}

/// Reduces an offer for tests: `NACRE_ISOLATION=landlock` behaves as in a container without namespaces, `none` as on an
/// old kernel.
fn limit(offer: &mut Offer, switch: Option<&str>) {
    if matches!(switch, Some("landlock" | "none")) {
        let off = || Err("namespaces are switched off by NACRE_ISOLATION".to_string());
        (offer.mounts, offer.processes, offer.network) = (off(), off(), off());
    }
    if switch == Some("none") {
        offer.landlock = 0;
    }
}

/// The mechanisms that an offer allows.
pub fn tiers(offer: &Offer) -> Tiers {
    let mut notes = Vec::new();
    let mut lacks = |what: &Result<(), String>, name: &str| {
        if let Err(reason) = what {
            notes.push(format!("{name} cannot be created: {reason}"));
        }
        what.is_ok()
    };
    let mounts = lacks(&offer.mounts, "mount namespaces");
    let processes = mounts && lacks(&offer.processes, "pid namespaces");
    let network = mounts && lacks(&offer.network, "network namespaces");
    let landlock = |version: i32| offer.landlock >= version;
    if mounts {
        notes.push(unguarded());
    }
    if !mounts && landlock(1) {
        notes.extend(LANDLOCK_ALONE.map(str::to_string));
    }
    if !landlock(1) {
        notes.push("the kernel has no Landlock, or it is switched off".into());
    }
    if let Err(reason) = &offer.broker {
        notes.push(format!("programs have no Unix sockets except pairs, since nothing can connect for them: {reason}"));
    }
    let direct = if network { offer.redirects.clone() } else { Err("there are no network namespaces".into()) };
    if let Err(reason) = direct {
        let what = "isolation.network: programs that ignore the variables of the proxy, like HTTP_PROXY, reach no host";
        notes.push(format!("{what}: {reason}"));
    }
    if !mounts && offer.broker.is_ok() && !offer.reads_undumpable {
        notes.push("debuggers and strace do not work: without user namespaces, only root can keep programs from tracing their shell".into());
    }
    if !processes && landlock(6) {
        notes.push("isolation.processes: programs see the processes of others, but cannot signal or trace them".into());
    }
    let tier = |namespace: bool, version: i32| match (namespace, landlock(version)) {
        (true, _) => "namespace",
        (false, true) => "landlock",
        (false, false) => "none",
    };
    Tiers {
        filesystem: tier(mounts, 1),
        network: match (network, landlock(4), offer.seccomp) {
            (true, ..) => "namespace",
            (false, true, true) => "landlock+seccomp",
            (false, false, true) => "seccomp",
            _ => "none",
        },
        processes: tier(processes, 6),
        trust: if mounts { "mounted" } else { "variables" },
        notes,
    }
}

/// What presets do not protect where it is missing.
fn unguarded() -> String {
    let unprotected = |found: &&HostProgram| found.missing == WhileMissing::Unprotected;
    let names: Vec<&str> = IN_PROJECT.iter().filter(unprotected).map(|found| found.name).collect();
    let (what, then) = ("presets do not keep programs from creating", "the event 'denied' reports them");
    format!("isolation.filesystem: {what} {}, nor new repositories; {then}", names.join(", "))
}

/// The features that Landlock lacks without a mount namespace.
const LANDLOCK_ALONE: [&str; 7] = [
    "isolation.filesystem.protect and .hide work outside writable directories only",
    "isolation.filesystem: presets protect nothing of what programs of this machine run later, like .git/hooks, .git/config, .envrc and .vscode",
    "isolation.filesystem.mounts cannot be used",
    "isolation.filesystem: programs see names, sizes and times of files that they may not read, and the owner of a file may change its mode and times",
    "isolation.filesystem: programs cannot list '/' and other directories above hidden ones, have no /dev/shm, and open no terminal but their own by /dev/tty",
    "isolation.processes: programs have no System V or POSIX shared memory, semaphores and message queues",
    "isolation.network: programs cannot use the loopback interface either",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Offer {
        Offer {
            needs_user: false,
            mounts: Ok(()),
            processes: Ok(()),
            network: Ok(()),
            landlock: 7,
            seccomp: true,
            broker: Ok(()),
            redirects: Ok(()),
            reads_undumpable: true,
        }
    }

    #[test]
    fn the_tiers_follow_what_the_machine_offers() {
        let all = tiers(&full());
        assert_eq!((all.filesystem, all.network, all.processes), ("namespace", "namespace", "namespace"));
        assert_eq!((all.notes.len(), all.trust), (1, "mounted"));
        let without_redirects = tiers(&Offer { redirects: Err("no".into()), ..full() });
        assert_eq!(without_redirects.network, "namespace");
        assert!(without_redirects.notes.iter().any(|note| note.starts_with("isolation.network: programs that ignore")));
        let mut container = full();
        limit(&mut container, Some("landlock"));
        let some = tiers(&container);
        assert_eq!((some.filesystem, some.network, some.processes), ("landlock", "landlock+seccomp", "landlock"));
        assert_eq!(some.trust, "variables");
        let mut old = full();
        limit(&mut old, Some("none"));
        let none = tiers(&old);
        assert_eq!((none.filesystem, none.network, none.processes), ("none", "seccomp", "none"));
        assert!(!none.notes.is_empty());
    }
}
