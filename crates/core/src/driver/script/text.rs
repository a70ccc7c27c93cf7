//! The bash texts of the engine. Everything the shell ever executes of ours is written here.
//!
//! Each command is spelled `\builtin name`, so that a user's function called `printf`, `read` or `trap` is not run in its
//! place, nor an alias called `builtin`. (A function called `builtin` is: then the loop as a builtin gives up, reports stay
//! away, and the session falls back on the standby.) No text leaves a variable behind, and none uses a descriptor above 2.

use super::quote::quote_str;
use super::standbys::turn;
use super::transport::{Pipe, Side, Stream, Text, Transport};
use nacre_shell_loop::NAME as BUILTIN;

/// Signals whose default action would end the shell with a status that its EXIT trap can not see (`$?` there is the
/// status of the last command): a trap turns them into `exit 128+n`. Only SIGTERM: a child that has just been forked
/// loses any other signal that its shell has trapped (`sleep 60 & kill -HUP $!`), which is worse than a wrong status for
/// a shell that sends one to itself.
pub const STATUS_SIGNALS: [(&str, i32); 1] = [("SIGTERM", libc::SIGTERM)];

/// Expands to the number of the very process. `BASHPID` loses its meaning when it has been unset; the first word of the
/// process's own stat file is the same number, and reading it that way does not fork (bash 5.2).
pub(super) const OWN_PID: &str = "${BASHPID-$(</proc/self/stat)}";

/// The channels' paths as literal words.
pub struct Paths<'a>(pub &'a dyn Transport);

impl Paths<'_> {
    pub(super) fn pipe(&self, pipe: Pipe) -> String {
        quote_str(&self.0.pipe_path(pipe))
    }

    pub(super) fn text(&self, text: Text) -> String {
        quote_str(&self.0.text_path(text))
    }

    /// Redirections of a command.
    pub(super) fn streams(&self, side: Side) -> String {
        let [input, output, error] =
            [Stream::Input, Stream::Output, Stream::Error].map(|stream| quote_str(&self.0.stream_path(side, stream)));
        format!("<{input} >|{output} 2>|{error}")
    }

    /// Redirections of the shell itself.
    pub(super) fn base(&self) -> String {
        format!("</dev/null >|{} 2>|{}", self.pipe(Pipe::BaseOutput), self.pipe(Pipe::BaseError))
    }
}

/// The versions of bash that the builtin was tried with, as a pattern: it relies on what is inside of them.
const BUILTIN_VERSIONS: &str = "5.[123].*";

/// The argument of `bash -c`: report, wait for a token, run the command's text; for ever. By a builtin where the shell
/// can load it, which is asked for before anything of the user's is restored; otherwise, and should the builtin ever
/// return, by [`repeat`].
pub fn main_loop(paths: &Paths<'_>) -> String {
    let init = format!("\\builtin . {}", paths.text(Text::Init));
    let load = format!(
        "case $BASH_VERSION in {BUILTIN_VERSIONS}) \\builtin enable -f {} {BUILTIN} 2>/dev/null;; *) \\builtin false;; esac",
        paths.text(Text::Loop)
    );
    format!("if {load};then {init};{};else {init};fi;{}", builtin_loop(paths), repeat(paths))
}

/// The call of the builtin: its arguments are described in `crates/shell-loop/loop/loop.c`.
fn builtin_loop(paths: &Paths<'_>) -> String {
    let streams = [Stream::Input, Stream::Output, Stream::Error]
        .map(|stream| quote_str(&paths.0.stream_path(Side::Foreground, stream)));
    let words = [
        paths.pipe(Pipe::Control),
        paths.pipe(Pipe::Token),
        paths.text(Text::Command),
        streams.join(" "),
        quote_str(&exit_trap(paths)),
        quote_str(&format!("{} || \\builtin :", report(paths, 'L'))),
    ];
    format!("\\builtin {BUILTIN} {}", words.join(" "))
}

/// The loop as a text.
///
/// The report is at the head, where it is also the ready handshake and where `continue` leads. `eval` runs the text, not
/// `.`, so that messages say `bash: line 1:` and `return` means what it means at top level. The text comes through
/// `$(<file)`, which does not fork since bash 5.2.
pub(super) fn repeat(paths: &Paths<'_>) -> String {
    let (command, token, streams) =
        (paths.text(Text::Command), paths.pipe(Pipe::Token), paths.streams(Side::Foreground));
    format!(
        "while {};\\builtin read -r _ <{token};do \\builtin eval -- \"$(<{command})\" {streams};done",
        report(paths, 'R')
    )
}

/// Tells how the last command has ended: `R`, or `L` when the shell itself remembers `$?`, PIPESTATUS and `$_`.
fn report(paths: &Paths<'_>, kind: char) -> String {
    format!(
        "{{ \\builtin printf '\\1{kind}\\0%s\\0%s\\0%s\\0%s\\0' \"$?\" \"$-\" \"$#\" \"${{PWD-}}\";\\builtin trap -p EXIT DEBUG ERR RETURN;\\builtin printf '\\0\\2\\n'; }} >|{}",
        paths.pipe(Pipe::Control)
    )
}

