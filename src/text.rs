//! Text for JavaScript.

use napi::bindgen_prelude::{Result, ToNapiValue, check_status};
use napi::sys;
use std::ptr;

/// UTF-8 that becomes a string. What is not valid is replaced. Most text is ASCII, which is only copied.
pub struct Text<T>(pub T);

impl<T: AsRef<[u8]>> ToNapiValue for Text<T> {
    unsafe fn to_napi_value(env: sys::napi_env, Text(bytes): Self) -> Result<sys::napi_value> {
        let bytes = bytes.as_ref();
        if !bytes.is_ascii() {
            // SAFETY: the caller passes the environment of this thread.
            return unsafe { String::to_napi_value(env, String::from_utf8_lossy(bytes).into_owned()) };
        }
        let mut value = ptr::null_mut();
        // SAFETY: as above; the pointer and the length describe `bytes`, which are copied during the call.
        let status =
            unsafe { sys::napi_create_string_latin1(env, bytes.as_ptr().cast(), bytes.len() as isize, &mut value) };
        check_status!(status, "a string of {} bytes could not be created", bytes.len())?;
        Ok(value)
    }
}
