//! How a background process with a terminal is born.
//!
//! As in [`super::birth`] a fork of the standby waits for permission. It then saves its state, and becomes the helper that
//! gives it the terminal, and that a new bash with this state. The fork does not lead a process group, since a leader
//! can not begin a session.

use super::Origin;
use super::birth;
use super::leaving;
use super::quote::quote_str;
use super::text::{self, OWN_PID, Paths};
use super::transport::{Pipe, Text};
use crate::driver::Birth;
use std::path::Path;

/// What is to be born.
pub struct Wanted<'a> {
    /// As for any process.
    pub birth: &'a Birth<'a>,
    /// The process's side of the terminal.
    pub path: &'a Path,
    /// What its shell is started from.
    pub origin: &'a Origin,
}

/// What the standby does to start the process. `trap -` makes the fork forget the traps of the shell, as for any
/// subshell, so that they are not saved.
pub fn errand(paths: &Paths<'_>, wanted: &Wanted<'_>, flags: &str, aliases_on: bool) -> String {
    let quiet = if flags.contains(['x', 'v']) { "{ \\builtin set +xv; } 2>/dev/null;" } else { "" };
    let scope = format!("\\builtin eval -- \"$(<{})\" 2>/dev/null;", paths.text(Text::ProcessScope));
    let (told, begin) = (paths.pipe(Pipe::StandbyControl), paths.pipe(Pipe::TerminalBegin));
    let key = wanted.birth.key;
    let turn = format!(
        "{aliases}\n{save}\\builtin printf '\\1D\\0%s\\0\\0\\0\\2\\n' {key} >|{told}\n\\builtin read -r _ <{begin} && {replace}",
        aliases = text::aliases(aliases_on),
        save = leaving::save(paths, Text::ProcessDump),
        replace = replace(paths, wanted),
    );
    format!(
        "( ( {quiet}\\builtin trap - HUP;{scope}\
         \\builtin printf '\\1B\\0%s\\0%s\\0\\0\\2\\n' {key} \"{OWN_PID}\" >|{told};\
         \\builtin read -r _ <{begin} && \\builtin eval -- {turn} ) {base} & )",
        scope = if wanted.birth.scope.is_empty() { "" } else { &scope },
        turn = quote_str(&turn),
        base = paths.base(),
    )
}

/// Replaces the process image twice: by the helper, and by bash.
fn replace(paths: &Paths<'_>, wanted: &Wanted<'_>) -> String {
    let words = |path: &Path| quote_str(&path.display().to_string());
    let text = format!(
        "\\builtin . {init};\\builtin eval -- {begun}\"$(<{command})\"",
        init = paths.text(Text::ProcessInit),
        begun = quote_str(&birth::begun(paths, wanted.birth.key)),
        command = paths.text(Text::ProcessCommand),
    );
    format!(
        "\\builtin exec -c -a nacre-terminal {helper} --terminal {path} -- {shell} bash --norc --noprofile -c {text} bash",
        helper = words(&wanted.origin.supervisor),
        path = words(wanted.path),
        shell = words(&wanted.origin.shell),
        text = quote_str(&text),
    )
}
