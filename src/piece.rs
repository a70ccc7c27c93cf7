//! A piece of output for JavaScript.

use napi::bindgen_prelude::{Result, ToNapiValue, check_status};
use napi::sys;
use std::ptr;

/// Bytes that are copied into memory of the JavaScript engine's own.
///
/// Handing the memory over would save the copy. But the engine of Node.js then collects it only with its old objects,
/// when 64 MB of it are waiting; its own memory goes with the young ones, sooner and cheaper. And here the same few
/// buffers are used again and again.
pub struct Piece(pub Vec<u8>);

impl ToNapiValue for Piece {
    unsafe fn to_napi_value(env: sys::napi_env, Piece(bytes): Self) -> Result<sys::napi_value> {
        let mut value = ptr::null_mut();
        // SAFETY: the caller gives the environment of this thread; the pointer and the length describe `bytes`, which are
        // copied during the call.
        let status = unsafe {
            sys::napi_create_buffer_copy(env, bytes.len(), bytes.as_ptr().cast(), ptr::null_mut(), &mut value)
        };
        check_status!(status, "a buffer of {} bytes could not be made", bytes.len())?;
        Ok(value)
    }
}
