//! How a background process is born: a fork of the standby, in a process group of its own, that waits for its text.

use super::quote::quote_str;
use super::text::{self, OWN_PID, Paths};
use super::transport::{Pipe, Side, Text};
use crate::driver::Birth;

/// What the standby does to make the fork that becomes the next process. One line, and `eval` all the way, so that
/// messages say `bash: line 1:` as in a command of the foreground.
///
/// The fork is twice removed: when the one in between has ended the supervisor is its parent, and the end of the process
/// is the kernel's to tell, whatever happens to the standby. It tells its pid and waits until it is wanted; only then does
/// anything of the user's run. It takes its streams, its scope and its text from places that are the same for every
/// process, so it tells when it has done so: the next process finds its own there. Job control is on around the fork for
/// the reasons given in [`super::text::standby`].
///
/// The traps make a process that is asked to end wait for its present child and give that child's status, instead of
/// dying at once and leaving a program that ends gracefully without anybody to tell its exit code. A command that sets a
/// trap of its own replaces them.
pub fn errand(paths: &Paths<'_>, key: u64, flags: &str, aliases_on: bool) -> String {
    let (monitor, traced) = (flags.contains('m'), flags.contains(['x', 'v']));
    let off = if monitor { "" } else { "\\builtin set +m;" };
    // A shell that traces or echoes would do so with the engine's own words too.
    let (quiet, tracing) =
        if traced { ("{ \\builtin set +xv; } 2>/dev/null;", restore_tracing(flags)) } else { ("", "") };
    let begun = format!("{}{tracing}", begun(paths, key));
    format!(
        "( \\builtin set -m;( {quiet}{off}\\builtin trap '\\builtin exit' TERM INT HUP QUIT;\
         \\builtin printf '\\1B\\0%s\\0%s\\0\\0\\2\\n' {key} \"{OWN_PID}\" >|{told};\
         \\builtin read -r _ <{begin} || \\builtin exit;\
         {{ \\builtin eval -- \"$(<{scope})\" 2>/dev/null;{aliases}\\builtin eval -- {begun}\"$(<{process})\"; }} {streams} ) {base} & )",
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
