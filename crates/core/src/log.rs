//! What the engine has to say besides results: to the host's logger, when it has one.

use std::fmt;
use std::sync::Arc;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For whoever looks for a fault.
    Debug,
    /// Something went wrong and was put right.
    Warn,
    /// Something was lost.
    Error,
}

impl Level {
    /// The name of the logger's method.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

type Write = dyn Fn(Level, String) + Send + Sync;

/// Silent by default. Cheap to clone.
#[derive(Clone, Default)]
pub struct Log(Option<Arc<Write>>);

impl Log {
    /// A log that is written to from the engine's thread.
    pub fn new(write: impl Fn(Level, String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(write)))
    }

    /// Writes a line; it is made only when somebody wants it.
    pub fn write(&self, level: Level, line: impl FnOnce() -> String) {
        if let Some(write) = &self.0 {
            write(level, line());
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Log" } else { "no log" })
    }
}
