//! How a session talks to its shell.
//!
//! A [`Driver`] turns "run this text" into whatever makes one particular kind of shell process do it, and turns what the
//! shell does into [`Event`]s. It knows nothing of queues, timeouts, killing or output buffers: those belong to the
//! session, which is the same for every driver. The one driver today is [`script::ScriptDriver`]: plain bash, plain text.

pub mod script;

use nacre_containment::pid::Pid;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the supervisor has to execute to get a shell.
pub struct Launch {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Its argument vector, from argv\[0\] on.
    pub argv: Vec<OsString>,
    /// Environment variables that must not reach the shell at its start.
    pub withheld: Vec<OsString>,
    /// Standard output and standard error of the shell itself, for what it prints outside of any command.
    pub output: (OwnedFd, OwnedFd),
    /// A directory to remove when the session has ended.
    pub scratch: Option<PathBuf>,
}

/// The host's ends of one command's streams.
pub struct Streams {
    /// Read end, non-blocking.
    pub stdout: OwnedFd,
    /// Read end, non-blocking.
    pub stderr: OwnedFd,
    /// How to write standard input, when it has to be written while the command runs.
    pub stdin: Option<StdinEnd>,
}

/// What a command is to read.
#[derive(Clone, Copy, Debug)]
pub enum Stdin<'a> {
    /// End of file at once.
    Empty,
    /// These bytes.
    Whole(&'a [u8]),
    /// Something that comes bit by bit.
    Streamed,
}

/// The writing end of a command's standard input.
pub enum StdinEnd {
    /// A pipe, open.
    Pipe(OwnedFd),
    /// The master of a terminal.
    Terminal(OwnedFd),
    /// A FIFO that can be opened for writing as soon as the shell has opened it for reading.
    Fifo(PathBuf),
}

/// A background process to be forked from the standby.
#[derive(Clone, Copy, Debug)]
pub struct Birth<'a> {
    /// Names it in the events.
    pub key: u64,
    /// The command.
    pub text: &'a [u8],
    /// Shell statements to run in the fork first.
    pub scope: &'a [Vec<u8>],
}

/// What the shell has told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The shell waits for the next command. After a command it says how that ended.
    Ready {
        /// `$?`.
        status: i32,
        /// `$PWD`.
        cwd: PathBuf,
    },
    /// `exit` or something like it: the shell's process image is about to be replaced. Its state is being saved.
    Ending {
        /// The status it exits with.
        status: i32,
        /// `$PWD`.
        cwd: PathBuf,
    },
    /// The state is saved; the driver may go on with [`Snapshots::resume`].
    Saved,
    /// A fork of the ending shell is to go on in its place, and waits to be woken like a standby.
    Successor {
        /// Its process.
        pid: Pid,
    },
    /// A snapshot of the shell stands by.
    Standby {
        /// Its process.
        pid: Pid,
    },
    /// A background process is there and waits for [`Births::begin_process`] or [`Births::permit_terminal`].
    Born {
        /// From [`Birth::key`].
        key: u64,
        /// Its process.
        pid: Pid,
    },
    /// A background process has taken its text and runs it: the next birth can begin. It is not told of one that ends
    /// before it gets there, like a text that bash can not parse.
    Begun {
        /// From [`Birth::key`].
        key: u64,
    },
    /// A background process ends, or was not born, because a statement of its scope has failed.
    Stillborn {
        /// From [`Birth::key`].
        key: u64,
        /// Which statement.
        statement: usize,
    },
}

/// One kind of shell, and the conversation with it: here what concerns commands.
pub trait Driver: Snapshots + Births + Send {
    /// Says what to start. The first shell stores its version ([`Driver::stored`]); a later one gets the state that
    /// was saved last ([`Snapshots::adopt_saved_state`]).
    fn launch(&mut self) -> io::Result<Launch>;

    /// Descriptors that become readable when [`Driver::events`] has something to tell.
    fn control(&self) -> [Arc<OwnedFd>; 2];

    /// What the shell prints outside of commands: its own standard output and standard error.
    fn base_output(&self) -> [Arc<OwnedFd>; 2];

    /// Everything the shell has told since the last call. Never blocks.
    fn events(&mut self) -> io::Result<Vec<Event>>;

    /// True when [`Driver::events`] has something to tell of the shell itself.
    fn has_told(&self) -> bool;

    /// Does ahead of time what [`Driver::run`] would have to do for a command without standard input.
    fn prepare_streams(&mut self);

