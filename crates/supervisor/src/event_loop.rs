//! The supervisor's event loop: orders from the host, ended children, the lifelines, the kills' timers.

use crate::adopter::Adopter;
use crate::enclosure::{Enclosed, Key};
use crate::ending;
use crate::last_state::Keeping;
use crate::ordered_kill::{OrderedKill, Target};
use crate::process_setup::Setting;
use crate::process_table::{ProcessTable, Program};
use crate::reap::reap_unless_ordered;
use nacre_host_commands::calls::Calls;
use nacre_isolation::masks::Masks;
use nacre_protocol::message;
use nacre_protocol::supervisor::{Order, Report, Role, Setup};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Maximum consecutive orders. Orders to kill many processes arrive together, and polling the descriptors of all
/// kills costs more than one more order.
const MAX_ORDERS: u32 = 64;

/// Runs until the host shuts the session down or dies. Never returns.
pub fn run(setting: Setting, setup: &Setup, mut calls: Option<Calls>, keeping: Option<Keeping>) -> ! {
    let mut table = ProcessTable::new(setup, Adopter::of_this_process());
    table.keeping = keeping;
    let mut kills: Vec<OrderedKill> = Vec::new();
    let mut is_reaped = true;
    loop {
        table.enclosure.ensure_broker();
        let wake = wait(&setting, &kills, &table, calls.as_ref());
        // Before an order is received, which may need descriptors. Without its limits, this process could not carry
        // orders or kills out: the host replaces it, as it replaces a killed one.
        if !setting.limits.restore() && (wake.order || !kills.is_empty()) {
            std::process::exit(1);
        }
        // The last orders say which process has the last state, and whether the session was to end.
        if wake.host_gone && !(wake.order && table.keeping.is_some()) {
            ending::end_without_host(&mut table, &setting, calls.take());
        }
        if wake.children {
            while let Ok(Some(_)) = setting.children.read_signal() {}
            is_reaped = false;
        }
        if wake.unmasked {
            table.enclosure.mask_again();
        }
        let mut orders = if wake.order { MAX_ORDERS } else { 0 };
        while orders > 0 {
            match message::receive::<Order>(setting.control.as_fd()) {
                Ok(Some((Order::Shutdown { grace_ms }, _))) => {
                    // The host has written the last state, and another program may use the files as soon as all has ended.
                    table.keeping = None;
                    ending::end(&mut table, &setting, calls.take(), Duration::from_millis(grace_ms));
                }
                Ok(Some((order, descriptors))) => {
                    execute(order, descriptors, &mut table, &mut kills, calls.as_ref(), (&setting, setup));
                }
                // End of file, or a host with another protocol: there is nothing left to serve.
                Ok(None) | Err(_) => ending::end_without_host(&mut table, &setting, calls.take()),
            }
            orders = if is_readable(setting.control.as_fd()) { orders - 1 } else { 0 };
        }
        if let Some(connection) = calls.as_ref().filter(|_| wake.called).and_then(Calls::accept) {
            setting.report_with(&Report::Called, &[connection.as_fd()]);
        }
        if wake.emptied {
            table.tidy();
        }
        // A waiting order wakes the loop immediately.
        if !is_reaped {
            is_reaped = reap_unless_ordered(&mut table, &setting, || is_readable(setting.control.as_fd()));
        }
        is_reaped &= step_kills(&mut kills, &wake.kills, &mut table, &setting);
        if let Some(report) = table.step_freeze() {
            setting.report(&report);
        }
    }
}

