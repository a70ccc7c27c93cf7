//! What a command's text mentions. Never decides what a command means: bash alone parses commands. A wrong guess here
//! costs a little time or a little fidelity, never a result.

/// True when the text has `word` as a word of its own.
pub fn word(text: &[u8], word: &str) -> bool {
    let word = word.as_bytes();
    let is_part = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'))
    };
    text.windows(word.len()).enumerate().filter(|(_, window)| *window == word).any(|(at, _)| {
        !is_part(at.checked_sub(1).and_then(|before| text.get(before))) && !is_part(text.get(at + word.len()))
    })
}

/// True when the text has `part` anywhere.
pub fn part(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|window| window == part.as_bytes())
}

/// True when the command may end the shell by itself (`exit`, `set -e`, `${x:?}` ...).
pub fn ending(text: &[u8]) -> bool {
    let options = ["set -e", "set -u", "set -o errexit", "set -o nounset", "set -x", "?}", ":?", "set -n", "set -t"];
    ["exit", "logout"].iter().any(|name| word(text, name)) || options.iter().any(|option| part(text, option))
}

/// True when the command may take the shell's process away without its EXIT trap being run, or the engine's hold on it.
pub fn loss(text: &[u8]) -> bool {
    ["exec", "kill", "pkill", "killall", "builtin", "enable", "trap", "extdebug", "ulimit", "noexec"]
        .iter()
        .any(|name| word(text, name))
        || part(text, "set -n")
}

/// `$_` after a command that is nothing but plain words: its last word. `None` when the text is anything else.
pub fn last_argument(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./,:+@%=".contains(letter);
    let words: Vec<&str> =
        text.trim_matches([' ', '\t', '\n']).split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let simple = words.iter().all(|word| word.chars().all(plain)) && !words.first()?.contains('=');
    simple.then(|| words.last().map(|word| (*word).to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        assert!(word(b"trap -p", "trap") && word(b"a;trap x EXIT", "trap") && word(b"$(trap)", "trap"));
        assert!(
            !word(b"mousetrap", "trap") && !word(b"trap_it", "trap") && !word(b"./trap", "trap") && !word(b"", "trap")
        );
        assert!(ending(b"x; exit 3") && ending(b"echo ${x:?no}") && !ending(b"echo exited"));
    }

    #[test]
    fn the_last_argument_of_plain_words_only() {
        assert_eq!(last_argument(b"mkdir -p a/b\n").as_deref(), Some("a/b"));
        assert_eq!(last_argument(b"true").as_deref(), Some("true"));
        for text in ["echo $x", "a | b", "echo 'x'", "x=1", "x=1 y", "", "  ", "a &", "echo *", "a; b", "a\nb"] {
            assert_eq!(last_argument(text.as_bytes()), None, "{text}");
        }
    }
}
