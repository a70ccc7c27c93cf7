//! Functions of the host that the engine calls.

use std::fmt;
use std::sync::Arc;

/// A function of the host. It must not block. The default does nothing.
pub struct Hook<T: ?Sized>(Option<Arc<Function<T>>>);

type Function<T> = dyn Fn(&T) + Send + Sync;

impl<T: ?Sized> Hook<T> {
    /// Calls this function.
    pub fn new(function: impl Fn(&T) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(function)))
    }

    pub(crate) fn call(&self, value: &T) {
        if let Some(function) = &self.0 {
            function(value);
        }
    }
}

impl<T: ?Sized> Default for Hook<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: ?Sized> Clone for Hook<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> fmt::Debug for Hook<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Hook")
    }
}
