//! The portable driver: an ordinary bash, started with `-c`, that runs a loop of plain text.
//!
//! `docs/sessions.md` argues why it is built so. The texts are in [`text`], the channels they use in [`transport`], the
//! way back from a saved state in [`dump`]; this file keeps the driver's memory between commands.

mod declaration;
mod dump;
mod fifo_transport;
mod framing;
mod mentions;
mod proc_transport;
mod quote;
mod report;
mod statements;
mod text;
mod transport;
mod traps;

use super::{Driver, Event, Launch, Stdin, Streams, Suspicion};
use crate::sys;
use dump::{Dump, Remembered};
use framing::Framing;
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use report::{Parser, Record};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::Arc;
use text::{ExitKind, Paths};
use transport::{Pipe, Text, Transport};
use traps::Traps;

pub use declaration::Declaration;
pub use quote::{quote, quote_str};

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
    /// `"$@"` after the last command, quoted; an `exit` in a function sees that function's.
    arguments: Arguments,
    /// What the EXIT trap has to know: whether the state is so large that `exit` should not save and parse it at once,
    /// and whether the shell is a fork.
    kind: ExitKind,
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
            traps: Traps::default(),
            arguments: Arguments::None,
            kind: ExitKind::default(),
            adopted: false,
            prepared: None,
        }
    }

    fn paths(&self) -> Paths<'_> {
        Paths(self.transport.as_ref())
    }

    fn store_exit_text(&self) -> io::Result<()> {
        self.transport.store(Text::Exit, &text::exit(&self.paths(), &self.shell, self.traps.exit.as_deref(), self.kind))
    }

    fn store_first_init(&self) -> io::Result<()> {
        let mut init = b"\\builtin unset -v BASH_EXECUTION_STRING\n".to_vec();
        if let Some(value) = &self.bash_env {
            init.extend_from_slice(
                &[b"\\builtin export BASH_ENV=".as_slice(), &quote(value.as_encoded_bytes()), b"\n"].concat(),
            );
        }
        init.extend_from_slice(&self.storing("\\builtin printf %s \"$BASH_VERSION\""));
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

    fn framing(&self) -> Framing {
        Framing {
            status: self.status,
            last_argument: self.last_argument.clone(),
            traced: self.is_traced(),
            debug_trap: self.traps.debug.clone(),
            trapped: self.traps.debug.is_some() || !self.traps.unseen.is_empty(),
            status_path: self.paths().text(Text::Status),
        }
    }

    fn ready(&mut self, record: &Record) -> Option<Event> {
        let status = record.number(0)?;
        self.flags = String::from_utf8_lossy(record.field(1)).into_owned();
        let cwd = PathBuf::from(OsString::from_vec(record.field(3).to_vec()));
        let ours = text::exit_trap(&self.paths());
        let internal = std::mem::take(&mut self.internal);
        self.traps.note(record.field(4), &ours, internal);
        if !internal {
            self.status = status;
            self.arguments = if record.field(2) == b"0" { Arguments::None } else { Arguments::Unknown };
        }
        Some(Event::Ready { status, cwd })
    }

    /// Turns the dump into the text that the next shell starts with.
    fn adopt(&mut self, in_place: bool) -> bool {
        let Ok(bytes) = self.transport.load(Text::Dump) else { return false };
        let Some(dump) = Dump::parse(&bytes) else { return false };
        let kept = match &self.arguments {
            Arguments::Known(arguments) => arguments.as_slice(),
            _ => b"",
        };
        let mut init = dump.restore(&Remembered { in_place, arguments: kept, traps: &self.traps.unseen });
        init.extend_from_slice(text::arm(&self.paths(), &dump.user_signals()).as_bytes());
        init.extend_from_slice(&dump.options());
        self.traps.started();
        self.adopted = self.store_exit_text().is_ok() && self.transport.store(Text::Init, &init).is_ok();
        self.adopted
    }
}

