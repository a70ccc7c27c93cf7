//! The supervisor's only loop: orders from the host, ended children, the lifelines, the ladder's timer.

use crate::arguments::{Arguments, child_pid};
use crate::ending;
use crate::family::Family;
use crate::hygiene::Setting;
use crate::ladder::{Ladder, Plan};
use nacre_containment::wire::{self, Order, Report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::os::fd::AsFd;
use std::time::Duration;

/// Runs until the host shuts the session down or is gone. Never returns.
pub fn run(mut family: Family, setting: Setting, arguments: &Arguments) -> ! {
    let leave =
        |family: &Family, setting: &Setting, grace| ending::end(family, setting, grace, arguments.scratch.as_deref());
    let mut ladder: Option<Ladder> = None;
    if let Some(shell) = family.shell {
        let _ = tell(&setting, &Report::Started { shell, group: family.group_directory() });
    }
    loop {
        let wake = wait(&setting, ladder.as_ref());
        if wake.host_gone {
            leave(&family, &setting, Duration::ZERO);
        }
        if wake.children {
            while let Ok(Some(_)) = setting.children.read_signal() {}
            for report in reap(&mut family) {
                let _ = tell(&setting, &report);
            }
        }
        if wake.order {
            match wire::receive::<Order>(setting.control.as_fd()) {
                Ok(Some(Order::KillForeground { id, signal, grace_ms, spare, last_words })) => {
                    let plan = Plan { id, signal, grace: Duration::from_millis(grace_ms), spare, last_words };
                    ladder = Some(Ladder::start(plan, &family));
                }
                Ok(Some(Order::Settled)) => {
                    if let Some(running) = &mut ladder {
                        running.settle();
                    }
                }
                Ok(Some(Order::KillShell)) => {
                    if let Some(shell) = family.shell {
                        let _ = nacre_containment::signal::send_to_child(shell, libc::SIGKILL);
                    }
                }
                Ok(Some(Order::Rotate)) => {
                    family.rotate();
                    let _ = tell(&setting, &Report::Rotated { group: family.group_directory() });
                }
                Ok(Some(Order::Standby { pid })) => family.set_standby(pid),
                Ok(Some(Order::PromoteStandby)) => {
                    let _ = tell(&setting, &Report::Promoted { shell: family.promote_standby() });
                }
                Ok(Some(Order::Respawn)) => {
                    let report = match family.respawn(arguments, &setting) {
                        Ok(shell) => Report::Started { shell, group: family.group_directory() },
                        Err(failure) => Report::StartFailed { message: failure.message, errno: failure.errno },
                    };
                    let _ = tell(&setting, &report);
                }
                Ok(Some(Order::Shutdown { grace_ms })) => leave(&family, &setting, Duration::from_millis(grace_ms)),
                // End of file, or a host that speaks another language: nobody is there whom we could serve.
                Ok(None) | Err(_) => leave(&family, &setting, Duration::ZERO),
            }
        }
        if let Some(running) = &mut ladder
            && let Some(escalated) = running.step(&mut family)
        {
            let _ = tell(&setting, &Report::Killed { id: running.id(), escalated });
            ladder = None;
        }
    }
}

struct Wake {
    order: bool,
    children: bool,
    host_gone: bool,
}

fn wait(setting: &Setting, ladder: Option<&Ladder>) -> Wake {
    let mut fds = vec![
        PollFd::new(setting.control.as_fd(), PollFlags::POLLIN),
        PollFd::new(setting.children.as_fd(), PollFlags::POLLIN),
    ];
    fds.extend(setting.host.as_ref().map(|host| PollFd::new(host.as_fd(), PollFlags::POLLIN)));
    let fixed = fds.len();
    let mut timeout = PollTimeout::NONE;
    if let Some(ladder) = ladder {
        fds.extend(ladder.watched().iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        // Rounded up: a timer that fires early would only look once more.
        timeout = PollTimeout::from((ladder.next_look().as_millis() + 1).min(60_000) as u16);
    }
    if poll(&mut fds, timeout).is_err() {
        return Wake { order: false, children: true, host_gone: false };
    }
    let any = |fd: &PollFd| fd.any().unwrap_or(false);
    Wake { order: any(&fds[0]), children: any(&fds[1]), host_gone: fixed > 2 && any(&fds[2]) }
}

/// Reaps everything that has ended. Orphans nobody asked about are simply gone; the shell is reported.
fn reap(family: &mut Family) -> Vec<Report> {
    let mut reports = Vec::new();
    loop {
        let (raw, code, signal) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => (pid, Some(code), None),
            Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, None, Some(signal as i32)),
            Ok(WaitStatus::StillAlive) | Err(_) => return reports,
            Ok(_) => continue,
        };
        let pid = child_pid(raw.as_raw());
        if family.reaped(pid) {
            reports.push(Report::ShellEnded { pid, code, signal });
        }
    }
}

fn tell(setting: &Setting, report: &Report) -> std::io::Result<()> {
    wire::send(setting.control.as_fd(), report)
}
