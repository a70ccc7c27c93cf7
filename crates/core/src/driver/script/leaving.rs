//! The end of a shell: its status is told, its state saved, and its process image replaced.

use super::quote::quote_str;
use super::text::{OWN_PID, Paths, argv, repeat};
use super::transport::{Pipe, Side, Text};
use std::path::Path;

/// How many variables, functions and the like [`exit`] stores, each ended by NUL, then `END` and NUL.
pub const DUMP_SECTIONS: usize = 16;

/// The sections of a dump, in order.
#[derive(Clone, Copy)]
pub enum Section {
    /// `trap -p`
    Traps,
    /// `set +o`
    Options,
    /// `shopt -p`
    Shopt,
    /// `$PWD`
    Cwd,
    /// `umask -p`
    Umask,
    /// `declare -p`
    Variables,
    /// `local -p`, when the exit happened in a function
    Locals,
    /// `declare -f`
    Functions,
    /// `declare -F`
    FunctionAttributes,
    /// `alias -p`
    Aliases,
    /// `$0`, `$#` and `"$@"`, quoted
    Arguments,
    /// `"${DIRSTACK[@]}"`, quoted
    Directories,
    /// `complete -p`
    Completions,
    /// `hash -l`
    Hashes,
    /// `enable -n`
    Disabled,
    /// `1` when the exit happened in a function
    InFunction,
}

/// What is special about the shell whose EXIT trap is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExitKind {
    /// Its state is large.
    pub large: bool,
    /// It is a fork of an earlier shell, with this pid; 0 when it is not.
    pub successor: i32,
}

/// The EXIT trap: tell the status, save the state, run the user's own EXIT trap, replace the process image.
///
/// The state is saved before the user's trap runs, which then can do what it likes, in a subshell so that an `exit` in
/// it ends only the trap. The traps are printed first and DEBUG, ERR and RETURN removed next, so that nothing of the
/// user's prints into the rest of the dump. Signals are reset at the end because those set to be ignored would stay
/// ignored over exec for ever.
///
/// A child that is killed between its fork and its exec still has the shell's traps and would run them (`sleep 60 & kill
/// $!`): it is told by its pid and just ends.
pub fn exit(paths: &Paths<'_>, shell: &Path, user_trap: Option<&[u8]>, kind: ExitKind) -> Vec<u8> {
    let ExitKind { large, successor } = kind;
    let control = paths.pipe(Pipe::Control);
    let mut text = Vec::new();
    let mut line = |words: &str| text.extend_from_slice(words.as_bytes());
    line(&format!(
        "__nacre_status=$?\n\
         case ${{BASHPID-$$}} in $$|{successor}) ;; *) \\builtin exit \"$__nacre_status\";; esac\n\
         \\builtin printf '\\1Y\\0%s\\0%s\\0\\0\\2\\n' \"$__nacre_status\""
    ));
    line(&format!(" \"${{PWD-}}\" >|{control}\n"));
    if large && user_trap.is_none() {
        line(&hand_over(paths));
    }
    line(&save(paths, Text::Dump));
    if let Some(trap) = user_trap {
        let file =
            [b"( \\builtin trap - EXIT;\\builtin eval -- ".as_slice(), &super::quote::quote(&restore_status(trap))]
                .concat();
        text.extend_from_slice(&file);
        // Its own `exit` decides the status, as in any shell: the status is told once more.
        let end = format!(
            ";\\builtin exit \"$__nacre_status\" ) {}\n\\builtin printf '\\1Y\\0%s\\0%s\\0\\0\\2\\n' \"$?\" \"${{PWD-}}\" >|{control}\n",
            paths.streams(Side::Foreground)
        );
        text.extend_from_slice(end.as_bytes());
    }
    text.extend_from_slice(save_and_replace_tail(paths, shell).as_bytes());
    text
}

