//! Which rule refuses an attempt to use a file, before the kernel decides about it.
//!
//! Nothing depends on the answer but what is reported, so a program gains nothing if it changes the file or the path meanwhile.

use super::{Judge, Ran, Refusal, Rule};
use crate::paths::real_at_once as real;
use crate::view::essentials;
use nacre_protocol::confinement::{Confinement, Observed};
use rustix::fs::{StatVfsMountFlags, statvfs};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a program does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads a file or lists a directory.
    Read,
    /// Executes a program.
    Execute,
    /// Opens a file that exists to change it.
    Change,
    /// The same, or creates it.
    Write,
    /// Reads a file, or creates it.
    Ensure,
    /// Creates what does not exist.
    Create,
    /// Removes what exists, or moves it away.
    Remove,
    /// Changes the permissions, the owner or the times of what exists.
    Mark,
    /// Puts something there, whatever is there.
    Replace,
}

/// Judges attempts by the rules of a session.
pub struct AttemptJudge<'a> {
    judge: Judge<'a>,
    learns: bool,
}

/// A refused attempt.
pub struct RefusedAttempt {
    /// Why.
    pub refusal: Refusal,
    /// What must be on a read-only mount where programs see it: a rule for what mounts enforce is not all that they show.
    pub is_read_only: Option<PathBuf>,
}

impl<'a> AttemptJudge<'a> {
    /// What judges by the rules that are observed.
    pub fn new(confinement: &'a Confinement, observed: &'a Observed, ran: &'a Ran<'a>) -> Self {
        let files = &observed.filesystem;
        let judge = Judge { confinement, files, needed: essentials(), ran, looked: 0 };
        Self { judge, learns: observed.learns }
    }

    /// Why the rules refuse an attempt that would work without them. The path is absolute, without `.` and `..`. Looks at files.
    pub fn judge(&self, path: &Path, wanted: Use) -> Option<RefusedAttempt> {
        let judge = &self.judge;
        if judge.is_own(path) {
            return None;
        }
        let named = judge.invisible(path);
        // The answer must not depend on what the machine has there: programs could ask whether a file exists. Those that learn
        // see everything.
        if let (Some(refusal), false) = (&named, self.learns) {
            let reads = matches!(wanted, Use::Read | Use::Execute | Use::Ensure);
            let refusal = match path.parent() {
                // What is writable is readable, too.
                Some(directory) if refusal.rule == Rule::Read && !reads => {
                    Refusal { rule: Rule::Write, tree: directory.into(), path: path.into() }
                }
                _ => refusal.clone(),
            };
            return Some(RefusedAttempt { refusal, is_read_only: None });
        }
        let place = match (wanted, path.parent(), path.file_name()) {
            // A link is removed or replaced itself.
            (Use::Remove | Use::Create | Use::Replace, Some(parent), Some(name)) => real(parent).join(name),
            _ => real(path),
        };
        if judge.is_own(&place) {
            return None;
        }
        let invisible = named.or_else(|| judge.invisible(&place)).map(|found| Refusal { path: path.into(), ..found });
        let directory = place.parent()?;
        let protected = judge.protected(&place, directory);
        let reads = matches!(wanted, Use::Read | Use::Execute);
        // Most attempts: no rule is about them, whatever is there.
        if invisible.is_none() && (reads || protected.is_none()) {
            return None;
        }
        let found = place.symlink_metadata().ok();
        let has_mounts = judge.confinement.namespaces.is_some();
        let wanted = match wanted {
            Use::Execute => Use::Read,
            Use::Ensure if found.is_some() => Use::Read,
            Use::Ensure => Use::Write,
            wanted => wanted,
        };
        let (changed, of) = match (wanted, &found) {
            (Use::Read, None) if self.learns => return None,
            (Use::Read, Some(found)) if self.learns && !(judge.may(found, 4) || judge.may(found, 1)) => return None,
            (Use::Read, _) => return invisible.map(|refusal| RefusedAttempt { refusal, is_read_only: None }),
            // A pipe, a socket or a device can be opened for writing wherever it is.
            (Use::Change | Use::Write, Some(found)) if found.is_file() => (found.clone(), place.as_path()),
            // Only its owner may do that, and only a mount prevents it.
            (Use::Mark, Some(found)) if has_mounts && (found.uid() == judge.ran.user || judge.is_root()) => {
                (found.clone(), place.as_path())
            }
            (Use::Mark, _)
            | (Use::Change | Use::Write, Some(_))
            | (Use::Change | Use::Remove, None)
            | (Use::Create, Some(_)) => return None,
            _ => (directory.metadata().ok()?, directory),
        };
        let is_writable = statvfs(of).is_ok_and(|system| !system.f_flag.contains(StatVfsMountFlags::RDONLY));
        let may_change = wanted == Use::Mark || judge.may(&changed, 2);
        if !(is_writable && may_change && judge.may_reach(of)) {
            return None;
        }
        // What is hidden stays hidden where it can be written.
        if let Some(refusal) = invisible.filter(|found| !self.learns || found.rule == Rule::Hide) {
            return Some(RefusedAttempt { refusal, is_read_only: None });
        }
        let (rule, tree) = protected?;
        let is_read_only = (has_mounts && !self.learns).then(|| of.to_path_buf());
        Some(RefusedAttempt { refusal: Refusal { path: path.into(), rule, tree }, is_read_only })
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
