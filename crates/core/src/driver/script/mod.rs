//! The portable driver: an ordinary bash, started with `-c`, that runs a loop of plain text.
//!
//! `docs/sessions.md` argues why it is built so. The texts are in [`text`], the channels they use in [`transport`], the
//! way back from a saved state in [`dump`]; this file keeps the driver's memory between commands.

mod birth;
mod declaration;
mod dump;
mod fifo_transport;
mod framing;
mod images;
mod leaving;
mod mentions;
mod observation;
mod proc_transport;
mod quote;
mod report;
mod standbys;
mod statements;
mod telling;
mod terminal;
mod text;
mod transport;
mod traps;

use super::{Driver, Event, Launch, Stdin, Streams, Suspicion};
use crate::sys;
use framing::Framing;
use leaving::ExitKind;
use nacre_containment::pid::Pid;
use report::Parser;
use standbys::Standbys;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use text::Paths;
use transport::{Pipe, Side, Text, Transport};
use traps::Traps;

pub use declaration::Declaration;
pub use quote::{quote, quote_str};

/// What every shell of a session is started from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Absolute path of bash.
    pub shell: PathBuf,
    /// The value of `BASH_ENV` for the session, which a shell started by the engine must not act on itself.
    pub bash_env: Option<OsString>,
    /// Absolute path of the supervisor executable, which can also give a process a terminal.
    pub supervisor: PathBuf,
    /// Statements that set limits.
    pub limits: Vec<Vec<u8>>,
    /// Shells are offered the loop as a builtin.
    pub offers_builtin: bool,
}

/// The mark in the first answer of a shell that could not set its limits; no version has it.
pub const NOT_LIMITED: char = '!';

/// A token is a line.
const TOKEN: &[u8] = b"\n";
/// This one says that the text is the engine's own: the loop as a builtin, which takes the line in one read, then leaves
/// `$?`, PIPESTATUS and `$_` as they are. Should the loop of text get it after all, it is a token like any.
const INTERNAL_TOKEN: &[u8] = b"i\n";

/// The host's copy of the positional parameters.
#[derive(Debug, Default)]
enum Arguments {
    #[default]
    None,
    /// There are some; they are to be asked for.
    Unknown,
    /// They have been asked for.
    Asked,
    Known(Vec<u8>),
}

/// See the module.
pub struct ScriptDriver {
    transport: Box<dyn Transport>,
    origin: Origin,
    parser: Parser,
    standby_parser: Parser,
    /// The user's `$?`.
    status: i32,
    /// What is in the text [`Text::Status`].
    stored_status: Option<i32>,
    /// The user's `$_`, when it is known.
    last_argument: Option<String>,
    /// The shell runs the loop as a builtin, by its last report.
    has_builtin: bool,
    /// It has these two of the last command itself.
    remembers: bool,
    /// Something was put before the text of the last command, which is what `$_` and PIPESTATUS tell of.
    framed: bool,
    /// `$-` at the last report.
    flags: String,
    /// An internal text is running: its report is not a command's.
    internal: bool,
    traps: Traps,
    /// `"$@"` after the last command, quoted; an `exit` in a function sees that function's.
    arguments: Arguments,
    /// What the EXIT trap has to know: whether the state is so large that `exit` should not save and parse it at once,
    /// and whether the shell is a fork.
    kind: ExitKind,
    standbys: Standbys,
    /// The standby's shell expands aliases.
    standby_aliases: bool,
    /// A saved state has been adopted: the first shell's text is gone.
    adopted: bool,
    /// The next command's streams, in place already.
    prepared: Option<Streams>,
}

impl ScriptDriver {
    /// A driver over `/proc/<pid>/fd`.
    pub fn over_proc(origin: Origin) -> io::Result<Self> {
        Self::new(Box::new(proc_transport::ProcTransport::open()?), origin)
    }

    /// A driver over FIFOs in `directory`, which is made and in the end removed. `owner` is the shell's user and group, when
    /// it is not this process's.
    pub fn over_fifos(origin: Origin, directory: PathBuf, owner: Option<(u32, u32)>) -> io::Result<Self> {
        Self::new(Box::new(fifo_transport::FifoTransport::create(directory, owner)?), origin)
    }