/// For a state so large that parsing it again would take long: a fork of the ending shell goes on with the loop. It is
/// announced as a standby and waits to be woken; the old process ends when the host has taken note of it. The new one is
/// a subshell (`$$` is its predecessor's), so it is renewed by [`standby_exit`] when there is time. Not from within a
/// function: the fork would stay in it for ever. Job control is off around the forks as in [`super::text::standby`], and
/// on again afterwards when the user has it on.
fn hand_over(paths: &Paths<'_>) -> String {
    format!(
        "if [[ ! ${{FUNCNAME[1]-}} ]]; then \\builtin trap -p >|{dump}\n\
         __nacre_status=$-\n\
         ( \\builtin set -m;( \\builtin set +m;. {dump};\\builtin printf '\\1S\\0%s\\0\\0\\2\\n' \"{OWN_PID}\" >|{told};\
         \\builtin read -r _ <{token} && {{ case $__nacre_status in *m*) \\builtin set -m;; esac;\\builtin unset -v __nacre_status;{main}; }} ) {base} & )\n\
         \\builtin read -r _ <{resume}; \\builtin exit; fi\n",
        dump = paths.text(Text::Dump),
        told = paths.pipe(Pipe::StandbyControl),
        token = paths.pipe(Pipe::Succession),
        resume = paths.pipe(Pipe::Resume),
        main = repeat(paths),
        base = paths.base(),
    )
}

/// The user's EXIT trap, seeing the status the shell exits with.
fn restore_status(trap: &[u8]) -> Vec<u8> {
    [b"(\\builtin exit \"$__nacre_status\")\n".as_slice(), trap].concat()
}

/// What a standby does when it is woken: as [`exit`], but there is no status to tell and no trap of the user's to run.
pub fn standby_exit(paths: &Paths<'_>, shell: &Path) -> Vec<u8> {
    format!("{}{}", save(paths, Text::Dump), save_and_replace_tail(paths, shell)).into_bytes()
}

/// Saves the state of the process that runs it, into a text.
pub(super) fn save(paths: &Paths<'_>, into: Text) -> String {
    let dump = paths.text(into);
    format!(
        "{{ \\builtin trap -p;\\builtin printf '\\0'; }} >|{dump} 2>/dev/null\n\
         \\builtin trap - DEBUG ERR RETURN\n\
         {{ \\builtin set +o;\\builtin printf '\\0';\\builtin shopt -p;\\builtin printf '\\0%s\\0' \"${{PWD-}}\"; }} >>{dump} 2>/dev/null\n\
         \\builtin set +eufvxC +o posix\n\
         {{ \\builtin umask -p;\\builtin printf '\\0';\\builtin declare -p;\\builtin printf '\\0';\
         [[ ${{FUNCNAME[1]-}} ]]&&\\builtin local -p;\\builtin printf '\\0';\
         \\builtin declare -f;\\builtin printf '\\0';\\builtin declare -F;\\builtin printf '\\0';\\builtin alias -p;\\builtin printf '\\0';\
         \\builtin printf '%q ' \"$0\" \"$#\" \"$@\";\\builtin printf '\\0';\\builtin printf '%q ' \"${{DIRSTACK[@]}}\";\\builtin printf '\\0';\
         \\builtin complete -p;\\builtin printf '\\0';\\builtin hash -l;\\builtin printf '\\0';\\builtin enable -n;\
         \\builtin printf '\\0%s\\0END\\0' \"${{FUNCNAME[1]+1}}\"; }} >>{dump} 2>/dev/null\n"
    )
}

fn save_and_replace_tail(paths: &Paths<'_>, shell: &Path) -> String {
    let (control, resume) = (paths.pipe(Pipe::Control), paths.pipe(Pipe::Resume));
    let numbers: String = (1..=64).map(|number| format!(" {number}")).collect();
    let [name, norc, noprofile, flag, text, zero] = argv(paths);
    format!(
        "\\builtin printf '\\1X\\0\\0\\2\\n' >|{control}\n\
         \\builtin trap -{numbers} 2>/dev/null\n\
         \\builtin read -r _ <{resume} || \\builtin exit\n\
         \\builtin exec -c -a {name} {shell} {norc} {noprofile} {flag} {text} {zero} {base}\n",
        shell = quote_str(&shell.display().to_string()),
        text = quote_str(&text),
        base = paths.base(),
    )
}
