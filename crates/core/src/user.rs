//! The user that a sandbox's commands run as.

use crate::error::{Code, Error};
use nacre_protocol::standing::RunAs;
use nix::errno::Errno;
use nix::unistd::{Gid, Uid, getgrouplist};
use std::ffi::{CString, OsString};
use std::path::PathBuf;

/// The requested user.
#[derive(Clone, Debug)]
pub enum UserSpec {
    /// A name in the system's user database.
    Name(String),
    /// Numeric ids, with or without an entry in the database.
    Ids {
        /// User.
        uid: u32,
        /// Primary group.
        gid: u32,
    },
}

/// The resolved user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its ids.
    pub run_as: RunAs,
    /// Name, home directory and login shell, if the database has them.
    pub entry: Option<(String, PathBuf, PathBuf)>,
}

/// Why commands cannot run as a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// This process cannot change its user.
    #[error("the option 'user' needs a host that runs as root")]
    NotRoot,
    /// The user database cannot be read.
    #[error("user '{name}' cannot be looked up: {errno}")]
    Lookup {
        /// The requested name.
        name: String,
        /// The system's reason.
        errno: Errno,
    },
    /// The user database has no such name.
    #[error("there is no user '{0}'; create it, or name another with the option 'user'")]
    NotFound(String),
}

impl From<UserError> for Error {
    fn from(error: UserError) -> Self {
        Self::new(Code::SpawnFailed, error.to_string())
    }
}

impl User {
    /// Looks the user up.
    ///
    /// # Errors
    /// The user does not exist, or this process may not change its user.
    pub fn resolve(spec: &UserSpec) -> Result<Self, UserError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(UserError::NotRoot);
        }
        let (entry, ids) = match spec {
            UserSpec::Name(name) => {
                let found = nix::unistd::User::from_name(name)
                    .map_err(|errno| UserError::Lookup { name: name.clone(), errno })?
                    .ok_or_else(|| UserError::NotFound(name.clone()))?;
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
        Ok(Self { run_as: RunAs { uid: ids.0, gid: ids.1, groups }, entry })
    }

    /// The home directory that a login as the user would set as HOME. `None` if the user cannot be found.
    pub fn home(spec: &UserSpec) -> Option<OsString> {
        let variables = Self::resolve(spec).ok()?.variables();
        variables.into_iter().find(|(name, _)| *name == "HOME").map(|(_, home)| home)
    }

    /// The variables that a login would set.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let Some((name, home, shell)) = &self.entry else { return vec![("HOME", "/".into())] };
        vec![("HOME", home.into()), ("USER", name.into()), ("LOGNAME", name.into()), ("SHELL", shell.into())]
    }
}
