//! Users at the boundary.

use crate::types::NativeUser;
use nacre_core::user::{User, UserSpec};
use napi_derive::napi;

/// Converts a user.
pub fn spec(user: NativeUser) -> UserSpec {
    match user.name {
        Some(name) => UserSpec::Name(name),
        None => UserSpec::Ids { uid: user.uid.unwrap_or_default(), gid: user.gid.unwrap_or_default() },
    }
}

/// The home directory of a user; null if this process cannot run programs as that user.
#[napi]
pub fn home_of(user: NativeUser) -> Option<String> {
    User::home(&spec(user)).map(|home| home.to_string_lossy().into_owned())
}
