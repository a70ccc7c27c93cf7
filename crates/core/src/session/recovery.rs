//! The state that a new shell starts with, and the parts of it that were lost.

use nacre_protocol::shell::Lost;

/// After so many shells that died while they restored a state, the next one starts without it.
const MOST_RESTORES: u32 = 2;

/// See the module.
#[derive(Default)]
pub(super) struct Recovery {
    /// The state of a shell that died with its supervisor, as its standby saved it.
    checkpoint: Option<Vec<u8>>,
    /// How often the checkpoint has been sent to a new shell without a reply.
    restores: u32,
    /// What could not be restored, until the next result reports it.
    lost: Vec<Lost>,
}

impl Recovery {
    /// Whether a new shell starts with a saved state.
    pub(super) fn has_checkpoint(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// The saved state that a new shell starts with.
    pub(super) fn checkpoint(&self) -> Option<&[u8]> {
        self.checkpoint.as_deref()
    }

    /// Keeps what the standby of the dead shell has saved. `None`: an earlier checkpoint stays.
    pub(super) fn keep_checkpoint(&mut self, checkpoint: Option<Vec<u8>>) {
        self.checkpoint = checkpoint.or(self.checkpoint.take());
    }

    /// The checkpoint for a new shell. Gives it up if shells have died while they restored it.
    pub(super) fn next_checkpoint(&mut self) -> Option<&[u8]> {
        if self.restores == MOST_RESTORES {
            (self.checkpoint, self.restores) = (None, 0);
            self.lose_state("shells died while it was restored");
        }
        self.checkpoint.as_deref()
    }

    /// Records that the checkpoint, if there is one, was sent to a shell.
    pub(super) fn attempted(&mut self) {
        self.restores += u32::from(self.checkpoint.is_some());
    }

    /// Records that a shell has restored the checkpoint, without these items.
    pub(super) fn restored(&mut self, without: Vec<Lost>) {
        self.restores = 0;
        self.lose(without);
    }

    /// Notes lost items for the result of the next command.
    pub(super) fn lose(&mut self, items: impl IntoIterator<Item = Lost>) {
        for item in items {
            if !self.lost.contains(&item) {
                self.lost.push(item);
            }
        }
    }

    /// Notes that the whole state is lost.
    pub(super) fn lose_state(&mut self, reason: &str) {
        self.lose([Lost { kind: "state".into(), name: String::new(), reason: reason.into() }]);
    }

    /// Whether a result is to report a loss.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Everything lost since the last call.
    pub(super) fn take_lost(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_kills_its_shells_is_given_up_and_reported_once() {
        let mut recovery = Recovery::default();
        recovery.keep_checkpoint(Some(b"state".to_vec()));
        for _ in 0..MOST_RESTORES {
            assert_eq!(recovery.next_checkpoint(), Some(&b"state"[..]));
            recovery.attempted();
        }
        assert_eq!(recovery.next_checkpoint(), None);
        assert_eq!(recovery.take_lost().len(), 1);
        assert_eq!(recovery.take_lost(), []);
    }

    #[test]
    fn a_shell_that_restored_its_state_counts_again_from_zero() {
        let mut recovery = Recovery::default();
        recovery.keep_checkpoint(Some(b"state".to_vec()));
        for _ in 0..MOST_RESTORES * 2 {
            assert!(recovery.next_checkpoint().is_some());
            recovery.attempted();
            recovery.restored(Vec::new());
        }
        // The next salvage found no standby.
        recovery.keep_checkpoint(None);
        assert!(recovery.has_checkpoint());
    }
}
