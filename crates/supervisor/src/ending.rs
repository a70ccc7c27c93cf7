//! Ends a session: kills everything below this process, then removes the control groups.

use crate::process_setup::Setting;
use crate::process_table::ProcessTable;
use crate::reap::reap;
use nacre_containment::ladder::{Ladder, UNKILLABLE};
use nacre_host_commands::calls::Calls;
use nacre_host_commands::directory::Directory;
use nacre_protocol::supervisor::Report;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Time limit for the files helpers to exit.
const HELPERS: Duration = Duration::from_millis(500);

/// How long a host may take to end that has closed its end of the socket, and to which nothing answers any more.
const HOST: Duration = Duration::from_millis(500);

/// Ends everything and exits, because the host has ended. A session that is kept is written once more.
pub fn end_without_host(table: &mut ProcessTable, setting: &Setting, calls: Option<Calls>) -> ! {
    let last = table.keeping.take().map(|keeping| keeping.ask(table.shell()));
    end_all(table, setting, calls, Duration::ZERO);
    // A host that lives has given this process up, and writes by itself.
    if let Some(last) = last.filter(|_| setting.host_ends_within(HOST)) {
        last.write();
    }
    std::process::exit(0);
}

/// Ends everything and exits. With a grace time, processes first get SIGTERM and SIGCONT, and SIGKILL only when it is
/// over. The shell and the standby have nothing to clean up, so they get no SIGTERM.
///
/// Completeness: this process is the subreaper, so every orphan becomes its child. Killing all descendants and
/// reaping until no child is left therefore leaves nothing alive, whichever process forks meanwhile.
pub fn end(table: &mut ProcessTable, setting: &Setting, calls: Option<Calls>, grace: Duration) -> ! {
    end_all(table, setting, calls, grace);
    std::process::exit(0);
}

fn end_all(table: &mut ProcessTable, setting: &Setting, calls: Option<Calls>, grace: Duration) {
    let mut commands = calls.map(Calls::stop);
    if !grace.is_zero() {
        ask(table, setting, grace);
    }
    let give_up = Instant::now() + UNKILLABLE;
    end_helpers(table, setting);
    loop {
        table.kill_all();
        let childless = reap(table, setting);
        if childless && table.remove_groups(setting.host_lives()) {
            commands.take().into_iter().for_each(Directory::close);
            setting.report(&Report::Ended);
            break;
        }
        if Instant::now() > give_up {
            commands.take().into_iter().for_each(Directory::close);
            break;
        }
        wait_for_change(setting, &[], Duration::from_millis(1));
    }
}

/// Lets the files helpers remove temporary files, which takes less than a millisecond.
fn end_helpers(table: &mut ProcessTable, setting: &Setting) {
    let give_up = Instant::now() + HELPERS;
    while table.helpers.end() && Instant::now() < give_up {
        wait_for_change(setting, &[], HELPERS);
        reap(table, setting);
    }
}

fn ask(table: &mut ProcessTable, setting: &Setting, grace: Duration) {
    // SIGKILL ends frozen processes too, but no other signal reaches them.
    table.thaw();
    let mut ladder = Ladder::new(libc::SIGTERM, grace).unsettled();
    loop {
        reap(table, setting);
        if !ladder.is_settled() && !table.processes.interrupt(None) {
            ladder.settle();
        }
        match table.workload() {
            Ok(left) if left.is_empty() => return,
            _ if ladder.is_overdue() => return,
            Ok(left) => {
                table.processes.about_to_ask(None, &left);
                ladder.step(&left, None, None);
            }
            Err(_) => ladder.cannot_look(),
        }
        wait_for_change(setting, ladder.watched(), ladder.next_look());
    }
}

fn wait_for_change(setting: &Setting, watched: &[OwnedFd], longest: Duration) {
    let mut fds: Vec<PollFd> = watched.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    fds.push(PollFd::new(setting.children.as_fd(), PollFlags::POLLIN));
    let milliseconds = longest.as_millis().clamp(1, 10_000) as u16;
    let _ = poll(&mut fds, PollTimeout::from(milliseconds));
    while let Ok(Some(_)) = setting.children.read_signal() {}
}