impl Driver for ScriptDriver {
    fn launch(&mut self) -> io::Result<Launch> {
        self.drain_tokens();
        self.internal = true;
        self.traps.started();
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
            match (record.kind, record.number(0).and_then(Pid::new)) {
                (b'P', Some(pid)) => events.push(Event::Standby { pid }),
                (b'S', Some(pid)) => {
                    self.kind.successor = pid.raw();
                    self.store_exit_text()?;
                    events.push(Event::Successor { pid });
                }
                _ => {}
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

    fn has_told(&self) -> bool {
        sys::bytes_in_pipe(self.transport.pipe(Pipe::Control)).is_ok_and(|count| count > 0)
    }

    fn prepare_streams(&mut self) {
        // Without them the next command opens its own, and tells why it can not.
        self.prepared = self.transport.open_streams(Stdin::Empty).ok();
    }

    fn run(&mut self, text: &[u8], stdin: Stdin<'_>) -> io::Result<Streams> {
        let framing = self.framing();
        if framing.needs_status() {
            self.transport.store(Text::Status, format!("\\builtin return {}\n", self.status).as_bytes())?;
        }
        self.transport.store(Text::Command, &framing.apply(text))?;
        let streams = match self.prepared.take() {
            Some(prepared) if matches!(stdin, Stdin::Empty) => prepared,
            _ => self.transport.open_streams(stdin)?,
        };
        self.last_argument = mentions::last_argument(text);
        self.send_token(Pipe::Token)?;
        Ok(streams)
    }

    fn release(&mut self) {
        self.transport.close_streams();
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
        let (shell, kind) = (&self.shell, self.kind);
        let store =
            |traps: &Traps| drop(paths.0.store(Text::Exit, &text::exit(&paths, shell, traps.exit.as_deref(), kind)));
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
            self.transport.close_streams();
        }
        self.transport.store(Text::Command, &text::guarded(text))?;
        self.internal = true;
        self.send_token(Pipe::Token)
    }

    fn set_status(&mut self, status: i32) {
        self.status = status;
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

    fn resume(&mut self) -> io::Result<()> {
        if !self.adopt(true) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the saved state is incomplete"));
        }
        // The new image's first report is not a command's.
        self.internal = true;
        self.send_token(Pipe::Resume)
    }

    fn snapshot(&mut self, shell: Pid) -> Vec<u8> {
        let large = private_bytes(shell) > LARGE_STATE_BYTES;
        if std::mem::replace(&mut self.kind.large, large) != large {
            // When it can not be stored the old text stays, which is as correct.
            let _ = self.store_exit_text();
        }
        text::standby(&self.paths(), &unsharable_descriptors(shell), self.flags.contains('m')).into_bytes()
    }

    fn plain_exit(&mut self) {
        if std::mem::take(&mut self.kind.large) {
            // The next snapshot finds the state large again.
            let _ = self.store_exit_text();
        }
    }

    fn dismiss(&mut self) -> io::Result<()> {
        self.send_token(Pipe::Resume)
    }

    fn renew(&self) -> Vec<u8> {
        text::renew(&self.paths()).into_bytes()
    }

    fn take_over(&mut self) -> io::Result<()> {
        self.drain_tokens();
        self.internal = true;
        self.traps.started();
        self.send_token(Pipe::StandbyToken)
    }

    fn adopt_saved_state(&mut self) -> bool {
        self.adopt(false)
    }

    /// Two things give a lost report away. The shell sleeps in the read of a token, having its pipe as standard input,
    /// although it has taken the one it was sent (`set -n`: the report was skipped). Or it runs through the loop without
    /// end, since `set -n` or a function called `builtin` stands in for the waiting too: then its standard output is the
    /// control pipe or its own, which it never is while a command runs.
    fn suspicion(&self, shell: Pid) -> Option<Suspicion> {
        let shows = |fd: i32, pipe: Pipe| {
            let held = std::fs::read_link(format!("/proc/{shell}/fd/{fd}")).ok();
            held.is_some() && held == self.transport.link_name(pipe).ok()
        };
        let stat = Stat::read(shell)?;
        if stat.state == b'S' && shows(0, Pipe::Token) && !self.token_unread() {
            return Some(Suspicion::Waits);
        }
        let runs =
            stat.state == b'R' && (0..LOOP_SAMPLES).any(|_| shows(1, Pipe::Control) || shows(1, Pipe::BaseOutput));
        runs.then_some(Suspicion::Runs { cpu_ticks: stat.cpu_ticks })
    }
}

/// So many looks in a row; the shell spends about a sixth of its time in the report.
const LOOP_SAMPLES: usize = 32;

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

/// A bash with an empty state has half a megabyte; saving and parsing again takes some 25 ms for each one more.
const LARGE_STATE_BYTES: u64 = 1 << 20;

/// Heap and stack of the shell (the sixth field of `/proc/<pid>/statm`, proc(5)).
fn private_bytes(shell: Pid) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{shell}/statm")).unwrap_or_default();
    statm.split(' ').nth(5).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// The shell's own descriptors above 2 that lead to pipes, FIFOs or sockets.
fn unsharable_descriptors(shell: Pid) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{shell}/fd")) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let fd: i32 = entry.file_name().to_str()?.parse().ok()?;
            let kind = std::fs::metadata(entry.path()).ok()?.file_type();
            (fd > 2 && (kind.is_fifo() || kind.is_socket())).then_some(fd)
        })
        .collect()
}