    /// Starts a command of the user. Answered by [`Event::Ready`] or [`Event::Ending`], or by the death of the process.
    fn run(&mut self, text: &[u8], stdin: Stdin<'_>) -> io::Result<Streams>;

    /// Lets go of the command's streams in this process, so that end of file can be seen. Once per [`Driver::run`].
    fn release(&mut self);

    /// Text to run before anything else, if the last command has left something to put right. Asked again after it has
    /// run, until there is none.
    fn upkeep(&mut self) -> Option<Vec<u8>>;

    /// Text to run before `text` because of what `text` says. Asked again after it has run, until there is none.
    fn preparation(&mut self, text: &[u8]) -> Option<Vec<u8>>;

    /// True when `text` may take the shell's process away without a chance to save its state, so that a snapshot should
    /// be fresh before it runs.
    fn may_vanish(&self, text: &[u8]) -> bool;

    /// True when something of the user's runs between [`Event::Ending`] and [`Event::Saved`], whose output belongs to the
    /// command.
    fn has_last_words(&self) -> bool;

    /// True when the shell prints its own commands (`set -x`, `set -v`), so that its base output is not the user's.
    fn is_traced(&self) -> bool;

    /// Makes a text that never ends the shell and sets off no trap, whatever `text` comes to.
    fn guarded(&self, text: &[u8]) -> Vec<u8>;

    /// Runs a text of the engine's own, without streams. Answered by [`Event::Ready`]; what it reports is not a command's
    /// result and leaves `$?` of the user alone.
    fn run_internal(&mut self, text: &[u8]) -> io::Result<()>;

    /// The user's `$?`, when it is known from elsewhere than a report.
    fn set_status(&mut self, status: i32);

    /// Makes a text that runs `text` and stores, for [`Driver::stored`], `0` if it succeeded.
    fn checked(&self, text: &[u8]) -> Vec<u8>;

    /// Makes a text that stores what the commands in `query` print, for [`Driver::stored`].
    fn storing(&self, query: &str) -> Vec<u8>;

    /// What the last storing text has stored.
    fn stored(&mut self) -> io::Result<Vec<u8>>;

    /// True while a command's start signal has been sent and not been taken: the command has not begun.
    fn token_unread(&self) -> bool;

    /// Takes the start signal of a command back, so that nobody else can take it. True when it was still there: the
    /// command has not begun, and will not.
    fn take_back(&mut self) -> bool;

    /// A sign that the shell is done with its command and that its report was lost to something the user did. It can
    /// show for a moment when all is well; see [`Suspicion`].
    fn suspicion(&self, shell: Pid) -> Option<Suspicion>;
}

/// How a shell's state goes on in another process image: one that replaces it, or a fork of it that stands by.
pub trait Snapshots {
    /// After [`Event::Saved`]: replace the process image and restore the state. Answered by [`Event::Ready`].
    fn resume(&mut self) -> io::Result<()>;

    /// Text that makes the shell fork a snapshot of itself. `shell` is its process.
    fn snapshot(&mut self, shell: Pid) -> Vec<u8>;

    /// From now on the shell ends without a successor ([`Event::Successor`]).
    fn plain_exit(&mut self);

    /// An ending shell has told of its successor: it may leave now.
    fn dismiss(&mut self) -> io::Result<()>;

    /// Text that turns such a fork into a shell of its own: it saves its state ([`Event::Saved`]) and is replaced.
    fn renew(&self) -> Vec<u8>;

    /// Wakes the snapshot that is this process after the shell has died; it saves its state next ([`Event::Saved`]).
    fn take_over(&mut self, standby: Pid) -> io::Result<()>;

    /// Everybody who could tell something is dead: what has not been heard is not to be taken for the next shell's.
    fn forget(&mut self);

    /// Makes the state that was saved last the one that the next shell starts with. False when it is incomplete.
    fn adopt_saved_state(&mut self) -> bool;
}

/// How background processes come from the snapshot.
pub trait Births {
    /// Makes the snapshot fork the next background process, which then waits for [`Births::begin_process`]. One at a time.
    /// Answered by [`Event::Born`], or by the death of the snapshot.
    fn bear(&mut self, key: u64) -> io::Result<()>;

    /// Takes the request for a birth back when the snapshot is gone, so that the next one does not find it.
    fn unbear(&mut self);

    /// Lays out scope, text and streams for the process that was born.
    fn lay_out_process(&mut self, birth: Birth<'_>, stdin: Stdin<'_>) -> io::Result<Streams>;

    /// Lets it take them and begin. Answered by [`Event::Begun`] or [`Event::Stillborn`], or by its end; not before that
    /// may the next one be born.
    fn begin_process(&mut self) -> io::Result<()>;

    /// Lets go of the process's streams in this process. Once per [`Births::lay_out_process`], after the answer.
    fn release_process(&mut self);

    /// Makes the snapshot fork a process that gets the terminal at `terminal` instead of streams. Answered by
    /// [`Event::Born`] or [`Event::Stillborn`], or by the death of the snapshot.
    fn bear_terminal(&mut self, birth: Birth<'_>, terminal: &Path) -> io::Result<()>;

    /// The process with a terminal that was born may run. Answered by [`Event::Begun`], or by its end.
    fn permit_terminal(&mut self) -> io::Result<()>;
}

/// What looks as if a report had been lost. Twice the same in one command is proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// The shell sleeps waiting for a token. It can not be on its way into a command: that does not sleep.
    Waits,
    /// The shell is at its report. Proof only if it has used processor time in between: a shell that is kept from running
    /// in the middle of a true report has not.
    Runs {
        /// Processor time used, in clock ticks.
        cpu_ticks: u64,
    },
}
