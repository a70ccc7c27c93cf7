//! The supervisor's event loop: orders from the host, ended children, the lifelines, the ladders' timers.

use crate::arguments::Arguments;
use crate::enclosure::Key;
use crate::ending;
use crate::ladder::{Ladder, Plan};
use crate::process_setup::Setting;
use crate::process_table::ProcessTable;
use crate::program::Program;
use crate::reap::reap_unless_ordered;
use crate::target::Target;
use nacre_protocol::supervisor::{self, Order, Report, Role};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Maximum consecutive orders. Orders to kill many processes arrive together, and polling the descriptors of all
/// ladders costs more than one more order.
const MAX_ORDERS: u32 = 64;

/// Runs until the host shuts the session down or dies. Never returns.
pub fn run(setting: Setting, arguments: &Arguments) -> ! {
    let mut table = ProcessTable::new(arguments);
    let mut ladders: Vec<Ladder> = Vec::new();
    let mut is_reaped = true;
    loop {
        table.ensure_broker();
        let wake = wait(&setting, &ladders);
        if wake.host_gone {
            ending::end(&mut table, &setting, Duration::ZERO);
        }
        if wake.children {
            while let Ok(Some(_)) = setting.children.read_signal() {}
            is_reaped = false;
        }
        let mut orders = if wake.order { MAX_ORDERS } else { 0 };
        while orders > 0 {
            match supervisor::receive::<Order>(setting.control.as_fd()) {
                Ok(Some((Order::Shutdown { grace_ms }, _))) => {
                    ending::end(&mut table, &setting, Duration::from_millis(grace_ms));
                }
                Ok(Some((order, descriptors))) => {
                    execute(order, descriptors, &mut table, &mut ladders, &setting, arguments);
                }
                // End of file, or a host with another protocol: there is nothing left to serve.
                Ok(None) | Err(_) => ending::end(&mut table, &setting, Duration::ZERO),
            }
            orders = if is_readable(setting.control.as_fd()) { orders - 1 } else { 0 };
        }
        // A waiting order wakes the loop immediately.
        if !is_reaped {
            is_reaped = reap_unless_ordered(&mut table, &setting, || is_readable(setting.control.as_fd()));
        }
        is_reaped &= step_ladders(&mut ladders, &wake.ladders, &mut table, &setting);
    }
}

/// Steps the ladders with news: each step reads a part of /proc. Returns false if a waiting order kept it from
/// reaping.
fn step_ladders(ladders: &mut Vec<Ladder>, ended: &[bool], table: &mut ProcessTable, setting: &Setting) -> bool {
    let mut ended = ended.iter().copied();
    let mut is_reaped = true;
    ladders.retain_mut(|ladder| {
        if !ended.next().unwrap_or(false) && !ladder.next_look().is_zero() {
            return true;
        }
        let Some(outcome) = ladder.step(table) else { return true };
        let (id, escalated) = (ladder.id(), outcome.escalated);
        // The ends of processes are reported before the end of their ladder. An order may be waiting to adopt a
        // process that ended during the step, so it is executed first, and the ladder looks again.
        if !reap_unless_ordered(table, setting, || is_readable(setting.control.as_fd())) {
            is_reaped = false;
            ladder.look_again();
            return true;
        }
        setting.report(&if ladder.is_foreground() {
            Report::Killed { id, escalated }
        } else {
            Report::ProcessKilled { id, found: outcome.found, escalated }
        });
        false
    });
    is_reaped
}

fn execute(
    order: Order,
    descriptors: Vec<OwnedFd>,
    table: &mut ProcessTable,
    ladders: &mut Vec<Ladder>,
    setting: &Setting,
    arguments: &Arguments,
) {
    let with_foreground = |ladders: &mut Vec<Ladder>, act: fn(&mut Ladder)| {
        ladders.iter_mut().filter(|ladder| ladder.is_foreground()).for_each(act);
    };
    match order {
        Order::Confine { fork_key, channel_name } => {
            let key = Key { fork_key, channel_name };
            table.confine(descriptors.into_iter().next(), key, arguments, setting);
        }
        Order::Start { role, arguments: words, first_descriptor, cwd } => {
            let key = match role {
                Role::Shell => None,
                Role::Process { key, .. } => Some(key),
            };
            let program = Program { role, arguments: words, descriptors, first_descriptor, cwd };
            setting.report(&match table.start(&program, arguments, setting) {
                Ok((identity, group)) => Report::Started { identity, key, group },
                Err(failure) => {
                    Report::StartFailed { key, step: failure.step, errno: failure.errno, detail: failure.detail }
                }
            });
        }
        Order::Files => {
            if let Some(socket) = descriptors.into_iter().next() {
                table.start_helper(socket, arguments, setting);
            }
        }
        Order::Standby { pid, group } => {
            if !table.set_standby(pid, group.as_ref()) {
                setting.report(&Report::StandbyEnded { pid });
            }
        }
        Order::Promote => {
            let shell = table.promote();
            setting.report(&Report::Promoted { shell, group: table.group_directory() });
        }
        Order::Adopt { key, pid, group, mark, limits } => {
            let (identity, group, problem) = table.adopt(key, pid, group.as_ref(), mark, &limits);
            setting.report(&Report::Adopted { key, identity, group, problem });
        }
        Order::KillForeground { id, command, signal, grace_ms, spare } => {
            let grace = Duration::from_millis(grace_ms);
            ladders.retain(|ladder| !ladder.is_foreground());
            ladders
                .push(Ladder::start(Plan { id, target: Target::Foreground { command, spare }, signal, grace }, table));
        }
        Order::KillProcess { id, key, signal, grace_ms } => {
            let grace = Duration::from_millis(grace_ms);
            ladders.push(Ladder::start(Plan { id, target: Target::Process { key }, signal, grace }, table));
        }
        Order::SignalProcess { key, signal } => table.processes.signal_group(key, signal),
        Order::TrapRuns => with_foreground(ladders, Ladder::trap_runs),
        Order::Settled => with_foreground(ladders, Ladder::settle),
        Order::Insist => with_foreground(ladders, Ladder::insist),
        Order::KillShell => {
            if let Some(shell) = table.shell() {
                let _ = nacre_containment::signal::send_to_child(shell, libc::SIGKILL);
            }
        }
        Order::Continue => table.signal_shells(libc::SIGCONT),
        Order::Rotate => {
            table.rotate();
            setting.report(&Report::Rotated { group: table.group_directory() });
        }
        Order::Shutdown { .. } => {}
    }
}

struct Wake {
    order: bool,
    children: bool,
    host_gone: bool,
    /// Whether, for each ladder, a process that it watches has ended.
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
    // Rounded up: a timer that fires early would only cause another look.
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

#[cfg(test)]
#[path = "event_loop_tests.rs"]
mod tests;
