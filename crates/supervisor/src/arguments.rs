//! The command line that the host starts the supervisor with.

use nacre_containment::pid::Pid;
use std::ffi::OsString;
use std::path::PathBuf;

/// `--host PID --cwd DIR [--group-parent DIR --group-name NAME] [--scratch DIR] [--user UID:GID:GROUPS] -- PROGRAM ARGV0 [ARGUMENT ...]`
pub struct Arguments {
    /// The process whose death ends everything.
    pub host: i32,
    /// Where the shell starts.
    pub cwd: PathBuf,
    /// Where to make the session's control group and what to call it.
    pub group: Option<(PathBuf, String)>,
    /// A directory to remove at the end.
    pub scratch: Option<PathBuf>,
    /// Whom the shell runs as: user, primary group, all groups.
    pub user: Option<(u32, u32, Vec<u32>)>,
    /// Absolute path of the shell.
    pub program: OsString,
    /// Its argument vector, from argv\[0\] on.
    pub argv: Vec<OsString>,
}

/// Reads the command line; the error is one clause without a full stop.
pub fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Arguments, String> {
    let (mut host, mut cwd, mut parent, mut name, mut scratch, mut user) = (None, None, None, None, None, None);
    loop {
        let word = words.next().ok_or("`--` and a program are missing")?;
        if word == "--" {
            break;
        }
        let value = words.next().ok_or_else(|| format!("{} needs a value", word.display()))?;
        match word.to_str() {
            Some("--host") => host = value.to_str().and_then(|text| text.parse().ok()),
            Some("--cwd") => cwd = Some(PathBuf::from(value)),
            Some("--group-parent") => parent = Some(PathBuf::from(value)),
            Some("--group-name") => name = value.into_string().ok(),
            Some("--user") => user = Some(value.to_str().and_then(parse_user).ok_or("--user is not UID:GID:GROUPS")?),
            Some("--scratch") => scratch = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown option {}", word.display())),
        }
    }
    let program = words.next().ok_or("a program is missing")?;
    let argv: Vec<OsString> = words.collect();
    if argv.is_empty() {
        return Err("the program's argv[0] is missing".into());
    }
    // The host may be pid 1 of its namespace, so this is a plain number and not a `Pid`: it is watched, never signalled.
    let host = host.filter(|&host: &i32| host > 0).ok_or("--host is missing or not a pid")?;
    Ok(Arguments { host, cwd: cwd.ok_or("--cwd is missing")?, group: parent.zip(name), scratch, user, program, argv })
}

fn parse_user(text: &str) -> Option<(u32, u32, Vec<u32>)> {
    let mut parts = text.split(':');
    let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let groups = parts.next()?.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((uid, gid, groups))
}

/// A child as `waitpid` reports it.
pub fn child_pid(raw: i32) -> Pid {
    Pid::new(raw).expect("waitpid gives pids of children, and no child of ours is init")
}