    fn new(transport: Box<dyn Transport>, origin: Origin) -> io::Result<Self> {
        if origin.offers_builtin {
            transport.store(Text::Loop, nacre_shell_loop::OBJECT)?;
        }
        Ok(Self {
            transport,
            origin,
            parser: Parser::default(),
            standby_parser: Parser::default(),
            status: 0,
            stored_status: None,
            last_argument: None,
            has_builtin: false,
            remembers: false,
            framed: false,
            flags: String::new(),
            internal: false,
            traps: Traps::default(),
            arguments: Arguments::None,
            kind: ExitKind::default(),
            standbys: Standbys::default(),
            standby_aliases: false,
            adopted: false,
            prepared: None,
        })
    }

    fn paths(&self) -> Paths<'_> {
        Paths(self.transport.as_ref())
    }

    fn send_token(&self, pipe: Pipe) -> io::Result<()> {
        sys::write(self.transport.pipe(pipe), TOKEN).map(|_| ())
    }

    /// Wakes the standby that waits there to do this.
    fn send_errand(&self, token: Pipe, errand: &str) -> io::Result<()> {
        self.transport.store(token.errand(), errand.as_bytes())?;
        self.send_token(token)
    }

    /// Tokens of a shell that died before it took them.
    fn drain_tokens(&self) {
        for pipe in [
            Pipe::Token,
            Pipe::Resume,
            Pipe::StandbyToken,
            Pipe::OtherStandbyToken,
            Pipe::Succession,
            Pipe::Begin,
            Pipe::TerminalBegin,
        ] {
            drain(self.transport.pipe(pipe));
        }
    }

    fn framing(&self) -> Framing {
        // What sets a DEBUG trap in front of the text makes the shell forget.
        let remembers = self.remembers && self.traps.debug.is_none();
        Framing {
            status: if remembers { 0 } else { self.status },
            last_argument: self.last_argument.clone().filter(|_| !remembers),
            traced: self.is_traced(),
            debug_trap: self.traps.debug.clone(),
            trapped: self.traps.debug.is_some() || !self.traps.unseen.is_empty(),
            status_path: self.paths().text(Text::Status),
        }
    }
}

impl Driver for ScriptDriver {
    fn launch(&mut self) -> io::Result<Launch> {
        self.drain_tokens();
        self.internal = true;
        self.remembers = false;
        self.traps.started();
        if !self.adopted {
            self.store_first_init()?;
        }
        self.store_exit_text()?;
        self.transport.store(Text::StandbyExit, &leaving::standby_exit(&self.paths(), &self.origin.shell))?;
        Ok(Launch {
            program: self.origin.shell.clone(),
            argv: text::argv(&self.paths()).map(OsString::from).to_vec(),
            withheld: vec!["BASH_ENV".into()],
            output: (self.transport.inheritable(Pipe::BaseOutput)?, self.transport.inheritable(Pipe::BaseError)?),
            scratch: self.transport.scratch(),
        })
    }

    fn control(&self) -> [Arc<OwnedFd>; 2] {
        [Pipe::Control, Pipe::StandbyControl].map(|pipe| Arc::clone(self.transport.pipe(pipe)))
    }

    fn base_output(&self) -> [Arc<OwnedFd>; 2] {
        [Pipe::BaseOutput, Pipe::BaseError].map(|pipe| Arc::clone(self.transport.pipe(pipe)))
    }

    fn events(&mut self) -> io::Result<Vec<Event>> {
        let mut events = self.told_by_standby()?;
        events.extend(self.told_by_shell()?);
        Ok(events)
    }

    fn has_told(&self) -> bool {
        sys::bytes_in_pipe(self.transport.pipe(Pipe::Control)).is_ok_and(|count| count > 0)
    }

    fn prepare_streams(&mut self) {
        self.prepared = self.transport.open_streams(Side::Foreground, Stdin::Empty).ok();
        if self.prepared.is_none() {
            // The next command opens its own, and tells why it can not. Of these some may be in place already, and a text
            // of the engine's own must not open a FIFO that nobody reads: it would wait for ever.
            self.transport.close_streams(Side::Foreground);
        }
    }

