//! What a command can have changed, and how long it can take, as far as its text shows.
//!
//! Only for the question whether a snapshot of the shell's state has to be taken, which costs a millisecond. Anything
//! that is not a list of plain commands ([`plain_commands`]) may be anything. A function that has the name of a program is
//! taken for the program; what it changes is then missing in a background process that is started during the very next
//! command, when that follows within milliseconds.

use super::plain_commands::{PlainCommand, plain_commands};
use super::preparing::OF_ARGUMENTS;

/// Builtins that change the shell's state.
const CHANGING: &[&str] = &[
    ".",
    "alias",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "command",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "getopts",
    "hash",
    "history",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "trap",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

/// Builtins that are done at once, whatever their arguments.
const INSTANT: &[&str] = &[
    ":", "alias", "cd", "declare", "dirs", "echo", "export", "false", "popd", "printf", "pushd", "pwd", "readonly",
    "set", "shift", "shopt", "test", "true", "type", "typeset", "umask", "unalias", "unset",
];

/// True when the state of the shell is after the command what it was before, but for `$?` and `$_`.
pub fn keeps_state(text: &[u8]) -> bool {
    let text = text.strip_prefix(OF_ARGUMENTS).unwrap_or(text);
    let keeps = |command: &PlainCommand| !CHANGING.contains(&command.name()) && !command.name().contains('=');
    plain_commands(text).is_some_and(|commands| commands.iter().all(keeps))
}

/// True when the command can not last: then nothing has to be ready for what may be asked while it runs. (Opening what a
/// redirection leads to can, and so can looking for files.)
pub fn is_instant(text: &[u8]) -> bool {
    let assigns = |command: &PlainCommand| command.words.iter().all(|word| word.contains('='));
    let instant = |command: &PlainCommand| INSTANT.contains(&command.name()) || assigns(command);
    plain_commands(text).is_some_and(|commands| {
        commands.iter().all(|command| instant(command) && !command.redirected && !command.globs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Command;
    use crate::session::preparing::text_of;

    #[test]
    fn programs_change_nothing_and_builtins_are_known() {
        for text in
            ["ls -l", "/bin/true", "npm test", "true", "echo hi\n", "git log | head && ls \"$x\" 2>&1", "sort < a > b"]
        {
            assert!(keeps_state(text.as_bytes()), "{text}");
        }
        for text in [
            "cd /",
            "x=1",
            "x=1 y",
            "a; cd b",
            "a | read x",
            "f() { :; }",
            "echo $((x++))",
            "source f",
            "",
            " ",
            "sleep 1 &",
            "time cd /",
            "exec >f",
            "coproc a",
        ] {
            assert!(!keeps_state(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn an_argument_vector_is_known_by_its_first_word() {
        let of = |words: &[&str]| text_of(&Command::Argv(words.iter().map(|word| word.as_bytes().to_vec()).collect()));
        assert!(keeps_state(&of(&["git", "log", "a b", "$(x)"])));
        assert!(!keeps_state(&of(&["cd", "/"])));
        assert!(!keeps_state(&of(&["export", "A=it's"])));
    }

    #[test]
    fn only_builtins_are_instant() {
        for text in ["true", "cd /usr", "A=1", " echo a b ", "cd a; export B=$c", "A=1 B=2\ntrue"] {
            assert!(is_instant(text.as_bytes()), "{text}");
        }
        for text in
            ["sleep 1", "echo $(sleep 1)", "A=1 sleep 1", "echo a; sleep 1", "echo a > fifo", "echo a | cat", "echo *"]
        {
            assert!(!is_instant(text.as_bytes()), "{text}");
        }
    }
}
