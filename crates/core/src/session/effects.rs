//! What a command can have changed, and how long it can take, as far as its text shows.
//!
//! Only for the question whether a snapshot of the shell's state has to be taken, which costs a millisecond. Bash alone
//! parses commands: anything that is not plain words may be anything. A function that has the name of a program is taken
//! for the program; what it changes is then missing in a background process that is started during the very next
//! command, when that follows within milliseconds.

/// Builtins that change the shell's state.
const CHANGING: &[&str] = &[
    ".",
    "alias",
    "bind",
    "builtin",
    "caller",
    "cd",
    "command",
    "complete",
    "compopt",
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
    first_word(text).is_some_and(|word| !CHANGING.contains(&word) && !word.contains('='))
}

/// True when the command can not last: then nothing has to be ready for what may be asked while it runs.
pub fn is_instant(text: &[u8]) -> bool {
    let assigns = || text.split(|byte| b" \t\n".contains(byte)).all(|word| word.is_empty() || word.contains(&b'='));
    first_word(text).is_some_and(|word| INSTANT.contains(&word) || assigns())
}

/// The first word of a command that is nothing but plain words.
fn first_word(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t', '\n']);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./,:+@%= \t".contains(letter);
    if text.chars().all(plain) { text.split([' ', '\t']).next().filter(|word| !word.is_empty()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_change_nothing_and_builtins_are_known() {
        for text in ["ls -l", "/bin/true", "npm test", "true", "echo hi\n"] {
            assert!(keeps_state(text.as_bytes()), "{text}");
        }
        for text in ["cd /", "x=1", "x=1 y", "a; b", "f() { :; }", "echo $((x++))", "source f", "", " ", "sleep 1 &"] {
            assert!(!keeps_state(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn only_builtins_are_instant() {
        assert!(is_instant(b"true") && is_instant(b"cd /usr") && is_instant(b"A=1") && is_instant(b" echo a b "));
        assert!(!is_instant(b"sleep 1") && !is_instant(b"echo $(sleep 1)") && !is_instant(b"A=1 sleep 1"));
    }
}
