//! The portable driver: an ordinary bash, started with `-c`, that runs a loop of plain text.
//!
//! `docs/sessions.md` argues why it is built so. The texts are in [`text`], the channels they use in [`transport`], the
//! way back from a saved state in [`dump`]; this file keeps the driver's memory between commands.

mod declaration;
mod dump;
mod fifo_transport;
mod mentions;
mod proc_transport;
mod quote;
mod report;
mod statements;
mod text;
mod transport;

use super::{Driver, Event, Launch, Streams};
use crate::sys;
use dump::Dump;
use nacre_containment::pid::Pid;
use report::{Parser, Record};
use statements::parse_traps;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use text::Paths;
use transport::{Pipe, Text, Transport};

pub use declaration::Declaration;
pub use quote::{quote, quote_str};

/// What is left to do before the engine's traps are as they must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traps {
    /// Ours are set.
    Armed,
    /// The command at hand is to see `trap -p` as in any shell: ours are to be taken away. Next: ask which are the user's.
    Disarming,
    /// Ours are gone, on purpose, for one command.
    Disarmed,
    /// A command has replaced or removed ours. Next: ask which signals the user has trapped.
    Lost,
    /// The question has been asked; the answer waits. Next: set ours.
    Rearming,
}

/// See the module.
pub struct ScriptDriver {
    transport: Box<dyn Transport>,
    shell: PathBuf,
    bash_env: Option<OsString>,
    parser: Parser,
    standby_parser: Parser,
    /// The user's `$?`.
    status: i32,
    /// The user's `$_`, when it is known.
    last_argument: Option<String>,
    /// `$-` at the last report.
    flags: String,
    /// An internal text is running: its report is not a command's.
    internal: bool,
    traps: Traps,
    /// The user's EXIT trap, run by ours.
    exit_trap: Option<Vec<u8>>,
    /// The user's DEBUG trap, set for the time of each command only.
    debug_trap: Option<Vec<u8>>,
    /// A DEBUG trap is set right now.
    debug_set: bool,
    /// A saved state has been adopted: the first shell's text is gone.
    adopted: bool,
    /// The next command's streams, in place already.
    prepared: Option<Streams>,
}

impl ScriptDriver {
    /// A driver over `/proc/<pid>/fd`. `bash_env` is the value of `BASH_ENV` for the session, which a shell started by
    /// the engine must not act on itself.
    pub fn over_proc(shell: PathBuf, bash_env: Option<OsString>) -> io::Result<Self> {
        Ok(Self::new(Box::new(proc_transport::ProcTransport::open()?), shell, bash_env))
    }

    /// A driver over FIFOs in `directory`, which is made and in the end removed.
    pub fn over_fifos(shell: PathBuf, bash_env: Option<OsString>, directory: PathBuf) -> io::Result<Self> {
        Ok(Self::new(Box::new(fifo_transport::FifoTransport::create(directory)?), shell, bash_env))
    }

    fn new(transport: Box<dyn Transport>, shell: PathBuf, bash_env: Option<OsString>) -> Self {
        Self {
            transport,
            shell,
            bash_env,
            parser: Parser::default(),
            standby_parser: Parser::default(),
            status: 0,
            last_argument: None,
            flags: String::new(),
            internal: false,
            traps: Traps::Armed,
            exit_trap: None,
            debug_trap: None,
            debug_set: false,
            adopted: false,
            prepared: None,
        }
    }