    fn run(&mut self, text: &[u8], stdin: Stdin<'_>) -> io::Result<Streams> {
        let framing = self.framing();
        if framing.needs_status() && self.stored_status != Some(self.status) {
            self.transport.store(Text::Status, format!("\\builtin return {}\n", self.status).as_bytes())?;
            self.stored_status = Some(self.status);
        }
        let framed = framing.apply(text);
        self.framed = framed != text;
        self.transport.store(Text::Command, &framed)?;
        let streams = match self.prepared.take() {
            Some(prepared) if matches!(stdin, Stdin::Empty) => prepared,
            _ => self.transport.open_streams(Side::Foreground, stdin)?,
        };
        self.last_argument = mentions::last_argument(text);
        self.send_token(Pipe::Token)?;
        Ok(streams)
    }

    fn release(&mut self) {
        self.transport.close_streams(Side::Foreground);
    }

    fn upkeep(&mut self) -> Option<Vec<u8>> {
        match self.arguments {
            Arguments::Unknown => {
                self.arguments = Arguments::Asked;
                return Some(self.storing("\\builtin printf '%q ' \"$@\""));
            }
            Arguments::Asked => self.arguments = Arguments::Known(self.stored().unwrap_or_default()),
            Arguments::None | Arguments::Known(_) => {}
        }
        let paths = Paths(self.transport.as_ref());
        // When the text can not be stored the old one stays: the user's trap is then not run at exit.
        let (shell, kind) = (&self.origin.shell, self.kind);
        let store =
            |traps: &Traps| drop(paths.0.store(Text::Exit, &leaving::exit(&paths, shell, traps.exit.as_deref(), kind)));
        self.traps.upkeep(&paths, store)
    }

    fn preparation(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        let wanted = mentions::word(text, "trap") && !mentions::ending(text) && !self.flags.contains(['e', 'u']);
        if wanted { self.traps.preparation(&Paths(self.transport.as_ref())) } else { None }
    }

    fn may_vanish(&self, text: &[u8]) -> bool {
        mentions::loss(text)
    }

    fn has_last_words(&self) -> bool {
        self.traps.exit.is_some()
    }

    fn is_traced(&self) -> bool {
        self.flags.contains(['x', 'v'])
    }

    fn run_internal(&mut self, text: &[u8]) -> io::Result<()> {
        if self.prepared.take().is_some() {
            // What an internal text prints must not turn up in the next command's output.
            self.transport.close_streams(Side::Foreground);
        }
        self.transport.store(Text::Command, text)?;
        self.internal = true;
        let token = if self.has_builtin { INTERNAL_TOKEN } else { TOKEN };
        sys::write(self.transport.pipe(Pipe::Token), token).map(|_| ())
    }

    fn guarded(&self, text: &[u8]) -> Vec<u8> {
        text::guarded(text)
    }

    fn set_status(&mut self, status: i32) {
        self.status = status;
        self.remembers = false;
    }

    fn checked(&self, text: &[u8]) -> Vec<u8> {
        text::checked(&self.paths(), text)
    }

    fn storing(&self, query: &str) -> Vec<u8> {
        text::storing(&self.paths(), query).into_bytes()
    }

    fn stored(&mut self) -> io::Result<Vec<u8>> {
        self.transport.load(Text::Answer)
    }

    fn token_unread(&self) -> bool {
        sys::bytes_in_pipe(self.transport.pipe(Pipe::Token)).is_ok_and(|count| count > 0)
    }

    fn take_back(&mut self) -> bool {
        // One byte, which either the shell reads or this does.
        let mut token = Vec::with_capacity(1);
        sys::read_spare(self.transport.pipe(Pipe::Token), &mut token, 1).is_ok_and(|count| count > 0)
    }

    fn suspicion(&self, shell: Pid) -> Option<Suspicion> {
        observation::suspicion(self.transport.as_ref(), shell, self.token_unread())
    }
}

fn drain(pipe: &OwnedFd) {
    let mut waste = Vec::with_capacity(64);
    while sys::read_spare(pipe, &mut waste, 64).is_ok_and(|count| count > 0) {
        waste.clear();
    }
}
