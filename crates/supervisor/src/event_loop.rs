//! The supervisor's only loop: orders from the host, ended children, the lifelines, the ladders' timers.

use crate::arguments::{Arguments, child_pid};
use crate::ending;
use crate::family::{Family, Reaped};
use crate::hygiene::Setting;
use crate::ladder::{Ladder, Plan};
use crate::target::Target;
use nacre_containment::wire::{self, Order, Report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// How many orders to take before looking at anything else. Those to kill many processes come at once, and each look at
/// the descriptors of all the ladders costs more than one more order.
const MOST_ORDERS: u32 = 64;

/// Runs until the host shuts the session down or is gone. Never returns.
pub fn run(mut family: Family, setting: Setting, arguments: &Arguments) -> ! {
    let mut ladders: Vec<Ladder> = Vec::new();
    if let Some(shell) = family.shell {
        tell(&setting, &Report::Started { shell, group: family.group_directory() });
    }
    loop {
        let wake = wait(&setting, &ladders);
        if wake.host_gone {
            ending::end(&mut family, &setting, Duration::ZERO, arguments.scratch.as_deref());
        }
        if wake.children {
            while let Ok(Some(_)) = setting.children.read_signal() {}
            reap(&mut family, &setting);
        }
        let mut orders = if wake.order { MOST_ORDERS } else { 0 };
        while orders > 0 {
            match wire::receive::<Order>(setting.control.as_fd()) {
                Ok(Some(Order::Shutdown { grace_ms })) => {
                    let grace = Duration::from_millis(grace_ms);
                    ending::end(&mut family, &setting, grace, arguments.scratch.as_deref());
                }
                Ok(Some(order)) => obey(order, &mut family, &mut ladders, &setting, arguments),
                // End of file, or a host that speaks another language: nobody is there whom we could serve.
                Ok(None) | Err(_) => {
                    ending::end(&mut family, &setting, Duration::ZERO, arguments.scratch.as_deref());
                }
            }
            orders = if is_readable(setting.control.as_fd()) { orders - 1 } else { 0 };
        }
        // Only those that something has happened to: each look reads a part of /proc.
        let mut ended = wake.ladders.into_iter();
        ladders.retain_mut(|ladder| {
            let ended = ended.next().unwrap_or(false);
            if !ended && !ladder.next_look().is_zero() {
                return true;
            }
            let Some(outcome) = ladder.step(&mut family) else { return true };
            let (id, escalated) = (ladder.id(), outcome.escalated);
            let report = if ladder.is_foreground() {
                Report::Killed { id, escalated }
            } else {
                Report::ProcessKilled { id, found: outcome.found, escalated }
            };
            // Those that have ended are told before: whoever is told that a process is gone must find that it is.
            reap(&mut family, &setting);
            tell(&setting, &report);
            false
        });
    }
}

fn obey(order: Order, family: &mut Family, ladders: &mut Vec<Ladder>, setting: &Setting, arguments: &Arguments) {
    match order {
        Order::KillForeground { id, signal, grace_ms, spare, last_words } => {
            let target = Target::Foreground { spare, last_words };
            let plan = Plan { id, target, signal, grace: Duration::from_millis(grace_ms) };
            ladders.retain(|ladder| !ladder.is_foreground());
            ladders.push(Ladder::start(plan, family));
        }
        Order::Settled => {
            if let Some(running) = ladders.iter_mut().find(|ladder| ladder.is_foreground()) {
                running.settle();
            }
        }
        Order::Insist => {
            if let Some(running) = ladders.iter_mut().find(|ladder| ladder.is_foreground()) {
                running.insist();
            }
        }
        Order::KillShell => {
            if let Some(shell) = family.shell {
                let _ = nacre_containment::signal::send_to_child(shell, libc::SIGKILL);
            }
        }
        Order::Rotate => {
            family.rotate();
            tell(setting, &Report::Rotated { group: family.group_directory() });
        }
        Order::Standby { pid } => {
            let placed = family.set_standby(pid);
            let (found, lost) = (Report::StandbyPlaced { standby: pid }, Report::StandbyEnded { standby: pid });
            tell(setting, if placed { &found } else { &lost });
        }
        Order::DismissStandby => {
            if let Some(standby) = family.dismiss_standby() {
                tell(setting, &Report::StandbyEnded { standby });
            }
        }
        Order::PromoteStandby => tell(setting, &Report::Promoted { shell: family.promote_standby() }),
        Order::Respawn => {
            let report = match family.respawn(arguments, setting) {
                Ok(shell) => Report::Started { shell, group: family.group_directory() },
                Err(failure) => Report::StartFailed { message: failure.message, errno: failure.errno },
            };
            tell(setting, &report);
        }
        Order::Adopt { key, pid, mark } => {
            let adopted = family.processes.adopt(family.own(), key, pid, mark);
            let (identity, group) = adopted.map_or((None, None), |(identity, group)| (Some(identity), group));
            tell(setting, &Report::Adopted { key, identity, group });
            if let Some(standby) = family.place_standby() {
                tell(setting, &Report::StandbyPlaced { standby });
            }
        }
        Order::Limit { key, limits } => {
            let problem = family.limit(key, &limits).err();
            tell(setting, &Report::Limited { key, problem });
        }
        Order::KillProcess { id, key, signal, grace_ms } => {
            let target = Target::Process { key };
            let plan = Plan { id, target, signal, grace: Duration::from_millis(grace_ms) };
            ladders.push(Ladder::start(plan, family));
        }
        Order::Shutdown { .. } => {}
    }
}

struct Wake {
    order: bool,
    children: bool,
    host_gone: bool,
    /// For each ladder: one of the processes it watches has ended.
    ladders: Vec<bool>,
}

fn wait(setting: &Setting, ladders: &[Ladder]) -> Wake {
    let mut fds = vec![
        PollFd::new(setting.control.as_fd(), PollFlags::POLLIN),
        PollFd::new(setting.children.as_fd(), PollFlags::POLLIN),
    ];
    fds.extend(setting.host.as_ref().map(|host| PollFd::new(host.as_fd(), PollFlags::POLLIN)));
    let fixed = fds.len();
    let watched = ladders.iter().flat_map(Ladder::watched);
    fds.extend(watched.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
    // Rounded up: a timer that fires early would only look once more.
    let timeout = ladders
        .iter()
        .map(Ladder::next_look)
        .min()
        .map_or(PollTimeout::NONE, |longest| PollTimeout::from((longest.as_millis() + 1).min(60_000) as u16));
    if poll(&mut fds, timeout).is_err() {
        return Wake { order: false, children: true, host_gone: false, ladders: Vec::new() };
    }
    let any = |fd: &PollFd| fd.any().unwrap_or(false);
    let mut watched = fds[fixed..].iter();
    let ladders =
        ladders.iter().map(|ladder| watched.by_ref().take(ladder.watched().len()).filter(|fd| any(fd)).count() > 0);
    Wake {
        order: any(&fds[0]),
        children: any(&fds[1]),
        host_gone: setting.host.is_some() && fixed > 2 && any(&fds[2]),
        ladders: ladders.collect(),
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok() && fds[0].any().unwrap_or(false)
}

/// Reaps everything that has ended, and tells of those that the host knows; orphans nobody asked about are simply gone.
/// True when no child is left at all.
pub fn reap(family: &mut Family, setting: &Setting) -> bool {
    let childless = loop {
        let (raw, code, signal) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, Some(code), None),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, None, Some(signal as i32)),
            Ok(WaitStatus::StillAlive) => break false,
            Err(nix::errno::Errno::ECHILD) => break true,
            Err(_) => break false,
            Ok(_) => continue,
        };
        let pid = child_pid(raw.as_raw());
        match family.reaped(pid) {
            Reaped::Shell => tell(setting, &Report::ShellEnded { pid, code, signal }),
            Reaped::Standby => tell(setting, &Report::StandbyEnded { standby: pid }),
            Reaped::Process(key) => {
                let out_of_memory = family.processes.ran_out_of_memory(key);
                let alone = family.processes.was_alone(key);
                tell(setting, &Report::ProcessEnded { key, code, signal, out_of_memory, alone });
            }
            Reaped::Orphan => {}
        }
    };
    family.processes.tidy();
    childless
}

/// A host that does not listen any more is noticed by its lifelines.
fn tell(setting: &Setting, report: &Report) {
    let _ = wire::send(setting.control.as_fd(), report);
}
