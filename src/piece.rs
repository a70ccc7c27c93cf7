//! A piece of output for JavaScript.

use napi::bindgen_prelude::{Result, ToNapiValue, check_status};
use napi::sys;
use std::ptr;

/// Bytes that are copied into the JavaScript engine's memory.
///
/// Transferring the memory would avoid the copy. But V8 frees external memory only with its old objects, after 64 MB
/// of it have accumulated. It frees its own memory with the young objects, sooner and at lower cost. Copying also
/// lets the engine reuse the same few buffers.
pub struct Piece(pub Vec<u8>);

impl ToNapiValue for Piece {
    unsafe fn to_napi_value(env: sys::napi_env, Piece(bytes): Self) -> Result<sys::napi_value> {
        let mut value = ptr::null_mut();
        // SAFETY: the caller passes the environment of this thread; the pointer and the length describe `bytes`,
        // which are copied during the call.
        let status = unsafe {
            sys::napi_create_buffer_copy(env, bytes.len(), bytes.as_ptr().cast(), ptr::null_mut(), &mut value)
        };
        check_status!(status, "a buffer of {} bytes could not be created", bytes.len())?;
        Ok(value)
    }
}
