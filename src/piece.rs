//! A piece of output for JavaScript.

use napi::bindgen_prelude::{Result, ToNapiValue, check_status};
use napi::sys;
use std::ptr;

/// Bytes that are copied into memory of the JavaScript engine.
///
/// Transferring the memory would save the copy. But V8 frees external memory only with its old objects, when 64 MB of
/// it have accumulated. It frees its own memory with the young objects, sooner and at lower cost. And the same few
/// buffers are reused here.
pub struct Piece(pub Vec<u8>);

impl ToNapiValue for Piece {
    unsafe fn to_napi_value(env: sys::napi_env, Piece(bytes): Self) -> Result<sys::napi_value> {
        let mut value = ptr::null_mut();
        // SAFETY: the caller gives the environment of this thread; the pointer and the length describe `bytes`, which
        // are copied during the call.
        let status = unsafe {
            sys::napi_create_buffer_copy(env, bytes.len(), bytes.as_ptr().cast(), ptr::null_mut(), &mut value)
        };
        check_status!(status, "a buffer of {} bytes could not be made", bytes.len())?;
        Ok(value)
    }
}