    fn paths(&self) -> Paths<'_> {
        Paths(self.transport.as_ref())
    }

    fn store_exit_text(&self) -> io::Result<()> {
        self.transport.store(Text::Exit, &text::exit(&self.paths(), &self.shell, self.exit_trap.as_deref()))
    }

    fn store_first_init(&self) -> io::Result<()> {
        let mut init = b"builtin unset -v BASH_EXECUTION_STRING\n".to_vec();
        if let Some(value) = &self.bash_env {
            init.extend_from_slice(
                &[b"builtin export BASH_ENV=".as_slice(), &quote(value.as_encoded_bytes()), b"\n"].concat(),
            );
        }
        init.extend_from_slice(&self.storing("builtin printf %s \"$BASH_VERSION\""));
        init.push(b'\n');
        init.extend_from_slice(text::arm(&self.paths(), &[]).as_bytes());
        self.transport.store(Text::Answer, b"")?;
        self.transport.store(Text::Init, &init)
    }

    fn send_token(&self, pipe: Pipe) -> io::Result<()> {
        sys::write(self.transport.pipe(pipe), b"\n").map(|_| ())
    }

    /// Tokens of a shell that died before it took them.
    fn drain_tokens(&self) {
        let mut waste = Vec::with_capacity(64);
        for pipe in [Pipe::Token, Pipe::Resume, Pipe::StandbyToken] {
            while sys::read_spare(self.transport.pipe(pipe), &mut waste, 64).is_ok_and(|count| count > 0) {
                waste.clear();
            }
        }
    }

    /// The text to evaluate for the user's `text`: as it is, unless something has to be put in place before it that
    /// can only be put in place there.
    ///
    /// `$?` is brought back by sourcing a file with `return <status>`, `$_` by giving it that argument: no fork. The
    /// text then is the quoted argument of an `eval` of its own, so that its line numbers and syntax errors stay what
    /// they are. While the shell traces or echoes (`set -x`, `set -v`) the prefix would show, so it is used only by a
    /// text that asks for `$?`, and silenced.
    fn framed(&self, text: &[u8]) -> io::Result<Vec<u8>> {
        let traced = self.is_traced();
        let wants_status =
            mentions::part(text, "$?") || mentions::part(text, "PIPESTATUS") || mentions::part(text, "{?");
        let argument =
            self.last_argument.as_deref().filter(|_| mentions::part(text, "$_") || mentions::part(text, "{_"));
        let mut framed = Vec::new();
        if let Some(debug) = &self.debug_trap {
            framed.extend_from_slice(&[b"builtin trap -- ".as_slice(), &quote(debug), b" DEBUG\n"].concat());
        }
        if (self.status == 0 && argument.is_none()) || (traced && !wants_status) {
            framed.extend_from_slice(text);
            return Ok(framed);
        }
        self.transport.store(Text::Status, format!("builtin return {}\n", self.status).as_bytes())?;
        let restore =
            format!("builtin . {} {}", self.paths().text(Text::Status), argument.map(quote_str).unwrap_or_default());
        if traced {
            framed.extend_from_slice(format!("{{ {restore}; }} 2>/dev/null;").as_bytes());
            framed.extend_from_slice(text);
        } else {
            framed.extend_from_slice(&[restore.as_bytes(), b";builtin eval -- ", &quote(text)].concat());
        }
        Ok(framed)
    }

    fn ready(&mut self, record: &Record) -> Option<Event> {
        let status = record.number(0)?;
        self.flags = String::from_utf8_lossy(record.field(1)).into_owned();
        let cwd = PathBuf::from(OsString::from_vec(record.field(2).to_vec()));
        self.note_traps(parse_traps(record.field(3)));
        if !std::mem::take(&mut self.internal) {
            self.status = status;
        }
        Some(Event::Ready { status, cwd })
    }

    fn note_traps(&mut self, shown: Vec<(Vec<u8>, String)>) {
        let ours = text::exit_trap(&self.paths());
        let find = |name: &str| shown.iter().find(|(_, signal)| signal == name).map(|(text, _)| text.clone());
        let exit = find("EXIT");
        if exit.as_deref() != Some(ours.as_bytes()) && self.traps != Traps::Rearming && !self.internal {
            self.exit_trap = exit;
            self.traps = Traps::Lost;
        }
        let debug = find("DEBUG");
        self.debug_set = debug.is_some();
        if !self.internal {
            self.debug_trap = debug;
        }
    }

    /// Turns the dump into the text that the next shell starts with.
    fn adopt(&mut self, in_place: bool) -> bool {
        let Ok(bytes) = self.transport.load(Text::Dump) else { return false };
        let Some(dump) = Dump::parse(&bytes) else { return false };
        let mut init = dump.restore(in_place);
        init.extend_from_slice(text::arm(&self.paths(), &dump.user_signals()).as_bytes());
        init.extend_from_slice(&dump.options());
        self.traps = Traps::Armed;
        self.debug_set = false;
        self.adopted = self.store_exit_text().is_ok() && self.transport.store(Text::Init, &init).is_ok();
        self.adopted
    }

    fn trap_query() -> &'static str {
        "builtin trap -p SIGTERM SIGHUP SIGINT"
    }

    /// Signals of the answered question that carry a trap of the user's.
    fn signals_taken(&self) -> Vec<String> {
        let answer = self.transport.load(Text::Answer).unwrap_or_default();
        let ours = |text: &[u8], signal: &str| {
            text::STATUS_SIGNALS
                .iter()
                .any(|(name, number)| *name == signal && text == text::signal_trap(*number).as_bytes())
        };
        parse_traps(&answer)
            .into_iter()
            .filter(|(text, signal)| !ours(text, signal))
            .map(|(_, signal)| signal)
            .collect()
    }
}

