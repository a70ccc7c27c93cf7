//! Turns rules and a machine's offer into a confinement, or into the rule that cannot be enforced.

use crate::mount_table::MountTable;
use crate::offer::Offer;
use nacre_protocol::confinement::{Confinement, Landlock, Namespaces, PRIVATE_TMP, ProjectFiles, Sockets};
use nacre_protocol::confinement::{Filesystem, Network, Observed, Rules};
use std::path::{Path, PathBuf};

/// The first version of Landlock that limits TCP connections.
const LANDLOCK_TCP: i32 = 4;
/// The first version of Landlock that limits signals and abstract Unix sockets.
const LANDLOCK_SCOPES: i32 = 6;

/// A rule that cannot be enforced here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule} cannot be enforced on this machine: {reason}")]
pub struct Unsupported {
    /// The option.
    pub rule: &'static str,
    /// The reason.
    pub reason: String,
}

/// Paths that belong to a session but not to its rules.
pub struct Places {
    /// Where the session's shell starts.
    pub cwd: PathBuf,
    /// The shell's program.
    pub shell: PathBuf,
    /// A private directory, used if `/tmp` cannot be private.
    pub temporary: PathBuf,
    /// Directories of the engine, to be hidden.
    pub private: Vec<PathBuf>,
    /// The machine's mounts, which give closed paths other names.
    pub mounts: MountTable,
    /// What is guarded in the project.
    pub project: ProjectFiles,
}

/// True if a path is one of the trees or lies inside one.
fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Decides how to enforce rules. With `best_effort`, rules that cannot be enforced are dropped.
///
/// # Errors
/// The first rule that cannot be enforced.
pub fn decide(rules: &Rules, offer: &Offer, places: Places) -> Result<Confinement, Unsupported> {
    // What learns names the hosts that programs want to reach, and lets them.
    let learns_hosts = rules.learns && rules.network == Network::Closed;
    let network = if learns_hosts { Network::Proxy } else { rules.network };
    let rules = &Rules { network, ..rules.clone() };
    let drop_or = |rule: &'static str, reason: String| {
        if rules.best_effort { Ok(()) } else { Err(Unsupported { rule, reason }) }
    };
    if !offer.seccomp {
        drop_or("isolation", "the kernel has no seccomp filters".into())?;
    }
    let mut namespaces = offer.mounts.is_ok().then_some(Namespaces {
        user: offer.needs_user,
        ipc: true,
        network: rules.network != Network::Open && offer.network.is_ok(),
        processes: rules.own_processes && offer.processes.is_ok(),
    });
    let has_network = namespaces.is_some_and(|namespaces| namespaces.network);
    let has_processes = namespaces.is_some_and(|namespaces| namespaces.processes);
    let project = if namespaces.is_some() { places.project } else { ProjectFiles::default() };
    let rules = &closed_everywhere(&guarded(rules, project), &places.mounts);
    check_mounts(&rules.filesystem, offer, &places.shell)?;
    let mut filesystem = Some(rules.filesystem.clone());
    if namespaces.is_none() {
        filesystem = by_landlock(rules, offer)?;
    }
    let mut network = rules.network;
    let mut sockets = Sockets::Internet;
    match network {
        Network::Open => {}
        _ if has_network => {}
        Network::Closed => sockets = Sockets::None,
        // Landlock checks ports, not addresses, so programs could reach any host that listens on the proxy's port.
        // The broker checks the address.
        Network::Proxy if offer.landlock >= LANDLOCK_TCP && offer.broker.is_ok() => sockets = Sockets::Tcp,
        Network::Proxy => {
            let lack = match &offer.broker {
                Err(reason) => format!("connections cannot be made for programs ({reason})"),
                Ok(()) => "Landlock for TCP (Linux 6.7) is missing".into(),
            };
            drop_or("isolation.network", format!("there are no network namespaces, and {lack}"))?;
            network = Network::Open;
        }
    }
    let scopes = offer.landlock >= LANDLOCK_SCOPES;
    if rules.own_processes && !has_processes && !scopes {
        let reason = "there are neither pid namespaces nor Landlock for signals (Linux 6.12)";
        drop_or("isolation.processes", reason.into())?;
    }
    let landlock = (offer.landlock > 0).then_some(Landlock {
        filesystem: filesystem.is_some(),
        tcp: network == Network::Proxy && !has_network,
        signals: rules.own_processes && scopes,
        abstract_sockets: network != Network::Open && scopes,
    });
    if filesystem.is_none() && !has_network && !has_processes {
        namespaces = None;
    }
    // A directory that the rules name, or one above it, must be visible.
    let named = |root: &PathBuf| {
        let Filesystem { read, write, .. } = &rules.filesystem;
        let mut named = read.iter().flatten().chain(write).chain([&places.cwd]);
        named.any(|path| path.starts_with(root) && !rules.filesystem.covers(path))
    };
    let mut private = places.mounts.with_aliases(&places.private);
    if namespaces.is_none() {
        // Without a view, the directory for temporary files is the machine's.
        private.extend(places.temporary.parent().into_iter().flat_map(|shared| places.mounts.aliases(shared)));
    }
    private.retain(|root| !named(root));
    let temporary = if namespaces.is_some() { PathBuf::from(PRIVATE_TMP) } else { places.temporary };
    // The creator of a user namespace may read every process that has executed a program inside (ptrace(2)).
    let reads_all = offer.reads_undumpable || namespaces.is_some_and(|namespaces| namespaces.user);
    let keeps_dumpable = offer.broker.is_ok() && !reads_all;
    let (observed, filesystem) = observed(rules, filesystem, offer)?;
    Ok(Confinement {
        filesystem,
        network,
        namespaces,
        workspace: None,
        restricts: true,
        refuses_ptrace: (landlock.is_none() && !has_processes) || keeps_dumpable,
        keeps_dumpable,
        refuses_scheduling: rules.own_processes && !has_processes,
        refuses_ipc: rules.own_processes && namespaces.is_none(),
        landlock,
        sockets,
        brokered: offer.broker.is_ok(),
        rules_file: rules.rules_file.clone(),
        observed,
        redirects: network == Network::Proxy && has_network && offer.redirects.is_ok(),
        temporary,
        private,
        own: None,
        caches: None,
        commands: None,
        certificates: None,
        cwd: places.cwd,
        shell: places.shell,
        proxy_port: None,
        programs: None,
    })
}

