//! The last state of a session whose host has ended.
//!
//! The host writes a state at most once in 50 ms, so what the last commands have changed may be in the shell alone. The
//! supervisor has copies of the host's ends of the channels to the shell and its standby. So these do not notice the end of the
//! host, and can be asked for their state before they are killed. It is written when nothing of the session lives any more, so
//! a slow disk delays no kill. In plain mode, the host passes each state on, and no shell is asked.

use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_keep::Kept;
use nacre_protocol::kept::{FileState, SessionFile};
use nacre_protocol::shell::{MAX_STATE_BYTES, Request, RequestFlags, RequestKind, is_whole};
use nacre_protocol::{message, socket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// How long a shell may leave the question unread while it sleeps: it runs a command then.
const READING: Duration = Duration::from_millis(50);
/// How long the state may take. A usual one takes 1 ms, one of 100,000 variables 0.1 s.
const WRITING: Duration = Duration::from_millis(500);
/// Between two looks at a shell that does not answer.
const LOOK: u8 = 5;
/// Most bytes of each read.
const PART: usize = 64 * 1024;

/// What is needed to ask for the state and to write it.
pub struct Keeping {
    files: Kept,
    id: String,
    /// What the host has encoded for the file.
    made: File,
    shell: Option<OwnedFd>,
    /// With the number of its state.
    standby: Option<(OwnedFd, u64)>,
    /// The standby that the shell is forking.
    next: Option<(OwnedFd, u64)>,
    /// The state that the host has passed on, with its number.
    saved: Option<(File, u64)>,
}

/// What is to be written. The files stay locked until then, also if there is nothing.
pub struct LastState {
    keeping: Keeping,
    found: Option<KnownState>,
}

struct KnownState {
    state: FileState,
    /// `None` for the state of the shell, which is the newest.
    number: Option<u64>,
}

impl Keeping {
    /// `directory`, `made`: see [`Setup::kept_as`](nacre_protocol::supervisor::Setup::kept_as).
    pub fn new(id: String, directory: OwnedFd, made: OwnedFd) -> (Self, [RawFd; 2]) {
        let numbers = [directory.as_raw_fd(), made.as_raw_fd()];
        let files = Kept::shared(directory);
        (Self { files, id, made: made.into(), shell: None, standby: None, next: None, saved: None }, numbers)
    }

    /// The shell that has the state from now on.
    pub fn set_shell(&mut self, channel: Option<OwnedFd>) {
        self.shell = channel;
    }

    /// The shell has ended, and with it what it was forking: a fork that the host never learns of ends without its channel.
    pub fn shell_ended(&mut self) {
        (self.shell, self.next) = (None, None);
    }

    /// The shell is about to fork a standby, whose state has this number.
    pub fn expect(&mut self, channel: OwnedFd, number: u64) {
        self.next = Some((channel, number));
    }

    /// The fork is the standby now.
    pub fn standby_arrived(&mut self) {
        self.standby = self.next.take();
    }

    /// The standby has ended.
    pub fn standby_ended(&mut self) {
        self.standby = None;
    }

    /// The state that the session has now.
    pub fn set_saved(&mut self, state: OwnedFd, number: u64) {
        self.saved = Some((state.into(), number));
    }

    /// The standby becomes the shell.
    pub fn promote(&mut self) {
        self.shell = self.standby.take().map(|(channel, _)| channel);
        self.next = None;
    }

    /// Asks the shell and the standbys for their states, which takes at most half a second. That of a standby is older, and
    /// counts if the shell runs a command.
    pub fn ask(self, shell: Option<Pid>) -> LastState {
        let begun = Instant::now();
        let of_shell = self.shell.as_ref().and_then(|channel| Answer::ask(channel).ok());
        let ask = |standby: &Option<(OwnedFd, u64)>| Answer::ask(&standby.as_ref()?.0).ok();
        let (of_next, of_standby) = (ask(&self.next), ask(&self.standby));
        let mut answers = [of_shell, of_next, of_standby].map(Option::unwrap_or_default);
        while begun.elapsed() < WRITING {
            let [of_shell, of_next, of_standby] = &answers;
            let runs_command = || begun.elapsed() > READING && of_shell.state.is_empty() && self.has_unread(shell);
            let is_older_known = of_next.is_whole() || !(of_next.is_pending() || of_standby.is_pending());
            if of_shell.is_whole() || is_older_known && (!of_shell.is_pending() || runs_command()) {
                break;
            }
            let readers = answers.iter_mut().filter(|answer| answer.is_pending());
            read_some(readers.collect());
        }
        let [of_shell, of_next, of_standby] = answers;
        let found = if let Some((state, number)) = &self.saved {
            contents(state).ok().map(|state| KnownState { state: FileState::Encoded(state), number: Some(*number) })
        } else if of_shell.is_whole() {
            Some(KnownState { state: FileState::Items(of_shell.state), number: None })
        } else {
            let (of, answer) = if of_next.is_whole() { (&self.next, of_next) } else { (&self.standby, of_standby) };
            let number = of.as_ref().map(|(_, number)| *number);
            answer.is_whole().then_some(KnownState { state: FileState::Items(answer.state), number })
        };
        LastState { keeping: self, found }
    }

    /// Whether the shell sleeps, and has not read the question.
    fn has_unread(&self, shell: Option<Pid>) -> bool {
        let has_read = || {
            let channel = self.shell.as_ref();
            channel.is_none_or(|channel| socket::unread_bytes(channel.as_fd()).is_ok_and(|count| count == 0))
        };
        !shell.and_then(Stat::read).is_some_and(|stat| stat.is_working()) && !has_read()
    }
}

fn contents(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads what has arrived. Waits a moment for it.
fn read_some(mut answers: Vec<&mut Answer>) {
    let ready: Vec<bool> = {
        let watched = answers.iter().filter_map(|answer| answer.reader.as_ref());
        let mut fds: Vec<PollFd> = watched.map(|reader| PollFd::new(reader.as_fd(), PollFlags::POLLIN)).collect();
        let _ = poll(&mut fds, PollTimeout::from(LOOK));
        fds.iter().map(|fd| fd.any().unwrap_or(false)).collect()
    };
    answers.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready).for_each(|(answer, _)| answer.read());
}

/// The answer of a process, which writes its state to a pipe. The default is none.
#[derive(Default)]
struct Answer {
    /// `None` at its end.
    reader: Option<File>,
    state: Vec<u8>,
    /// The fork that writes ends without it.
    _fork: Option<OwnedFd>,
}

impl Answer {
    fn ask(channel: &OwnedFd) -> io::Result<Self> {
        let (fork, theirs) = socket::pair()?;
        let (reader, writer) = io::pipe()?;
        let flags = RequestFlags::CHECKPOINT | RequestFlags::NO_WARM;
        let request = Request { flags, ..Request::new(RequestKind::Fork, u64::MAX) };
        let encoded = request.encode().ok_or(io::ErrorKind::FileTooLarge)?;
        socket::send(channel.as_fd(), &encoded.message, &[theirs.as_fd(), writer.as_fd()])?;
        Ok(Self { reader: Some(OwnedFd::from(reader).into()), state: Vec::new(), _fork: Some(fork) })
    }

    fn is_pending(&self) -> bool {
        self.reader.is_some()
    }

    fn is_whole(&self) -> bool {
        !self.is_pending() && is_whole(&self.state)
    }

    /// Reads what has arrived. A program can write in the name of its shell, so the state is bounded.
    fn read(&mut self) {
        let Some(reader) = &mut self.reader else { return };
        let mut part = [0; PART];
        let length = reader.read(&mut part).unwrap_or(0);
        self.state.extend_from_slice(&part[..length]);
        if self.state.len() > MAX_STATE_BYTES {
            self.state.clear();
            self.reader = None;
        } else if length == 0 {
            self.reader = None;
        }
    }
}

impl LastState {
    /// Writes the state, unless the host has written a newer one. There is no one left that an error could be reported to: what
    /// was written before stays.
    pub fn write(self) {
        let (Keeping { files, id, made, .. }, Some(KnownState { state, number })) = (self.keeping, self.found) else {
            return;
        };
        let before = files.read(&id).ok().and_then(|content| message::decode::<SessionFile>(&content).ok());
        let written = before.map(|file| file.number);
        let number = number.unwrap_or_else(|| written.map_or(0, |written| written + 1));
        if written.is_none_or(|written| written < number)
            && let Ok(made) = contents(&made)
        {
            let file = SessionFile { made, number, state };
            let _ = message::encode(&file).and_then(|content| files.write(&id, &content));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64) -> SessionFile {
        SessionFile { made: b"made".to_vec(), number, state: FileState::Encoded(b"by the host".to_vec()) }
    }

    /// What is in the place of a file after a state has been written.
    fn after(before: Option<SessionFile>, number: Option<u64>) -> SessionFile {
        let place = tempfile::tempdir().unwrap();
        let (kept, _) = Kept::open(place.path(), "one").unwrap();
        if let Some(before) = before {
            kept.write("a", &message::encode(&before).unwrap()).unwrap();
        }
        let mut made = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut made, b"made").unwrap();
        let (keeping, _) = Keeping::new("a".into(), kept.share().unwrap(), made.into());
        LastState { keeping, found: Some(KnownState { state: FileState::Items(b"items".to_vec()), number }) }.write();
        message::decode(&kept.read("a").unwrap()).unwrap()
    }

    #[test]
    fn the_state_of_the_standby_counts_if_it_is_newer_and_that_of_the_shell_always() {
        let written = |number| SessionFile { number, state: FileState::Items(b"items".to_vec()), ..file(0) };
        assert_eq!(after(Some(file(7)), Some(6)), file(7));
        assert_eq!(after(Some(file(7)), Some(7)), file(7));
        assert_eq!(after(Some(file(7)), Some(8)), written(8));
        assert_eq!(after(Some(file(7)), None), written(8));
        assert_eq!(after(None, Some(3)), written(3));
        assert_eq!(after(None, None), written(0));
    }
}