impl Driver for ScriptDriver {
    fn launch(&mut self) -> io::Result<Launch> {
        self.drain_tokens();
        self.internal = false;
        self.traps = Traps::Armed;
        if !self.adopted {
            self.store_first_init()?;
        }
        self.store_exit_text()?;
        self.transport.store(Text::StandbyExit, &text::standby_exit(&self.paths(), &self.shell))?;
        Ok(Launch {
            program: self.shell.clone(),
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
        let mut events = Vec::new();
        for record in read_records(self.transport.pipe(Pipe::StandbyControl), &mut self.standby_parser)? {
            if let (b'P', Some(pid)) = (record.kind, record.number(0).and_then(Pid::new)) {
                events.push(Event::Standby { pid });
            }
        }
        for record in read_records(self.transport.pipe(Pipe::Control), &mut self.parser)? {
            match record.kind {
                b'R' => events.extend(self.ready(&record)),
                b'Y' => {
                    self.internal = false;
                    self.status = record.number(0).unwrap_or(1);
                    let cwd = PathBuf::from(OsString::from_vec(record.field(1).to_vec()));
                    events.push(Event::Ending { status: self.status, cwd });
                }
                b'X' => events.push(Event::Saved),
                _ => {}
            }
        }
        Ok(events)
    }

    fn prepare_streams(&mut self) {
        // Without them the next command opens its own, and tells why it can not.
        self.prepared = self.transport.open_streams(false).ok();
    }

    fn run(&mut self, text: &[u8], with_stdin: bool) -> io::Result<Streams> {
        let framed = self.framed(text)?;
        self.transport.store(Text::Command, &framed)?;
        let streams = match self.prepared.take() {
            Some(prepared) if !with_stdin => prepared,
            _ => self.transport.open_streams(with_stdin)?,
        };
        self.last_argument = mentions::last_argument(text);
        self.send_token(Pipe::Token)?;
        Ok(streams)
    }

    fn release(&mut self) {
        self.transport.close_streams();
    }

    fn upkeep(&mut self) -> Option<Vec<u8>> {
        match self.traps {
            Traps::Lost => {
                self.traps = Traps::Rearming;
                Some(self.storing(Self::trap_query()))
            }
            Traps::Rearming => {
                self.traps = Traps::Armed;
                let taken = self.signals_taken();
                // When the text can not be stored the old one stays: the user's trap is then not run at exit.
                let _ = self.store_exit_text();
                Some(text::arm(&self.paths(), &taken).into_bytes())
            }
            _ if self.debug_set => Some(b"builtin trap - DEBUG".to_vec()),
            _ => None,
        }
    }

    fn preparation(&mut self, text: &[u8]) -> Option<Vec<u8>> {
        match self.traps {
            Traps::Armed
                if mentions::word(text, "trap") && !mentions::ending(text) && !self.flags.contains(['e', 'u']) =>
            {
                self.traps = Traps::Disarming;
                Some(self.storing(Self::trap_query()))
            }
            Traps::Disarming => {
                self.traps = Traps::Disarmed;
                let taken = self.signals_taken();
                let ours = text::STATUS_SIGNALS
                    .iter()
                    .map(|(name, _)| *name)
                    .filter(|name| !taken.iter().any(|signal| signal == name));
                let names: Vec<&str> = ["EXIT"].into_iter().chain(ours).collect();
                let mut disarm = format!("builtin trap - {}\n", names.join(" ")).into_bytes();
                if let Some(trap) = &self.exit_trap {
                    disarm.extend_from_slice(&[b"builtin trap -- ".as_slice(), &quote(trap), b" EXIT\n"].concat());
                }
                Some(disarm)
            }
            _ => None,
        }
    }

    fn may_vanish(&self, text: &[u8]) -> bool {
        mentions::loss(text)
    }

    fn has_last_words(&self) -> bool {
        self.exit_trap.is_some()
    }

    fn is_traced(&self) -> bool {
        self.flags.contains(['x', 'v'])
    }

    fn run_internal(&mut self, text: &[u8]) -> io::Result<()> {
        if self.prepared.take().is_some() {
            // What an internal text prints must not turn up in the next command's output.
            self.transport.close_streams();
        }
        self.transport.store(Text::Command, text)?;
        self.internal = true;
        self.send_token(Pipe::Token)
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

    fn resume(&mut self) -> io::Result<()> {
        if !self.adopt(true) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the saved state is incomplete"));
        }
        self.send_token(Pipe::Resume)
    }

    fn snapshot(&self, shell: Pid) -> Vec<u8> {
        text::standby(&self.paths(), &unsharable_descriptors(shell), self.flags.contains('m')).into_bytes()
    }

    fn take_over(&mut self) -> io::Result<()> {
        self.drain_tokens();
        self.internal = false;
        self.traps = Traps::Armed;
        self.send_token(Pipe::StandbyToken)
    }

    fn adopt_saved_state(&mut self) -> bool {
        self.adopt(false)
    }

    /// Two things give a lost report away. The shell waits for a token, having its pipe as standard input, although it
    /// has taken the one it was sent (`set -n`: the report was skipped). Or it runs through the loop without end, since a
    /// function called `builtin` stands in for the waiting too: then the control pipe is its standard output every now
    /// and then, which it never is while a command runs.
    fn report_lost(&self, shell: Pid) -> bool {
        let shows = |fd: i32, pipe: Pipe| {
            let held = std::fs::read_link(format!("/proc/{shell}/fd/{fd}")).ok();
            held.is_some() && held == self.transport.link_name(pipe).ok()
        };
        let waits = shows(0, Pipe::Token) && !self.token_unread();
        waits || (0..LOOP_SAMPLES).any(|_| shows(1, Pipe::Control))
    }
}

/// So many looks find a shell that runs through the loop: it spends about a third of the time in its report.
const LOOP_SAMPLES: usize = 24;

fn read_records(pipe: &OwnedFd, parser: &mut Parser) -> io::Result<Vec<Record>> {
    let mut bytes = Vec::with_capacity(8 * 1024);
    loop {
        match sys::read_spare(pipe, &mut bytes, usize::MAX) {
            Ok(0) => break,
            Ok(_) => bytes.reserve(8 * 1024),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(parser.push(&bytes))
}

/// The shell's own descriptors above 2 that lead to pipes or sockets.
fn unsharable_descriptors(shell: Pid) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{shell}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
            let target = std::fs::read_link(entry.path()).ok()?;
            let target = target.to_str()?;
            (fd > 2 && (target.starts_with("pipe:") || target.starts_with("socket:"))).then_some(fd)
        })
        .collect()
}