/// Steps the kills with news: each step reads a part of /proc. Returns false if a waiting order kept it from
/// reaping.
fn step_kills(kills: &mut Vec<OrderedKill>, ended: &[bool], table: &mut ProcessTable, setting: &Setting) -> bool {
    let mut ended = ended.iter().copied();
    let mut is_reaped = true;
    kills.retain_mut(|kill| {
        if !ended.next().unwrap_or(false) && !kill.next_look().is_zero() {
            return true;
        }
        let Some(outcome) = kill.step(table, || is_readable(setting.control.as_fd())) else { return true };
        let (id, escalated) = (kill.id(), outcome.escalated);
        // The ends of processes are reported before the end of their kill. An order may be waiting to adopt a
        // process that ended during the step, so it is executed first, and the kill looks again.
        if !reap_unless_ordered(table, setting, || is_readable(setting.control.as_fd())) {
            is_reaped = false;
            kill.look_again();
            return true;
        }
        setting.report(&if kill.is_foreground() {
            Report::Killed { id, escalated, foreground: table.foreground_group() }
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
    kills: &mut Vec<OrderedKill>,
    calls: Option<&Calls>,
    (setting, setup): (&Setting, &Setup),
) {
    let with_foreground = |kills: &mut Vec<OrderedKill>, act: fn(&mut OrderedKill)| {
        kills.iter_mut().filter(|kill| kill.is_foreground()).for_each(act);
    };
    let is_ordered = || is_readable(setting.control.as_fd());
    match order {
        Order::Confine { fork_key, channel_name, has_workspace } => {
            let mut descriptors = descriptors.into_iter();
            let file = descriptors.next();
            let workspace = if has_workspace { descriptors.next() } else { None };
            let reports = descriptors.next().map(Arc::new);
            let key = Key { fork_key, channel_name, reports, command_name: calls.map(|calls| calls.address.clone()) };
            table.confine(Enclosed { file, workspace }, key, setup, setting);
        }
        Order::Start { role, arguments, first_descriptor, anywhere } => {
            let key = match role {
                Role::Shell | Role::Command => None,
                Role::Process { key, .. } => Some(key),
            };
            let program = Program { role, arguments, descriptors, first_descriptor, anywhere };
            setting.report(&match table.start(&program, setup, setting) {
                Ok((identity, group)) => Report::Started { identity, key, group },
                Err(failure) => {
                    Report::StartFailed { key, step: failure.step, errno: failure.errno, detail: failure.detail }
                }
            });
        }
        Order::Files => {
            if let Some(socket) = descriptors.into_iter().next() {
                table.start_helper(socket, setup, setting);
            }
        }
        Order::Ready => {
            if let Some(keeping) = &mut table.keeping {
                keeping.set_shell(descriptors.into_iter().next());
            }
        }
        Order::Saved { number } => {
            if let (Some(keeping), Some(state)) = (&mut table.keeping, descriptors.into_iter().next()) {
                keeping.set_saved(state, number);
            }
        }
        Order::Fork { number } => {
            if let (Some(keeping), Some(channel)) = (&mut table.keeping, descriptors.into_iter().next()) {
                keeping.expect(channel, number);
            }
        }
        Order::Standby { pid, group } => {
            if !table.set_standby(pid, group.as_ref()) {
                return setting.report(&Report::StandbyEnded { pid });
            }
            table.keeping.iter_mut().for_each(Keeping::standby_arrived);
        }
        Order::Promote => {
            table.promote();
            // A program may have stopped it, and nothing else would notice that.
            table.signal_shells(libc::SIGCONT);
            setting.report(&Report::Promoted { foreground: table.foreground_group() });
        }
        Order::Adopt { key, pid, group, mark, limits } => {
            let (identity, group, problem) = table.adopt(key, pid, group.as_ref(), mark, &limits);
            setting.report(&Report::Adopted { key, identity, group, problem });
        }
        Order::Detach { key, mark, command, spare } => {
            let (identity, group) = table.detach(key, mark, command, spare);
            // As after a promotion.
            table.signal_shells(libc::SIGCONT);
            setting.report(&Report::Detached { key, identity, group, foreground: table.foreground_group() });
        }
        Order::KillForeground { id, command, signal, grace_ms, spare } => {
            let grace = Duration::from_millis(grace_ms);
            kills.retain(|kill| !kill.is_foreground());
            kills.push(OrderedKill::start(id, Target::Foreground { command, spare }, signal, grace, table, is_ordered));
        }
        Order::KillProcess { id, key, signal, grace_ms } => {
            table.spare_from_freeze(key);
            let grace = Duration::from_millis(grace_ms);
            kills.push(OrderedKill::start(id, Target::Process { key }, signal, grace, table, is_ordered));
        }
        Order::SignalProcess { key, signal } => table.processes.signal_group(key, signal),
        Order::ExpectForks { expected } => {
            table.expects_forks = expected;
            with_foreground(kills, OrderedKill::look_again);
        }
        Order::TrapRuns => with_foreground(kills, OrderedKill::trap_runs),
        Order::Settled => with_foreground(kills, OrderedKill::settle),
        Order::Insist => with_foreground(kills, OrderedKill::insist),
        Order::KillShell => {
            if let Some(shell) = table.shell() {
                let _ = nacre_containment::signal::send_to_child(shell, libc::SIGKILL);
            }
        }
        Order::Continue => table.signal_shells(libc::SIGCONT),
        Order::Rotate => {
            table.rotate();
            setting.report(&Report::Rotated { foreground: table.foreground_group() });
        }
        Order::Freeze { id, if_idle } => {
            table.freeze(id, if_idle);
            kills.iter().filter_map(OrderedKill::process).for_each(|key| table.spare_from_freeze(key));
        }
        Order::Thaw => table.thaw(),
        Order::Mask => {
            // Also without a report here: a file that was missing at the last look, whose name the kernel had not yet freed when
            // its directory was to be watched, can be there again.
            if table.enclosure.masks().is_some() {
                table.enclosure.mask_again();
            }
            setting.report(&Report::Masked);
        }
        Order::Remount => setting.report(&table.remount(descriptors)),
        Order::Shutdown { .. } => {}
    }
}

#[derive(Default)]
struct Wake {
    order: bool,
    children: bool,
    host_gone: bool,
    /// Whether a program calls a command of the host.
    called: bool,
    /// Whether a group may have become empty.
    emptied: bool,
    /// Whether something may have to be masked again.
    unmasked: bool,
    /// Whether, for each kill, a process that it watches has ended.
    kills: Vec<bool>,
}

fn wait(setting: &Setting, kills: &[OrderedKill], table: &ProcessTable, calls: Option<&Calls>) -> Wake {
    let mut fds = vec![
        PollFd::new(setting.control.as_fd(), PollFlags::POLLIN),
        PollFd::new(setting.children.as_fd(), PollFlags::POLLIN),
    ];
    fds.extend(setting.host.as_ref().map(|host| PollFd::new(host.as_fd(), PollFlags::POLLIN)));
    let fixed = fds.len();
    fds.extend(table.watched_groups().map(|fd| PollFd::new(fd, PollFlags::POLLPRI)));
    let groups = fds.len();
    let masks = table.enclosure.masks();
    fds.extend(masks.into_iter().flat_map(Masks::watched));
    let masked = fds.len();
    fds.extend(calls.map(|calls| PollFd::new(calls.as_fd(), PollFlags::POLLIN)));
    let called = fds.len();
    let watched = kills.iter().flat_map(OrderedKill::watched);
    fds.extend(watched.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
    // Rounded up: a timer that fires early would only cause another look.
    let timeout = kills
        .iter()
        .map(OrderedKill::next_look)
        .chain(table.next_freeze_look())
        .min()
        .map_or(PollTimeout::NONE, |longest| PollTimeout::from((longest.as_millis() + 1).min(60_000) as u16));
    if poll(&mut fds, timeout).is_err() {
        return Wake { children: true, ..Wake::default() };
    }
    let any = |fd: &PollFd| fd.any().unwrap_or(false);
    let mut watched = fds[called..].iter();
    let kills = kills.iter().map(|kill| watched.by_ref().take(kill.watched().len()).filter(|fd| any(fd)).count() > 0);
    Wake {
        order: any(&fds[0]),
        children: any(&fds[1]),
        host_gone: setting.host.is_some() && fixed > 2 && any(&fds[2]),
        called: fds[masked..called].iter().any(any),
        emptied: fds[fixed..groups].iter().any(any),
        unmasked: fds[groups..masked].iter().any(any),
        kills: kills.collect(),
    }
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::ZERO).is_ok() && fds[0].any().unwrap_or(false)
}

#[cfg(test)]
#[path = "event_loop_tests.rs"]
mod tests;
