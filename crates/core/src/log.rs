//! Diagnostics: events and durations of sessions, commands, processes, supervisors and state transitions.
//!
//! They are `tracing` events, which cost one comparison without a subscriber. The first sandbox installs a subscriber
//! if `NACRE_LOG` is set, and the first sandbox with a logger does so otherwise. `NACRE_LOG` selects the events that
//! are printed to standard error and sent to loggers. Without it, loggers receive warnings and errors.
//!
//! `NACRE_LOG` uses the levels and targets of env-filter: `debug`, `nacre_core::session=trace,warn`, `off`. Directives
//! for spans and fields are rejected: the engine has no spans, and the library for them would make the addon a quarter
//! larger.

use nacre_containment::lock::Lock;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

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

static LOGGERS: Lock<Option<HashMap<u64, Arc<Write>>>> = Lock::new(None);

/// A sandbox's logger. Cheap to clone; the default logger receives nothing.
#[derive(Clone, Debug, Default)]
pub struct Log(Option<Arc<Registration>>);

#[derive(Debug)]
struct Registration(u64);

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(loggers) = LOGGERS.lock().as_mut() {
            loggers.remove(&self.0);
        }
    }
}

impl Log {
    /// Creates a logger that is called on the engine's thread.
    pub fn new(write: impl Fn(Level, String) + Send + Sync + 'static) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        LOGGERS.lock().get_or_insert_default().insert(id, Arc::new(write));
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
            let filter = parse_filter(wanted.as_deref().unwrap_or("warn")).unwrap_or_else(|error| {
                eprintln!("nacre: NACRE_LOG is not a valid filter and 'warn' is used instead: {error}");
                Targets::new().with_default(tracing::Level::WARN)
            });
            let print = wanted.map(|_| tracing_subscriber::fmt::layer().with_writer(std::io::stderr));
            let registry = tracing_subscriber::registry().with(filter).with(Forward).with(print);
            // Fails only if the process already has a subscriber, which then receives the events.
            let _ = tracing::subscriber::set_global_default(registry);
        });
    }
}

/// Parses a comma-separated list of levels and targets. Skips blanks and empty items.
fn parse_filter(text: &str) -> Result<Targets, String> {
    let directives: Vec<&str> = text.split(',').map(str::trim).filter(|directive| !directive.is_empty()).collect();
    if directives.is_empty() {
        return Err("it has no level and no target".to_string());
    }
    for directive in &directives {
        if directive.contains(['[', ']', '{', '}']) {
            return Err(format!("'{directive}' is for spans or fields, and only levels and targets are supported"));
        }
        if let Err(error) = directive.parse::<Targets>() {
            return Err(format!("'{directive}': {error}"));
        }
    }
    directives.join(",").parse::<Targets>().map_err(|error| error.to_string())
}

/// Forwards events to the logger that their field `log` names.
struct Forward;

impl<S: Subscriber> Layer<S> for Forward {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut line = LogLine::default();
        event.record(&mut line);
        let write = LOGGERS.lock().as_ref().and_then(|loggers| loggers.get(&line.log).cloned());
        if let Some(write) = write {
            let level = match *event.metadata().level() {
                tracing::Level::ERROR => Level::Error,
                tracing::Level::WARN => Level::Warn,
                tracing::Level::INFO => Level::Info,
                _ => Level::Debug,
            };
            write(level, line.message + &line.fields);
        }
    }
}

#[derive(Default)]
struct LogLine {
    log: u64,
    message: String,
    fields: String,
}

impl Visit for LogLine {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "log" {
            self.log = value;
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
    fn a_filter_has_levels_and_targets() {
        let enabled = |text: &str| {
            let filter = parse_filter(text).unwrap();
            [("nacre_core", tracing::Level::INFO), ("nacre_core::session", tracing::Level::TRACE)]
                .map(|(target, level)| filter.would_enable(target, &level))
        };
        assert_eq!(enabled("debug"), [true, false]);
        assert_eq!(enabled("nacre_core=debug,warn"), [true, false]);
        assert_eq!(enabled("nacre_core::session=trace"), [false, true]);
        assert_eq!(enabled("warn, nacre_core::session=trace,"), [false, true]);
        assert_eq!(enabled("nacre_core"), [true, true]);
        assert_eq!(enabled("TRACE,nacre_core::session=off"), [true, false]);
        assert_eq!(enabled("off"), [false, false]);
    }

    #[test]
    fn a_filter_of_spans_or_fields_is_refused() {
        for text in ["[span]", "[span{field=v}]=debug", "warn,nacre_core[{session}]=debug", "[{session=\"a\"}]"] {
            let error = parse_filter(text).unwrap_err();
            assert!(error.ends_with("and only levels and targets are supported"), "{error}");
        }
        assert!(parse_filter(" , ").is_err());
        for text in ["nacre_core=loud", "nacre_core=debug=trace"] {
            assert!(parse_filter(text).unwrap_err().starts_with(&format!("'{text}': ")));
        }
    }

    #[test]
    fn an_event_reaches_the_logger_that_it_names_and_no_other() {
        let (sender, lines) = std::sync::mpsc::channel();
        let log = Log::new(move |level, line| drop(sender.send((level, line))));
        let other = Log::new(|_, line| panic!("not meant for this one: {line}"));
        assert_ne!(log.id(), other.id());
        let subscriber = tracing_subscriber::registry().with(Forward);
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(log = log.id(), session = %"s1", "the shell died");
            tracing::warn!(log = 0, "of no sandbox");
        });
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), [(Level::Warn, "the shell died session=s1".to_string())]);
        let id = log.id();
        drop(log);
        assert!(!LOGGERS.lock().as_ref().unwrap().contains_key(&id));
    }
}
