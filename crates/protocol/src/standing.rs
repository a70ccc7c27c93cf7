//! What every process of a session or job runs under: its user and the limits that it inherits.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The user a program runs as. As text: `UID:GID:GROUP,GROUP`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAs {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, including the primary group.
    pub groups: Vec<u32>,
}

impl fmt::Display for RunAs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        write!(formatter, "{}:{}:{}", self.uid, self.gid, groups.join(","))
    }
}

/// The text is not `UID:GID:GROUP,GROUP`.
#[derive(Debug)]
pub struct NoUser;

impl FromStr for RunAs {
    type Err = NoUser;

    fn from_str(text: &str) -> Result<Self, NoUser> {
        let parse = || {
            let mut parts = text.split(':');
            let (uid, gid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            let groups = parts.next()?.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
            Some(Self { uid, gid, groups })
        };
        parse().ok_or(NoUser)
    }
}

/// Resource limits, which processes inherit (setrlimit(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// RLIMIT_NOFILE.
    pub open_files: Option<u64>,
    /// RLIMIT_NPROC.
    pub processes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_reads_back_from_its_text() {
        let user = RunAs { uid: 1, gid: 2, groups: vec![2, 3] };
        assert_eq!((user.to_string().as_str(), user.to_string().parse().ok()), ("1:2:2,3", Some(user)));
        assert!("1".parse::<RunAs>().is_err() && "1:2:".parse::<RunAs>().is_err());
    }
}
