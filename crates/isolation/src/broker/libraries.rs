//! Keeps libraries that the session could have written out of programs that have hosts of their own.

use super::notification::{Call, Listener};
use super::reports::Reports;
use crate::explain::{Ran, Refusal, Rule};
use crate::foreign::{caller_of, process_of, take_descriptor};
use crate::programs;
use nacre_protocol::confinement::KnownPrograms;
use nacre_protocol::connections::{ConnectionReport, LONGEST_PATH};
use nacre_protocol::standing::RunAs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Maximum libraries of which the host has not received reports.
const MAX_REPORTS: usize = 100;

/// See the module.
pub struct Libraries<'a> {
    known: &'a KnownPrograms,
    user: RunAs,
    reports: Option<Reports<'a, PathBuf>>,
}

impl<'a> Libraries<'a> {
    /// `ran`: the user of the programs.
    pub fn new(known: &'a KnownPrograms, ran: &Ran<'_>, reports: Option<&'a OwnedFd>) -> Self {
        let user = RunAs { uid: ran.user, gid: ran.user, groups: ran.groups.to_vec() };
        Self { known, user, reports: reports.map(|reports| Reports::new(reports, MAX_REPORTS)) }
    }

    /// Whether a call may map a file. The descriptor stays the same until then: other processes share none with a process that has
    /// executed a program, and its own threads run the program.
    pub fn admit(&mut self, listener: &Listener, call: &Call) -> bool {
        // Whatever cannot be looked at is refused.
        let Ok(process) = process_of(call.thread) else { return false };
        match programs::of(process, self.known) {
            // Another program may load anything.
            Ok(None) => return true,
            Ok(Some(_)) => {}
            Err(_) => return false,
        }
        let Ok(file) = take_descriptor(process, call.arguments[4] as i32) else { return false };
        let Ok(path) = programs::path_of(&file) else { return false };
        let may_load = programs::may_load(&file, &path, self.known, &self.user);
        if !may_load && listener.is_waiting(call) {
            self.report(path, call.thread);
        }
        may_load
    }

    fn report(&mut self, path: PathBuf, thread: i32) {
        if let Some(reports) = self.reports.as_mut().filter(|_| path.as_os_str().len() <= LONGEST_PATH) {
            reports.send(path.clone(), || {
                let refusal = Refusal { tree: path.clone(), path, rule: Rule::Program };
                ConnectionReport::File(refusal, caller_of(thread))
            });
        }
    }
}
