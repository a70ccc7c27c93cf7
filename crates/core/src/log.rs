//! Diagnostics: events and durations of sessions, commands, processes, supervisors and state transitions.
//!
//! They are `tracing` events, which cost one comparison without a subscriber. The first sandbox installs a subscriber
//! if `NACRE_LOG` is set, and the first sandbox with a logger does so otherwise. `NACRE_LOG` selects the events that
//! are printed to standard error and sent to loggers. Without it, loggers receive warnings and errors.
//!
//! `NACRE_LOG` uses the levels and targets of env-filter: `debug`, `nacre_core::session=trace,warn`, `off`. Directives
//! for spans and fields are rejected: the engine has no spans, and the library for them would make the addon a quarter
//! larger.

mod filter;
mod timestamp;

use filter::Filter;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::SystemTime;
use timestamp::timestamp;
use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, LevelFilter, Metadata, Subscriber};

/// The level of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Diagnostics.
    Debug,
    /// Ordinary events.
    Info,
    /// Something went wrong and was repaired.
    Warn,
    /// Something was lost.
    Error,
}

impl Level {
    /// The name of the logger's method for this level.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

type Write = dyn Fn(Level, String) + Send + Sync;

static LOGGERS: Mutex<Option<HashMap<u64, Arc<Write>>>> = Mutex::new(None);

fn loggers() -> MutexGuard<'static, Option<HashMap<u64, Arc<Write>>>> {
    LOGGERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sandbox's logger. Cheap to clone; the default logger receives nothing.
#[derive(Clone, Debug, Default)]
pub struct Log(Option<Arc<Registration>>);

#[derive(Debug)]
struct Registration(u64);

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(loggers) = loggers().as_mut() {
            loggers.remove(&self.0);
        }
    }
}

impl Log {
    /// Creates a logger that is called on the engine's thread.
    pub fn new(write: impl Fn(Level, String) + Send + Sync + 'static) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        loggers().get_or_insert_default().insert(id, Arc::new(write));
        Self(Some(Arc::new(Registration(id))))
    }

    /// The value of the field `log` in events for this logger; 0 for none.
    pub fn id(&self) -> u64 {
        self.0.as_ref().map_or(0, |registration| registration.0)
    }

    /// Installs the subscriber if anything receives its events. Called for each sandbox.
    pub fn install(&self) {
        static INSTALLED: Once = Once::new();
        let wanted = std::env::var("NACRE_LOG").ok().filter(|filter| !filter.is_empty());
        if wanted.is_none() && self.0.is_none() {
            return;
        }
        INSTALLED.call_once(|| {
            let filter = Filter::parse(wanted.as_deref().unwrap_or("warn")).unwrap_or_else(|error| {
                eprintln!("nacre: NACRE_LOG is not a valid filter and 'warn' is used instead: {error}");
                Filter::of_level(LevelFilter::WARN)
            });
            let diagnostics = Diagnostics { filter, is_printed: wanted.is_some() };
            // Fails only if the process already has a subscriber, which then receives the events.
            let _ = tracing::subscriber::set_global_default(diagnostics);
        });
    }
}

/// Forwards events to the logger that their field `log` names, and prints them.
struct Diagnostics {
    filter: Filter,
    is_printed: bool,
}

impl Subscriber for Diagnostics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.filter.allows(metadata.target(), metadata.level())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.max_level())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let metadata = event.metadata();
        let id = line.log.unwrap_or(0);
        let write = loggers().as_ref().and_then(|loggers| loggers.get(&id).cloned());
        if let Some(write) = write {
            let level = match *metadata.level() {
                tracing::Level::ERROR => Level::Error,
                tracing::Level::WARN => Level::Warn,
                tracing::Level::INFO => Level::Info,
                _ => Level::Debug,
            };
            write(level, format!("{}{}", line.message, line.fields));
        }
        if self.is_printed {
            let log = line.log.map(|id| format!(" log={id}")).unwrap_or_default();
            let (time, level, target) = (timestamp(SystemTime::now()), metadata.level(), metadata.target());
            let text = format!("{time} {level:>5} {target}: {}{log}{}\n", line.message, line.fields);
            // In one call, so that lines of several threads do not mix. There is no other place for an error.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }

    // No span is enabled.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    /// The logger that the event is for.
    log: Option<u64>,
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "log" {
            self.log = Some(value);
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            let _ = write!(self.fields, " {}={value:?}", field.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_reaches_the_logger_that_it_names_and_no_other() {
        let (sender, lines) = std::sync::mpsc::channel();
        let log = Log::new(move |level, line| drop(sender.send((level, line))));
        let other = Log::new(|_, line| panic!("not meant for this one: {line}"));
        assert_ne!(log.id(), other.id());
        let subscriber = Diagnostics { filter: Filter::of_level(LevelFilter::WARN), is_printed: false };
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(log = log.id(), session = %"s1", "the shell died");
            tracing::warn!(log = 0, "of no sandbox");
        });
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), [(Level::Warn, "the shell died session=s1".to_string())]);
        let id = log.id();
        drop(log);
        assert!(!loggers().as_ref().unwrap().contains_key(&id));
    }
}
