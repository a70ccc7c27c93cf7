//! Splits the output of `declare -p` and `trap -p` into statements and words.

/// Splits a text into statements. Bash prints one per line, but a quoted value may contain newlines.
pub fn statements(text: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = end_of(rest, |byte| byte == b'\n');
        if end > 0 {
            found.push(&rest[..end]);
        }
        rest = rest.get(end + 1..).unwrap_or(&[]);
    }
    found
}

/// Splits a text into words, without the blanks between them.
pub fn words(text: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = split_word(rest);
        found.push(word);
        rest = after;
    }
    found
}

/// True if bash expands nothing in a text, and executes nothing of it but its first word. Before 5.2, bash prints some
/// words without quotes.
pub fn is_literal(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'\'' => at = closing(text, at + 1, b'\'', false),
            b'$' if text.get(at + 1) == Some(&b'\'') => at = closing(text, at + 2, b'\'', true),
            byte if byte.is_ascii_alphanumeric() || byte >= 0x80 || b" ./_-+:,@%=".contains(&byte) => at += 1,
            _ => return false,
        }
    }
    true
}

/// Splits a text into its last word and what precedes it, with the blank.
pub fn split_last_word(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.len() - words(text).last().map_or(0, |word| word.len()))
}

/// Splits a text into its first word and the rest after the blank.
pub fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = end_of(text, |byte| byte == b' ');
    (&text[..end], text.get(end + 1..).unwrap_or(&[]))
}

/// The offset of the first byte outside quotes that `stop` accepts, or the length.
fn end_of(text: &[u8], stop: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'\'' => at = closing(text, at + 1, b'\'', false),
            b'"' => at = closing(text, at + 1, b'"', true),
            b'$' if text.get(at + 1) == Some(&b'\'') => at = closing(text, at + 2, b'\'', true),
            byte if stop(byte) => return at,
            _ => at += 1,
        }
    }
    text.len()
}

/// The position after the closing quote.
fn closing(text: &[u8], mut at: usize, quote: u8, escapes: bool) -> usize {
    while at < text.len() {
        match text[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The literal value of a bare word, or of a word in single quotes as bash prints it (`'it'\''s'`).
pub fn unquote(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut quoted = false;
    let mut bytes = word.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\'' => quoted = !quoted,
            b'\\' if !quoted => out.extend(bytes.next()),
            _ => out.push(byte),
        }
    }
    out
}

/// The literal value of a word as bash prints values: bare, or in any kind of quotes.
pub fn value_of(word: &[u8]) -> Vec<u8> {
    if let Some(inner) = word.strip_prefix(b"$'").and_then(|rest| rest.strip_suffix(b"'")) {
        return unescape(inner);
    }
    let Some(inner) = word.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else { return unquote(word) };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        out.extend(if byte == b'\\' { bytes.next() } else { Some(&byte) });
    }
    out
}

/// What stands between `$'` and `'`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let next = text.get(at + 1).copied();
        let (value, length) = match (byte, next) {
            (b'\\', Some(first @ b'0'..=b'7')) => {
                let digits = text[at + 1..].iter().take(3).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
                let number = text[at + 2..at + 1 + digits]
                    .iter()
                    .fold(first - b'0', |sum, digit| sum.wrapping_mul(8).wrapping_add(digit - b'0'));
                (number, 1 + digits)
            }
            (b'\\', Some(letter)) => {
                let value = match letter {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'E' | b'e' => 27,
                    other => other,
                };
                (value, 2)
            }
            _ => (byte, 1),
        };
        out.push(value);
        at += length;
    }
    out
}

/// Parses one `trap -- 'text' SIGNAL` statement.
pub fn parse_trap(statement: &[u8]) -> Option<(Vec<u8>, String)> {
    let rest = statement.strip_prefix(b"trap -- ")?;
    let (text, signal) = split_word(rest);
    // In posix mode, bash prints unset traps too. The text of a trap that is set is quoted.
    if text == b"-" {
        return None;
    }
    Some((unquote(text), String::from_utf8(signal.to_vec()).ok()?))
}

/// Parses all traps in a text, and skips other output, such as that of a DEBUG trap.
pub fn parse_traps(text: &[u8]) -> Vec<(Vec<u8>, String)> {
    let start = if text.starts_with(b"trap -- ") { 0 } else { find_line(text) };
    statements(&text[start..]).into_iter().filter_map(parse_trap).collect()
}

fn find_line(text: &[u8]) -> usize {
    text.windows(9).position(|window| window == b"\ntrap -- ").map_or(text.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_may_span_lines_inside_quotes() {
        let text = b"declare -- a=\"x\ny\\\"z\"\ndeclare -x b='q\nr'\ndeclare -- c=$'it\\'s\n'\ndeclare -a d=([0]=\"1\" [1]=\"2\n3\")\n";
        let found: Vec<_> = statements(text).iter().map(|one| String::from_utf8_lossy(one).into_owned()).collect();
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[3].ends_with("3\")"));
    }

    #[test]
    fn only_quoted_or_harmless_words_are_literal() {
        for text in [
            "hash -p /usr/bin/ls ls",
            "complete -W 'a $(b)' -- 'it'\\''s'",
            "umask 0022",
            "hash -p $'a\\'`' b",
            "a\\$b",
        ] {
            assert!(is_literal(text.as_bytes()), "{text}");
        }
        for text in ["hash -p /tmp/$(x) a", "complete -F f \"a\"", "a;b", "a\nb", "a`b`", "a>b", "*", "a&b"] {
            assert!(!is_literal(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn reads_traps_and_skips_noise() {
        let text = b"debug said this\ntrap -- 'echo '\\''bye\nnow'\\''' EXIT\ntrap -- '' SIGINT\n";
        let traps = parse_traps(text);
        assert_eq!(traps, vec![(b"echo 'bye\nnow'".to_vec(), "EXIT".into()), (Vec::new(), "SIGINT".into())]);
        assert_eq!(parse_traps(b"trap -- - DEBUG\ntrap -- '-' ERR\n"), vec![(b"-".to_vec(), "ERR".into())]);
        assert_eq!(parse_traps(b""), vec![]);
        assert_eq!(parse_traps(b"nothing here"), vec![]);
    }
}
