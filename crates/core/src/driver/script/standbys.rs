//! Who has told that it stands by, and where each waits to be woken.
//!
//! Standbys wait at two pipes in turn, and the fork that a large shell hands over to at a third. A shell that is killed
//! while it makes a snapshot may leave a standby that tells of itself only after the one before has been promoted: the
//! byte for that one is not to be had where the new one waits.

use super::transport::Pipe;
use nacre_containment::pid::Pid;

const FIRST: Pipe = Pipe::StandbyToken;
const SECOND: Pipe = Pipe::OtherStandbyToken;
/// A standby that is to be woken is never further back than this.
const KNOWN: usize = 4;

/// See the module. The latest last.
#[derive(Debug, Default)]
pub struct Standbys(Vec<(Pid, Pipe)>);

impl Standbys {
    /// A snapshot tells its pid and its turn.
    pub fn snapshot(&mut self, pid: Pid, turn: Option<i32>) {
        self.push(pid, if turn == Some(1) { SECOND } else { FIRST });
    }

    /// So does the fork that an ending shell hands over to.
    pub fn successor(&mut self, pid: Pid) {
        self.push(pid, Pipe::Succession);
    }

    fn push(&mut self, pid: Pid, token: Pipe) {
        self.0.push((pid, token));
        let excess = self.0.len().saturating_sub(KNOWN);
        self.0.drain(..excess);
    }

    /// Where this one waits.
    pub fn token_of(&self, standby: Pid) -> Pipe {
        self.0.iter().rev().find(|(pid, _)| *pid == standby).map_or(FIRST, |(_, token)| *token)
    }

    /// Where the latest snapshot waits.
    pub fn token(&self) -> Pipe {
        self.0.iter().rev().map(|(_, token)| *token).find(|token| *token != Pipe::Succession).unwrap_or(FIRST)
    }

    /// Where the next one is to wait.
    pub fn next_token(&self) -> Pipe {
        if self.token() == FIRST { SECOND } else { FIRST }
    }
}

/// What a snapshot that waits there tells as its turn.
pub fn turn(token: Pipe) -> i32 {
    i32::from(token == SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::new(number).unwrap()
    }

    #[test]
    fn snapshots_take_turns() {
        let mut standbys = Standbys::default();
        for number in 2..10 {
            let token = standbys.next_token();
            standbys.snapshot(pid(number), Some(turn(token)));
            assert_eq!(standbys.token(), token);
            assert_ne!(standbys.next_token(), token);
        }
        assert_ne!(standbys.token_of(pid(8)), standbys.token_of(pid(9)));
    }

    #[test]
    fn a_successor_waits_apart_and_takes_no_turn() {
        let mut standbys = Standbys::default();
        standbys.snapshot(pid(2), Some(0));
        standbys.successor(pid(3));
        assert_eq!(standbys.token_of(pid(3)), Pipe::Succession);
        assert_eq!((standbys.token(), standbys.next_token()), (FIRST, SECOND));
    }

    #[test]
    fn a_number_that_is_used_again_is_the_latest() {
        let mut standbys = Standbys::default();
        standbys.snapshot(pid(2), Some(0));
        standbys.snapshot(pid(2), Some(1));
        assert_eq!(standbys.token_of(pid(2)), SECOND);
    }
}
