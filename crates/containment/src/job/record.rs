//! The end of a job: `exit` is a plain number, `end.json` has the details.

use serde::{Deserialize, Serialize};

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It exited.
    Exit,
    /// A signal that nacre did not send.
    Signal,
    /// Its timeout.
    Timeout,
    /// A cancel.
    Cancelled,
    /// Its memory limit.
    Oom,
}

impl Reason {
    /// As in `end.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Oom => "oom",
        }
    }
}

/// `end.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Exit code, when it exited.
    pub exit_code: Option<i32>,
    /// Signal, when a signal ended it.
    pub signal: Option<i32>,
    /// Why.
    pub reason: Reason,
    /// ISO 8601.
    pub ended_at: String,
    /// Milliseconds that it ran, by a monotonic clock.
    pub duration_ms: u64,
    /// Processes that it had started outlived it.
    pub left_behind: bool,
    /// The disk was full while it ran: some of its output is lost.
    pub output_lost: bool,
}

impl End {
    /// The content of `exit`: the code, or 128 plus the signal, as shells report it.
    pub fn exit_text(&self) -> String {
        format!("{}\n", self.exit_code.unwrap_or_else(|| 128 + self.signal.unwrap_or_default()))
    }
}

/// Bytes reserved for a record. Every record is much shorter.
pub const ROOM_BYTES: u64 = 512;

/// Parses `exit`; `None` for anything but a number.
pub fn parse_exit(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_a_number_for_everybody() {
        let end = End {
            exit_code: None,
            signal: Some(9),
            reason: Reason::Signal,
            ended_at: super::super::clock::iso(u64::MAX / 1_000_000),
            duration_ms: u64::MAX,
            left_behind: false,
            output_lost: false,
        };
        assert_eq!(end.exit_text(), "137\n");
        assert_eq!(End { exit_code: Some(3), signal: None, ..end.clone() }.exit_text(), "3\n");
        assert!((serde_json::to_vec(&end).unwrap().len() as u64) < ROOM_BYTES);
        assert_eq!(parse_exit(b" 12\n"), Some(12));
        assert_eq!((parse_exit(b""), parse_exit(b"1x"), parse_exit(b"\xff")), (None, None, None));
    }
}
