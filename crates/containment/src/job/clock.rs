//! Timestamps of the job format: ISO 8601 in UTC, with milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time.
pub fn now() -> String {
    iso(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64)
}

/// Formats milliseconds since the epoch. The year is counted from March, so that leap days come last.
pub fn iso(since_epoch_ms: u64) -> String {
    let (days, of_day) = (since_epoch_ms / 86_400_000, since_epoch_ms % 86_400_000);
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (seconds, ms) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Parses what [`iso`] formats, in UTC; `None` for anything else.
pub fn parse(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !text.ends_with('Z') || !in_range {
        return None;
    }
    let ms = match text.get(19..text.len() - 1)? {
        "" => 0,
        fraction => fraction.strip_prefix('.')?.get(..3)?.parse().ok()?,
    };
    let (shifted_year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = 365 * shifted_year + shifted_year / 4 - shifted_year / 100 + shifted_year / 400 + of_year - 719_468;
    Some(days * 86_400_000 + (hour * 3600 + minute * 60 + second) * 1000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_read_back() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_123, "2000-02-29T00:00:00.123Z"),
            (1_735_689_599_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(ms), text);
            assert_eq!(parse(text), Some(ms));
        }
        assert_eq!(parse("2024-12-31T23:59:59Z"), Some(1_735_689_599_000));
        assert_eq!(
            (parse("yesterday"), parse("2024-13-01T00:00:00Z"), parse("2024-12-31T23:59:59+01")),
            (None, None, None)
        );
    }
}
