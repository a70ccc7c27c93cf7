//! The reply to the starter.

use super::Channels;
use nacre_protocol::job::{Answer, JobRefusal};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// Sends the reply. A starter that has exited does not affect the job.
pub fn answer(channel: OwnedFd, answer: &Answer) {
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    let _ = File::from(channel).write_all(&line);
}

/// Reports that no process could be set up.
pub fn refuse(channels: &Channels, error: &io::Error) {
    if let Ok(channel) = channels.answer.try_clone() {
        let message = format!("the job's supervisor cannot be started: {error}");
        answer(channel, &Answer::Refused { kind: JobRefusal::Spawn, message });
    }
}
