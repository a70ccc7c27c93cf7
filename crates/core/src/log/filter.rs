//! The filter of `NACRE_LOG`: which events are wanted.

use tracing_core::{Level, LevelFilter};

/// Levels of targets. An event has the level of the longest target that its own begins with.
#[derive(Debug)]
pub(super) struct Filter {
    /// Sorted by the length of the target, the longest first. The empty one is for everything.
    levels: Vec<(String, LevelFilter)>,
}

impl Filter {
    /// The events of all targets, up to a level.
    pub(super) fn of_level(level: LevelFilter) -> Self {
        Self { levels: vec![(String::new(), level)] }
    }

    /// Parses a comma-separated list of levels and targets. Skips blanks and empty items.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut levels: Vec<(String, LevelFilter)> = Vec::new();
        for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
            let (target, level) = parse_directive(directive)?;
            // The last one of a target counts.
            levels.retain(|(known, _)| known != target);
            levels.push((target.to_string(), level));
        }
        if levels.is_empty() {
            return Err("it has no level and no target".to_string());
        }
        levels.sort_by_key(|(target, _)| std::cmp::Reverse(target.len()));
        Ok(Self { levels })
    }

    /// Whether an event is wanted.
    pub(super) fn allows(&self, target: &str, level: &Level) -> bool {
        self.levels.iter().find(|(known, _)| target.starts_with(known)).is_some_and(|(_, most)| level <= most)
    }

    /// No event above this level is wanted.
    pub(super) fn max_level(&self) -> LevelFilter {
        self.levels.iter().map(|(_, level)| *level).max().unwrap_or(LevelFilter::OFF)
    }
}

/// `level`, `target` or `target=level`. The target of a bare level is empty, and the level of a bare target is `trace`.
fn parse_directive(directive: &str) -> Result<(&str, LevelFilter), String> {
    if directive.contains(['[', ']', '{', '}']) {
        return Err(format!("'{directive}' is for spans or fields, and only levels and targets are supported"));
    }
    let Some((target, level)) = directive.split_once('=') else {
        return Ok(directive.parse().map_or((directive, LevelFilter::TRACE), |level| ("", level)));
    };
    match level.parse() {
        Ok(level) => Ok((target, level)),
        Err(_) => Err(format!("'{directive}': '{level}' is not one of off, error, warn, info, debug and trace")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_levels_and_targets() {
        let enabled = |text: &str| {
            let filter = Filter::parse(text).unwrap();
            [("nacre_core", Level::INFO), ("nacre_core::session", Level::TRACE)]
                .map(|(target, level)| filter.allows(target, &level))
        };
        assert_eq!(enabled("debug"), [true, false]);
        assert_eq!(enabled("nacre_core=debug,warn"), [true, false]);
        assert_eq!(enabled("nacre_core::session=trace"), [false, true]);
        assert_eq!(enabled("warn, nacre_core::session=trace,"), [false, true]);
        assert_eq!(enabled("nacre_core"), [true, true]);
        assert_eq!(enabled("TRACE,nacre_core::session=off"), [true, false]);
        assert_eq!(enabled("off"), [false, false]);
        assert_eq!(enabled("trace,nacre_core=info,nacre_core::session=info,info,nacre_core=trace"), [true, false]);
    }

    #[test]
    fn knows_its_highest_level() {
        let highest = |text: &str| Filter::parse(text).unwrap().max_level();
        assert_eq!(highest("warn,nacre_core=debug"), LevelFilter::DEBUG);
        assert_eq!(highest("nacre_core"), LevelFilter::TRACE);
        assert_eq!(highest("off"), LevelFilter::OFF);
    }

    #[test]
    fn refuses_spans_and_fields() {
        for text in ["[span]", "[span{field=v}]=debug", "warn,nacre_core[{session}]=debug", "[{session=\"a\"}]"] {
            let error = Filter::parse(text).unwrap_err();
            assert!(error.ends_with("and only levels and targets are supported"), "{error}");
        }
        assert!(Filter::parse(" , ").is_err());
        for text in ["nacre_core=loud", "nacre_core=debug=trace"] {
            assert!(Filter::parse(text).unwrap_err().starts_with(&format!("'{text}': ")));
        }
    }
}
