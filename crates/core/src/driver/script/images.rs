//! What a new process image of the shell starts with: at first, after an end, and in a terminal.

use super::dump::{Dump, Remembered};
use super::quote::quote;
use super::report::Parser;
use super::transport::{Pipe, Text};
use super::{Arguments, ScriptDriver, drain};
use super::{leaving, observation, text};
use crate::driver::{Driver, Snapshots};
use nacre_containment::pid::Pid;
use std::io;

impl Snapshots for ScriptDriver {
    fn resume(&mut self) -> io::Result<()> {
        if !self.adopt(true) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the saved state is incomplete"));
        }
        // The new image's first report is not a command's.
        self.internal = true;
        self.send_token(Pipe::Resume)
    }

    fn snapshot(&mut self, shell: Pid) -> Vec<u8> {
        let large = observation::private_bytes(shell) > LARGE_STATE_BYTES;
        if std::mem::replace(&mut self.kind.large, large) != large {
            // When it can not be stored the old text stays, which is as correct.
            let _ = self.store_exit_text();
        }
        text::standby(
            &self.paths(),
            self.standbys.next_token(),
            &observation::unsharable_descriptors(shell),
            self.flags.contains('m'),
        )
        .into_bytes()
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

    fn take_over(&mut self, standby: Pid) -> io::Result<()> {
        self.drain_tokens();
        self.internal = true;
        self.traps.started();
        match self.standbys.token_of(standby) {
            Pipe::Succession => self.send_token(Pipe::Succession),
            token => self.send_errand(token, &text::take_over(&self.paths(), self.standby_aliases)),
        }
    }

    fn forget(&mut self) {
        drain(self.transport.pipe(Pipe::Control));
        drain(self.transport.pipe(Pipe::StandbyControl));
        (self.parser, self.standby_parser) = (Parser::default(), Parser::default());
    }

    fn adopt_saved_state(&mut self) -> bool {
        self.adopt(false)
    }
}

/// A bash with an empty state has half a megabyte; saving and parsing again takes some 25 ms for each one more.
const LARGE_STATE_BYTES: u64 = 1 << 20;

impl ScriptDriver {
    pub(super) fn store_exit_text(&self) -> io::Result<()> {
        self.transport
            .store(Text::Exit, &leaving::exit(&self.paths(), &self.origin.shell, self.traps.exit.as_deref(), self.kind))
    }

    pub(super) fn store_first_init(&self) -> io::Result<()> {
        let mut init = b"\\builtin unset -v BASH_EXECUTION_STRING\n".to_vec();
        if let Some(value) = &self.origin.bash_env {
            init.extend_from_slice(
                &[b"\\builtin export BASH_ENV=".as_slice(), &quote(value.as_encoded_bytes()), b"\n"].concat(),
            );
        }
        let limits: Vec<u8> = self
            .origin
            .limits
            .iter()
            .flat_map(|limit| [b"{ ".as_slice(), limit, b"} || \\builtin printf '!'\n"].concat())
            .collect();
        let version = format!("\\builtin printf %s \"$BASH_VERSION\"\n{}", String::from_utf8_lossy(&limits));
        init.extend_from_slice(&self.storing(&version));
        init.push(b'\n');
        init.extend_from_slice(text::arm(&self.paths(), &[]).as_bytes());
        self.transport.store(Text::Answer, b"")?;
        self.transport.store(Text::Init, &init)
    }

    /// A process with a terminal has saved its state and waits to become a new shell.
    pub(super) fn let_terminal_begin(&self) -> io::Result<()> {
        let bytes = self.transport.load(Text::ProcessDump)?;
        // A state that is incomplete leaves it waiting until it is killed: its own death is what keeps a dump from its end.
        let Some(dump) = Dump::parse(&bytes) else { return Ok(()) };
        let mut init = dump.restore(&Remembered { in_place: true, arguments: b"", traps: &[] });
        init.extend_from_slice(&dump.options());
        // A fork of a shell without job control ignores these two. Here Ctrl-C and Ctrl-\ are to work.
        init.extend_from_slice(b"\\builtin trap - INT QUIT\n\\builtin set -m\n");
        self.transport.store(Text::ProcessInit, &init)?;
        self.send_token(Pipe::TerminalBegin)
    }

    /// Turns the dump into the text that the next shell starts with.
    pub(super) fn adopt(&mut self, in_place: bool) -> bool {
        let Ok(bytes) = self.transport.load(Text::Dump) else { return false };
        let Some(dump) = Dump::parse(&bytes) else { return false };
        let kept = match &self.arguments {
            Arguments::Known(arguments) => arguments.as_slice(),
            _ => b"",
        };
        // A shell that is not the old process has the limits of its parent.
        let mut init = if in_place { Vec::new() } else { self.origin.limits.concat() };
        init.extend_from_slice(&dump.restore(&Remembered { in_place, arguments: kept, traps: &self.traps.unseen }));
        init.extend_from_slice(text::arm(&self.paths(), &dump.user_signals()).as_bytes());
        init.extend_from_slice(&dump.options());
        self.traps.started();
        self.adopted = self.store_exit_text().is_ok() && self.transport.store(Text::Init, &init).is_ok();
        self.adopted
    }
}