/// What a broker judges attempts by, and the rules that are enforced.
fn observed(
    rules: &Rules,
    filesystem: Option<Filesystem>,
    offer: &Offer,
) -> Result<(Option<Observed>, Option<Filesystem>), Unsupported> {
    let judged = match filesystem {
        None if rules.learns => {
            let reason = "there are neither mount namespaces nor Landlock".into();
            return Err(Unsupported { rule: "isolation.learn", reason });
        }
        Some(judged) if rules.explains || rules.learns => judged,
        filesystem => return Ok((None, filesystem)),
    };
    match &offer.broker {
        Ok(()) if rules.learns => {
            let open = Filesystem { write: vec!["/".into()], mounts: judged.mounts.clone(), ..Filesystem::default() };
            Ok((Some(Observed { filesystem: judged, learns: true }), Some(open)))
        }
        Ok(()) => Ok((Some(Observed { filesystem: judged.clone(), learns: false }), Some(judged))),
        // Without that, the rules would be enforced, or nothing reported.
        Err(reason) if rules.learns || !rules.best_effort => Err(Unsupported {
            rule: if rules.learns { "isolation.learn" } else { "isolation.explain" },
            reason: format!("the calls of programs cannot be observed ({reason})"),
        }),
        Err(_) => Ok((None, Some(judged))),
    }
}

/// The rules with what guards a project. Landlock alone could protect nothing in a writable tree.
fn guarded(rules: &Rules, project: ProjectFiles) -> Rules {
    let mut rules = rules.clone();
    let mut project = project;
    // What a caller protects is read-only.
    project.copies.retain(|path| !is_within(path, &rules.filesystem.protect));
    rules.filesystem.protect.extend(project.protect.iter().cloned());
    rules.filesystem.write.extend(project.write.iter().cloned());
    rules.filesystem.project = project;
    rules
}

/// The rules with the other names of what is hidden or protected.
fn closed_everywhere(rules: &Rules, mounts: &MountTable) -> Rules {
    let mut rules = rules.clone();
    for list in [&mut rules.filesystem.hide, &mut rules.filesystem.protect] {
        *list = mounts.with_aliases(list);
    }
    rules
}

/// Refuses mounts that cannot be made. They are never dropped: programs would use the machine's own directories at the
/// targets instead.
fn check_mounts(filesystem: &Filesystem, offer: &Offer, shell: &Path) -> Result<(), Unsupported> {
    let refuse = |reason: String| Err(Unsupported { rule: "isolation.filesystem.mounts", reason });
    match &offer.mounts {
        Err(_) if filesystem.mounts.is_empty() => Ok(()),
        Err(reason) => refuse(format!(
            "mount namespaces are missing: {reason}. Allow unprivileged user namespaces, run as root with CAP_SYS_ADMIN, or \
             omit the mounts"
        )),
        Ok(()) if filesystem.covers(shell) => {
            refuse(format!("a target covers the shell, {}. Choose another target or shell", shell.display()))
        }
        Ok(()) => Ok(()),
    }
}

/// The rules for files that Landlock enforces alone. It grants rights to whole trees and cannot revoke any below.
fn by_landlock(rules: &Rules, offer: &Offer) -> Result<Option<Filesystem>, Unsupported> {
    let drop_or = |rule: &'static str, reason: String| {
        if rules.best_effort { Ok(()) } else { Err(Unsupported { rule, reason }) }
    };
    let refused = || offer.mounts.clone().err().unwrap_or_default();
    if offer.landlock == 0 {
        let reason = format!("there are neither mount namespaces ({}) nor Landlock", refused());
        drop_or("isolation.filesystem", reason)?;
        return Ok(None);
    }
    let mut kept = rules.filesystem.clone();
    let closed = [kept.protect.clone(), kept.hide.clone()].concat();
    let (shut, write): (Vec<_>, Vec<_>) = kept.write.into_iter().partition(|path| is_within(path, &closed));
    // A protected part of a writable tree can still be read.
    if let Some(read) = &mut kept.read {
        read.extend(shut);
    }
    kept.write = write.clone();
    for (rule, list) in
        [("isolation.filesystem.protect", &mut kept.protect), ("isolation.filesystem.hide", &mut kept.hide)]
    {
        let Some(path) = list.iter().find(|path| is_within(path, &write)) else { continue };
        let reason = format!(
            "'{}' lies below a writable directory, and mount namespaces are missing: {}",
            path.display(),
            refused()
        );
        let is_rules_file = rules.rules_file.as_ref() == Some(path);
        drop_or(if is_rules_file { "isolationFile" } else { rule }, reason)?;
        list.retain(|path| !is_within(path, &write));
    }
    Ok(Some(kept))
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
