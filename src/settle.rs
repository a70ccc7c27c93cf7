//! Calls that end with an event.

use crate::emitter::Emitter;
use crate::value::Value;
use nacre_core::error::Error;
use napi::bindgen_prelude::{Result, ToNapiValue};
use napi::sys;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a method returns whose call ends later: the `value` of its `done` event is a `T`. JavaScript sees `undefined`.
pub struct Pending<T>(PhantomData<fn() -> T>);

impl<T> ToNapiValue for Pending<T> {
    unsafe fn to_napi_value(env: sys::napi_env, _: Self) -> Result<sys::napi_value> {
        // SAFETY: the caller passes the environment of this thread.
        unsafe { <()>::to_napi_value(env, ()) }
    }
}

/// Ensures that a call is answered, even if its work panics.
pub struct Settle<T> {
    id: u32,
    emitter: Arc<Emitter>,
    open: bool,
    answer: PhantomData<fn(T)>,
}

impl<T: ToNapiValue + Send + 'static> Settle<T> {
    /// Takes on a call. Its method returns the second.
    pub fn new(id: u32, emitter: &Arc<Emitter>) -> (Self, Pending<T>) {
        let settle = Self { id, emitter: Arc::clone(emitter), open: true, answer: PhantomData };
        (settle, Pending(PhantomData))
    }

    /// Sends the last event.
    pub fn answer(mut self, result: std::result::Result<T, Error>) {
        self.open = false;
        self.emitter.settle(self.id, result.map(Value::new));
    }
}

impl<T> Drop for Settle<T> {
    fn drop(&mut self) {
        if self.open {
            self.emitter.settle(self.id, Err(Error::engine_failed()));
        }
    }
}
