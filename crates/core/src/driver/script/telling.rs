//! What the shell and the standby have told, as events.

use super::report::{Parser, Record};
use super::text;
use super::transport::Pipe;
use super::{Arguments, ScriptDriver};
use crate::driver::Event;
use crate::sys;
use nacre_containment::pid::Pid;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

impl ScriptDriver {
    /// By standbys, and by processes that are being born.
    pub(super) fn told_by_standby(&mut self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        for record in read_records(self.transport.pipe(Pipe::StandbyControl), &mut self.standby_parser)? {
            match (record.kind, record.number(0).and_then(Pid::new)) {
                (b'P', Some(pid)) => {
                    self.standbys.snapshot(pid, record.number(2));
                    self.standby_aliases =
                        record.field(1).split(|&byte| byte == b':').any(|name| name == b"expand_aliases");
                    events.push(Event::Standby { pid });
                }
                (b'B' | b'F' | b'G', _) => events.extend(birth_event(&record)),
                (b'D', _) => self.let_terminal_begin()?,
                (b'S', Some(pid)) => {
                    self.kind.successor = pid.raw();
                    self.standbys.successor(pid);
                    self.store_exit_text()?;
                    events.push(Event::Successor { pid });
                }
                _ => {}
            }
        }
        Ok(events)
    }

    /// By the shell itself.
    pub(super) fn told_by_shell(&mut self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        for record in read_records(self.transport.pipe(Pipe::Control), &mut self.parser)? {
            match record.kind {
                b'R' | b'L' => events.extend(self.ready(&record)),
                b'Y' => {
                    self.internal = false;
                    self.remembers = false;
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

    fn ready(&mut self, record: &Record) -> Option<Event> {
        let status = record.number(0)?;
        self.flags = String::from_utf8_lossy(record.field(1)).into_owned();
        let cwd = PathBuf::from(OsString::from_vec(record.field(3).to_vec()));
        let ours = text::exit_trap(&self.paths());
        let internal = std::mem::take(&mut self.internal);
        self.traps.note(record.field(4), &ours, internal);
        self.has_builtin = record.kind == b'L';
        // The first report of a new shell is not a command's.
        self.remembers = self.has_builtin && if internal { self.remembers } else { !self.framed };
        if !internal {
            self.status = status;
            self.arguments = if record.field(2) == b"0" { Arguments::None } else { Arguments::Unknown };
        }
        Some(Event::Ready { status, cwd })
    }
}

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

fn birth_event(record: &Record) -> Option<Event> {
    let key = u64::try_from(record.number(0)?).ok()?;
    match record.kind {
        b'B' => Some(Event::Born { key, pid: Pid::new(record.number(1)?)? }),
        b'G' => Some(Event::Begun { key }),
        _ => Some(Event::Stillborn { key, statement: usize::try_from(record.number(1)?).ok()? }),
    }
}