/// The shell's argument vector.
pub fn argv(paths: &Paths<'_>) -> [String; 6] {
    ["bash".into(), "--norc".into(), "--noprofile".into(), "-c".into(), main_loop(paths), "bash".into()]
}

/// Sets the engine's traps. `taken` are signals that the user has trapped.
pub fn arm(paths: &Paths<'_>, taken: &[String]) -> String {
    let mut text = format!("\\builtin trap {} EXIT\n", quote_str(&exit_trap(paths)));
    for (name, number) in STATUS_SIGNALS.iter().filter(|(name, _)| !taken.iter().any(|signal| signal == name)) {
        text.push_str(&format!("\\builtin trap {} {name}\n", quote_str(&signal_trap(*number))));
    }
    text
}

/// The text of the engine's EXIT trap, as `trap -p` shows it. Nothing in it has anything to say on standard error but a
/// child that runs it by mistake.
pub fn exit_trap(paths: &Paths<'_>) -> String {
    format!("\\builtin . {} 2>/dev/null", paths.text(Text::Exit))
}

/// The text of the engine's trap for a signal of [`STATUS_SIGNALS`].
pub fn signal_trap(number: i32) -> String {
    format!("\\builtin exit {}", 128 + number)
}

/// A fork of the shell that waits to be woken and then does what its [`Pipe::errand`] says: start a background process, or
/// take over. Twice removed so that it is no job of the shell's and `$!` stays.
///
/// `token` is where it waits, which it tells (0 or 1). `drop` are the user's descriptors that lead to pipes and sockets: a
/// copy kept open here would keep the other side from ever seeing the end of file. Job control is on around the fork
/// (`monitor` says that the user has it on himself): a background process of a shell without it ignores SIGINT and
/// SIGQUIT, and would for ever, also as the shell. And it gets a process group of its own, as the shell has, out of reach
/// of a `kill 0`.
///
/// This text must not be [`guarded`]: what is forked on the left of `||` ignores `errexit` for ever. Aliases are off in
/// the standby, since one of the user's could be called `while`, and its errands turn them on again when the record says
/// that they were on. The `:` at the end gives a CHLD trap its moment, while the output leads nowhere. What bash has to say about a fork that fails goes to where
/// the host listens.
pub fn standby(paths: &Paths<'_>, token: Pipe, drop: &[i32], monitor: bool) -> String {
    let closing: String = drop.iter().map(|fd| format!(" {fd}>&-")).collect();
    // The shell itself must not wait for the fork as for a job of its own.
    let (before, off, after) =
        if monitor { ("\\builtin set +m;", "", ";\\builtin set -m") } else { ("", "\\builtin set +m;", "") };
    let errands = format!(
        "while \\builtin read -r _ <{token};do \\builtin eval -- \"$(<{errand})\";done",
        token = paths.pipe(token),
        errand = paths.text(token.errand()),
    );
    format!(
        "{{ {before}( \\builtin set -m;( {off}\\builtin printf '\\1P\\0%s\\0%s\\0%s\\0\\2\\n' \"{OWN_PID}\" \"$BASHOPTS\" {turn} >|{told};\
         \\builtin shopt -u expand_aliases;\\builtin eval -- {errands} ) {base}{closing} & ){after};\\builtin :; }} 2>|{complaints}",
        complaints = paths.pipe(Pipe::BaseError),
        told = paths.pipe(Pipe::StandbyControl),
        turn = turn(token),
        errands = quote_str(&errands),
        base = paths.base(),
    )
}

/// Turns aliases on, in an errand of a standby whose shell has them on.
pub fn aliases(on: bool) -> &'static str {
    if on { "\\builtin shopt -s expand_aliases;" } else { "" }
}

/// The errand of a standby that becomes the shell.
pub fn take_over(paths: &Paths<'_>, aliases_on: bool) -> String {
    format!("{}\\builtin . {}", aliases(aliases_on), paths.text(Text::StandbyExit))
}

/// Renews a shell that is a fork of an earlier one: the state is saved, and restored by a new image.
pub fn renew(paths: &Paths<'_>) -> String {
    format!("\\builtin . {}", paths.text(Text::StandbyExit))
}

/// A text of the engine's own that may fail: on the left of `||` neither `errexit` nor an ERR trap minds.
pub fn guarded(text: &[u8]) -> Vec<u8> {
    [b"{ ".as_slice(), text, b"\n} || \\builtin :"].concat()
}

/// Runs a text and stores `0` if it succeeded.
pub fn checked(paths: &Paths<'_>, text: &[u8]) -> Vec<u8> {
    let store = |status| format!("\\builtin printf {status} >|{}", paths.text(Text::Answer));
    [b"{ ".as_slice(), text, b"\n} && ", store("0").as_bytes(), b" || ", store("1").as_bytes()].concat()
}

/// Runs `query` with its output going to the answer text.
pub fn storing(paths: &Paths<'_>, query: &str) -> String {
    format!("{{ {query}\n}} >|{} 2>/dev/null", paths.text(Text::Answer))
}
