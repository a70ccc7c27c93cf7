//! How a background process is born: a fork of the standby, in a process group of its own, that waits for its text.

use super::quote::quote_str;
use super::text::{self, Paths};
use super::transport::{Pipe, Side, Text};
use super::{ScriptDriver, drain, terminal};
use crate::driver::{Birth, Births, Stdin, Streams};
use std::io;
use std::path::Path;

impl Births for ScriptDriver {
    fn bear(&mut self, key: u64) -> io::Result<()> {
        // Nobody waits for a byte there now. One that was killed before it took its own must not leave it to the next.
        drain(self.transport.pipe(Pipe::Begin));
        let errand = errand(&self.paths(), key, &self.flags, self.standby_aliases);
        self.send_errand(self.standbys.token(), &errand)
    }

    fn unbear(&mut self) {
        drain(self.transport.pipe(self.standbys.token()));
    }

    fn lay_out_process(&mut self, birth: Birth<'_>, stdin: Stdin<'_>) -> io::Result<Streams> {
        self.store_process(&birth)?;
        self.transport.open_streams(Side::Background, stdin)
    }

    fn begin_process(&mut self) -> io::Result<()> {
        drain(self.transport.pipe(Pipe::Begin));
        self.send_token(Pipe::Begin)
    }

    fn release_process(&mut self) {
        self.transport.close_streams(Side::Background);
    }

    fn bear_terminal(&mut self, birth: Birth<'_>, path: &Path) -> io::Result<()> {
        drain(self.transport.pipe(Pipe::TerminalBegin));
        self.store_process(&birth)?;
        let wanted = terminal::Wanted { birth: &birth, path, origin: &self.origin };
        let errand = terminal::errand(&self.paths(), &wanted, &self.flags, self.standby_aliases);
        self.send_errand(self.standbys.token(), &errand)
    }

    fn permit_terminal(&mut self) -> io::Result<()> {
        self.send_token(Pipe::TerminalBegin)
    }
}

impl ScriptDriver {
    fn store_process(&self, birth: &Birth<'_>) -> io::Result<()> {
        self.transport.store(Text::ProcessScope, &scope(&self.paths(), birth))?;
        self.transport.store(Text::ProcessCommand, birth.text)
    }
}

/// What the standby does to make the fork that becomes the next process. One line, and `eval` all the way, so that
/// messages say `bash: line 1:` as in a command of the foreground.
///
/// The fork is twice removed: when the one in between has ended the supervisor is its parent, and the end of the process
/// is the kernel's to tell, whatever happens to the standby. The one in between tells its pid: where there are no control
/// groups, a fork that nobody knows of yet can be taken for a part of the command in front that is being killed, and die
/// before it can say a word. It waits until it is wanted; only then does anything of the user's run. It takes its streams,
/// its scope and its text from places that are the same for every process, so it tells when it has done so: the next
/// process finds its own there. Job control is on around the fork for the reasons given in [`super::text::standby`].
///
/// The traps make a process that is asked to end wait for its present child and give that child's status, instead of
/// dying at once and leaving a program that ends gracefully without anybody to tell its exit code. A command that sets a
/// trap of its own replaces them. They are set by the first line of the text that is evaluated: until then whoever is asked
/// to end dies of it, and bash never runs a trap in the middle of reading a `$(<file)`, which it can not (5.2 takes the
/// trap's text for a part of what it reads).
pub fn errand(paths: &Paths<'_>, key: u64, flags: &str, aliases_on: bool) -> String {
    let (monitor, traced) = (flags.contains('m'), flags.contains(['x', 'v']));
    let off = if monitor { "" } else { "\\builtin set +m;" };
    // A shell that traces or echoes would do so with the engine's own words too.
    let (quiet, tracing) =
        if traced { ("{ \\builtin set +xv; } 2>/dev/null;", restore_tracing(flags)) } else { ("", "") };
    let begun = format!("\\builtin trap '\\builtin exit' TERM INT HUP QUIT;{}{tracing}", begun(paths, key));
    format!(
        "( \\builtin set -m;( {quiet}{off}\\builtin read -r _ <{begin} || \\builtin exit;\
         {{ \\builtin eval -- \"$(<{scope})\" 2>/dev/null;{aliases}\\builtin eval -- {begun}\"$(<{process})\"; }} {streams} ) {base} &\
         \\builtin printf '\\1B\\0%s\\0%s\\0\\0\\2\\n' {key} \"$!\" >|{told} )",
        aliases = text::aliases(aliases_on),
        base = paths.base(),
        begin = paths.pipe(Pipe::Begin),
        begun = quote_str(&begun),
        process = paths.text(Text::ProcessCommand),
        scope = paths.text(Text::ProcessScope),
        streams = paths.streams(Side::Background),
        told = paths.pipe(Pipe::StandbyControl),
    )
}

/// Tells that a process has taken its text.
pub(super) fn begun(paths: &Paths<'_>, key: u64) -> String {
    format!("\\builtin printf '\\1G\\0%s\\0\\0\\0\\2\\n' {key} >|{};", paths.pipe(Pipe::StandbyControl))
}

/// The front of the evaluated text that turns tracing on again.
fn restore_tracing(flags: &str) -> &'static str {
    match (flags.contains('x'), flags.contains('v')) {
        (true, true) => "\\builtin set -xv;",
        (true, false) => "\\builtin set -x;",
        _ => "\\builtin set -v;",
    }
}

/// What is set up before a process's text runs. The first statement that fails ends it, and is told.
pub fn scope(paths: &Paths<'_>, birth: &Birth<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, statement) in birth.scope.iter().enumerate() {
        let statement = statement.strip_suffix(b"\n").unwrap_or(statement);
        let refusal = format!(
            "; }} || {{ \\builtin printf '\\1F\\0%s\\0%s\\0\\0\\2\\n' {} {index} >|{}; \\builtin exit 1; }}\n",
            birth.key,
            paths.pipe(Pipe::StandbyControl)
        );
        text.extend_from_slice(&[b"{ ".as_slice(), statement, refusal.as_bytes()].concat());
    }
    text
}
