//! The value of an event.

use napi::bindgen_prelude::{Result, ToNapiValue};
use napi::sys;

/// What a call returns. It is converted on JavaScript's thread.
pub struct Value(Box<dyn Convert>);

impl Value {
    /// Takes what a call returns.
    pub fn new(value: impl ToNapiValue + Send + 'static) -> Self {
        Self(Box::new(value))
    }
}

trait Convert: Send {
    /// # Safety
    /// `env` is the environment of this thread.
    unsafe fn convert(self: Box<Self>, env: sys::napi_env) -> Result<sys::napi_value>;
}

impl<T: ToNapiValue + Send> Convert for T {
    unsafe fn convert(self: Box<Self>, env: sys::napi_env) -> Result<sys::napi_value> {
        // SAFETY: as the caller promises.
        unsafe { T::to_napi_value(env, *self) }
    }
}

impl ToNapiValue for Value {
    unsafe fn to_napi_value(env: sys::napi_env, Value(value): Self) -> Result<sys::napi_value> {
        // SAFETY: the caller passes the environment of this thread.
        unsafe { value.convert(env) }
    }
}
