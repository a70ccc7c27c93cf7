//! Telling a command's processes from those that earlier commands have left running.

use super::listening::Happening;
use super::shell::{Phase, Shell};
use nacre_containment::cgroup::Group;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table;
use nacre_containment::wire::{Order, Report};

/// What the last processes of a finished command may take to end.
const LEAVING: std::time::Duration = std::time::Duration::from_millis(1);

impl Shell {
    /// Does for the next command what can be done before it is there.
    pub async fn get_ready(&mut self) {
        if self.phase == Phase::Ready {
            drop(self.take_base_output());
            self.driver.prepare_streams();
            self.isolate().await;
        }
    }

    /// Makes sure that the next command can be told from what earlier ones left running: they stay behind in their
    /// control group. Once done it holds until a command has run: only a command can make new processes here.
    pub async fn isolate(&mut self) {
        let Some(group) = self.group.clone().filter(|_| !self.isolated) else { return };
        self.isolated = true;
        let group = Group::at(group);
        if !self.has_strangers(&group) {
            return;
        }
        // Moving a process to another group can take the kernel milliseconds. Perhaps these are only on their way out.
        tokio::time::sleep(LEAVING).await;
        if !self.has_strangers(&group) {
            return;
        }
        self.supervisor.order(&Order::Rotate);
        loop {
            match self.next().await {
                Happening::Supervisor(Report::Rotated { .. }) | Happening::SupervisorGone => return,
                _ => {}
            }
        }
    }

    fn has_strangers(&mut self, group: &Group) -> bool {
        let Ok(members) = group.members() else { return false };
        self.retired.retain(|pid| members.contains(pid));
        members.iter().any(|pid| *pid != self.pid && Some(*pid) != self.standby && !self.retired.contains(pid))
    }

    /// A command begins. Gives the roots of older trees that are to be spared when it is killed: none where control
    /// groups keep the two apart.
    pub fn begin_command(&mut self) -> Vec<Pid> {
        self.isolated = false;
        self.phase = Phase::Busy;
        self.stale = true;
        if self.group.is_some() {
            return Vec::new();
        }
        [self.pid, self.supervisor.pid()]
            .into_iter()
            .flat_map(proc_table::children)
            .filter(|pid| *pid != self.pid && Some(*pid) != self.standby)
            .take(4096)
            .collect()
    }
}
