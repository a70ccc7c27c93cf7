//! Lets nothing begin before the supervisor has covered again what programs of the machine have replaced.

use super::Session;
use nacre_containment::signal;
use nacre_protocol::supervisor::Order;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the supervisor may take. It takes some milliseconds, unless a file system does not respond.
const PATIENCE: Duration = Duration::from_secs(2);

impl Session {
    /// Waits if a file that the rules protect may have been replaced. A supervisor that does not answer is killed, and the session
    /// starts again.
    pub(super) async fn await_masks(&mut self) {
        if !self.supervision.is_connected() || !self.enclosure.asks_for_masks() {
            return;
        }
        self.ask(&Order::Mask);
        let mut give_up = Instant::now() + PATIENCE;
        let mut is_killed = false;
        while self.enclosure.awaits_masks() {
            match timeout_at(give_up, self.supervision.report()).await {
                Ok(Some((report, descriptors))) => self.handle_supervisor_report(report, descriptors),
                Ok(None) => {
                    self.await_shells_end().await;
                    self.supervisor_gone();
                    // No program runs any more.
                    break;
                }
                Err(_) if is_killed => break,
                Err(_) => {
                    let _ = self.supervision.pid().map(|pid| signal::send_to_child(pid, libc::SIGKILL));
                    (give_up, is_killed) = (give_up + PATIENCE, true);
                }
            }
        }
    }
}
