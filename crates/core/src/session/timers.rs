//! The session's timers: at most one of each kind.

use crate::shell::state::Ticket;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for a shell's handshake, and for its set-up.
pub(super) const HELLO: Duration = Duration::from_secs(20);

/// A timer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The timeout of the running command.
    Timeout(Ticket),
    /// The first timeout of a command that waits for its turn.
    Wait,
    /// The deadline for the supervisor to end a session.
    Closing,
    /// The deadline for the shell to report the end of the running command.
    Overdue(Ticket),
    /// The time to close unused pipes.
    IdlePipes,
    /// The group for the next process is due.
    NextGroup,
    /// The session has been idle for a while.
    Idle,
    /// Forking may be retried.
    ForkPauseOver,
    /// The deadline for processes of the last command to end by themselves.
    Leaving,
    /// The deadline for the shell to read the command.
    Unread,
    /// The deadline for the shell and the standby to fork what they were asked for.
    Unforked,
    /// The deadline for the supervisor's report.
    Supervisor,
    /// The deadline for the standby to become the shell.
    Promotion,
    /// The deadline for the shell's handshake.
    Hello,
    /// The time to check whether the files helper is idle.
    Files,
    /// The time to look whether the output of the command is complete.
    Rest,
    /// The time to show observers what the running command has printed.
    Output,
    /// The time to look for commands that callers have run, and for reports of the shell.
    Answers,
    /// The time to look whether a stream that is not read keeps other commands waiting.
    Stall,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Timers(Vec<(Instant, Timer)>);

/// How often the actor wakes up if no timer is set.
const NEVER: Duration = Duration::from_secs(24 * 3600);

impl Timers {
    /// Sets a timer, and replaces a timer of the same kind.
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.clear(timer);
        self.0.push((at, timer));
    }

    /// True if the timer is set.
    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0.iter().any(|(_, set)| is_same_kind(*set, timer))
    }

    /// Clears the timer of this kind.
    pub(super) fn clear(&mut self, timer: Timer) {
        self.0.retain(|(_, set)| !is_same_kind(*set, timer));
    }

    /// When the next timer is due.
    pub(super) fn next(&self) -> Instant {
        self.0.iter().map(|(at, _)| *at).min().unwrap_or_else(|| Instant::now() + NEVER)
    }

    /// Removes and returns the due timers.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Timer> {
        let due = self.0.iter().filter(|(at, _)| *at <= now).map(|(_, timer)| *timer).collect();
        self.0.retain(|(at, _)| *at > now);
        due
    }
}

fn is_same_kind(a: Timer, b: Timer) -> bool {
    std::mem::discriminant(&a) == std::mem::discriminant(&b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_one_of_a_kind_and_gives_what_is_due() {
        let (now, mut timers) = (Instant::now(), Timers::default());
        timers.set(Timer::Timeout(1), now);
        timers.set(Timer::Timeout(2), now + Duration::from_secs(1));
        timers.set(Timer::Idle, now);
        assert_eq!(timers.next(), now);
        assert_eq!(timers.due(now), [Timer::Idle]);
        assert!(timers.is_set(Timer::Timeout(0)) && !timers.is_set(Timer::Idle));
        timers.clear(Timer::Timeout(0));
        assert!(timers.next() > now + Duration::from_secs(60));
    }
}
