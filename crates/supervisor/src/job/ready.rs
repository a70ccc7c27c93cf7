//! The answer to the starter.

use super::Channels;
use nacre_containment::job::request::{Answer, Refusal};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// Sends it. A starter that is gone is no concern of the job's.
pub fn answer(channel: OwnedFd, answer: &Answer) {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    let _ = File::from(channel).write_all(&line);
}

/// Says that no process could be set up.
pub fn refuse(channels: &Channels, error: &io::Error) {
    if let Ok(channel) = channels.answer.try_clone() {
        let message = format!("the job's supervisor can not be started: {error}");
        answer(channel, &Answer::Refused { kind: Refusal::Spawn, message });
    }
}
