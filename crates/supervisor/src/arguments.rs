//! Parses the supervisor's command line, which the host writes.

use crate::standing::Standing;
use nacre_protocol::standing::{ResourceLimits, RunAs};
use std::ffi::OsString;
use std::path::PathBuf;

/// `--host PID --cwd DIR --shell PATH [--group DIR] [--user UID:GID:GROUPS] [--open-files N] [--processes N]`
pub struct Arguments {
    /// The process whose death ends everything.
    pub host: i32,
    /// The directory where the shell starts.
    pub cwd: PathBuf,
    /// Absolute path of bash.
    pub shell: OsString,
    /// The directory of the session's control group, which is created.
    pub group: Option<PathBuf>,
    /// The user that everything runs as.
    pub user: Option<RunAs>,
    /// Resource limits of everything that is started.
    pub limits: ResourceLimits,
}

impl Arguments {
    /// What the session's processes run under, except for a confinement.
    pub fn standing(&self) -> Standing<'_> {
        Standing { user: self.user.as_ref(), limits: self.limits, confined: None }
    }
}

/// The problem with a command line: one clause without a full stop.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentError {
    /// The last option has no value.
    #[error("{} needs a value", .0.display())]
    NoValue(OsString),
    /// An option's value is not a number.
    #[error("{} needs a number", .0.display())]
    NoNumber(OsString),
    /// The user's value cannot be parsed.
    #[error("--user is not UID:GID:GROUPS")]
    User,
    /// The host is missing or cannot be watched.
    #[error("--host is missing or not a pid")]
    Host,
    /// A required option is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The option is unknown.
    #[error("unknown option {}", .0.display())]
    Unknown(OsString),
}

/// Parses the command line.
pub fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Arguments, ArgumentError> {
    let (mut host, mut cwd, mut shell, mut group, mut user) = (None, None, None, None, None);
    let mut limits = ResourceLimits::default();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else { return Err(ArgumentError::NoValue(word)) };
        match word.to_str() {
            Some("--host") => host = value.to_str().and_then(|text| text.parse().ok()),
            Some("--cwd") => cwd = Some(PathBuf::from(value)),
            Some("--shell") => shell = Some(value),
            Some("--group") => group = Some(PathBuf::from(value)),
            Some("--user") => {
                user = Some(value.to_str().and_then(|text| text.parse().ok()).ok_or(ArgumentError::User)?)
            }
            Some("--open-files") => limits.open_files = Some(parse_number(&word, &value)?),
            Some("--processes") => limits.processes = Some(parse_number(&word, &value)?),
            _ => return Err(ArgumentError::Unknown(word)),
        }
    }
    // The host may be pid 1 of its namespace, so this is a plain number, not a `Pid`: it is watched, never signalled.
    let host = host.filter(|&host: &i32| host > 0).ok_or(ArgumentError::Host)?;
    let (cwd, shell) = (cwd.ok_or(ArgumentError::Missing("--cwd"))?, shell.ok_or(ArgumentError::Missing("--shell"))?);
    Ok(Arguments { host, cwd, shell, group, user, limits })
}

fn parse_number(word: &OsString, value: &OsString) -> Result<u64, ArgumentError> {
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| ArgumentError::NoNumber(word.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, ArgumentError> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn reads_every_option_and_names_what_is_wrong() {
        let line = "--host 7 --cwd /a --shell /bin/bash --group /g/n --user 1:2:2,3 --open-files 9";
        let arguments = parsed(line).ok().unwrap();
        assert_eq!((arguments.host, arguments.group), (7, Some("/g/n".into())));
        assert_eq!(
            (arguments.user, arguments.limits.open_files),
            (Some(RunAs { uid: 1, gid: 2, groups: vec![2, 3] }), Some(9))
        );
        for (line, problem) in [
            ("--host", "--host needs a value"),
            ("--host 0 --cwd / --shell /b", "--host is missing or not a pid"),
            ("--host 1 --shell /b", "--cwd is missing"),
            ("--host 1 --cwd /", "--shell is missing"),
            ("--user 1", "--user is not UID:GID:GROUPS"),
            ("--processes x", "--processes needs a number"),
            ("--other x", "unknown option --other"),
        ] {
            assert_eq!(parsed(line).err().unwrap().to_string(), problem);
        }
    }
}
