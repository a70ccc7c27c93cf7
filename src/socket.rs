//! A connected socket for JavaScript.

use napi::bindgen_prelude::{Result, ToNapiValue};
use napi::sys;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// Its number is JavaScript's as soon as it is converted. An event that the environment does not take any more closes it.
pub struct Socket(pub OwnedFd);

impl ToNapiValue for Socket {
    unsafe fn to_napi_value(env: sys::napi_env, Socket(fd): Self) -> Result<sys::napi_value> {
        // SAFETY: the caller passes the environment of this thread.
        let value = unsafe { i32::to_napi_value(env, fd.as_raw_fd()) }?;
        let _ = fd.into_raw_fd();
        Ok(value)
    }
}
