//! Backpressure on a process whose reader lags.
//!
//! The reader reports what it has taken. While more than a window of output waits, the pipes of the process are not
//! read, and the process blocks when they are full. Nothing is dropped, and memory stays bounded.

use tokio::sync::watch;

/// See the module.
#[derive(Debug)]
pub struct ProcessHold {
    window: u64,
    /// The reader's position in the log.
    taken: watch::Sender<u64>,
}

impl ProcessHold {
    /// Lets at most `window` bytes wait for the reader.
    pub fn new(window: u64) -> Self {
        Self { window, taken: watch::Sender::default() }
    }

    /// Reports that the reader has taken everything before `cursor`.
    pub fn take(&self, cursor: u64) {
        self.taken.send_modify(|taken| *taken = cursor.max(*taken));
    }

    /// Waits until there is room beyond `end`. Cancel-safe.
    pub async fn room(&self, end: u64) {
        let mut taken = self.taken.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = taken.wait_for(|taken| end.saturating_sub(*taken) < self.window).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn there_is_room_again_when_the_reader_has_taken_enough() {
        let hold = ProcessHold::new(10);
        let is_full = async || tokio::time::timeout(Duration::from_millis(1), hold.room(10)).await.is_err();
        hold.room(9).await;
        assert!(is_full().await);
        hold.take(1);
        hold.room(10).await;
        hold.take(0);
        assert!(!is_full().await, "the reader never goes back");
    }
}
