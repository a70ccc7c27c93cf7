//! Environment variables and their changes.

use std::ffi::OsString;

/// A change of variables: `None` unsets.
pub type EnvChange = Vec<(String, Option<String>)>;

/// The environment with the changes applied.
pub fn changed(env: &[(OsString, OsString)], changes: EnvChange) -> Vec<(OsString, OsString)> {
    let mut env = env.to_vec();
    for (name, value) in changes {
        env.retain(|(existing, _)| *existing != *name);
        env.extend(value.map(|value| (OsString::from(name), OsString::from(value))));
    }
    env
}
