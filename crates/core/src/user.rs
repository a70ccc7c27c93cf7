//! The user that a sandbox's commands run as.

use nix::unistd::{Gid, Uid, getgrouplist};
use std::ffi::{CString, OsString};
use std::path::PathBuf;

/// As it is asked for.
#[derive(Clone, Debug)]
pub enum UserSpec {
    /// From the system's user database.
    Name(String),
    /// Numbers, with or without an entry in it.
    Ids {
        /// User.
        uid: u32,
        /// Primary group.
        gid: u32,
    },
}

/// As it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, the primary one among them.
    pub groups: Vec<u32>,
    /// Name, home directory and login shell, when there is an entry.
    pub entry: Option<(String, PathBuf, PathBuf)>,
}

impl User {
    /// Looks the user up.
    ///
    /// # Errors
    /// There is no such user, or this process may not become somebody else. One sentence.
    pub fn resolve(spec: &UserSpec) -> Result<Self, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("the option 'user' needs a host that runs as root".into());
        }
        let (entry, ids) = match spec {
            UserSpec::Name(name) => {
                let found = nix::unistd::User::from_name(name)
                    .map_err(|error| format!("user '{name}' can not be looked up: {error}"))?
                    .ok_or_else(|| format!("there is no user '{name}'"))?;
                let ids = (found.uid.as_raw(), found.gid.as_raw());
                (Some(found), ids)
            }
            UserSpec::Ids { uid, gid } => {
                (nix::unistd::User::from_uid(Uid::from_raw(*uid)).ok().flatten(), (*uid, *gid))
            }
        };
        let groups = entry
            .as_ref()
            .and_then(|entry| CString::new(entry.name.clone()).ok())
            .and_then(|name| getgrouplist(&name, Gid::from_raw(ids.1)).ok())
            .map_or_else(|| vec![ids.1], |groups| groups.into_iter().map(Gid::as_raw).collect());
        let entry = entry.map(|entry| (entry.name, entry.dir, entry.shell));
        Ok(Self { uid: ids.0, gid: ids.1, groups, entry })
    }

    /// What a login would set in the environment.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let Some((name, home, shell)) = &self.entry else { return vec![("HOME", "/".into())] };
        vec![("HOME", home.into()), ("USER", name.into()), ("LOGNAME", name.into()), ("SHELL", shell.into())]
    }

    /// For the supervisor's command line: uid, gid and all groups.
    pub fn argument(&self) -> String {
        let groups: Vec<String> = self.groups.iter().map(u32::to_string).collect();
        format!("{}:{}:{}", self.uid, self.gid, groups.join(","))
    }
}
