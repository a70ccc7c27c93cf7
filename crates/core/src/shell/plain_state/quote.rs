//! Quoting for bash.

/// Quotes `text` as one literal word: in single quotes, each single quote inside as `'\''`.
pub fn quote(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'\'');
    for part in text.split_inclusive(|&byte| byte == b'\'') {
        match part.split_last() {
            Some((b'\'', before)) => {
                out.extend_from_slice(before);
                out.extend_from_slice(b"'\\''");
            }
            _ => out.extend_from_slice(part),
        }
    }
    out.push(b'\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_reads_back_exactly_what_was_quoted() {
        for text in ["", "plain", "it's", "''", "a\nb\\c $x `y` \"z\" !", "tab\tand \u{e9} \u{1f41a}", "-n"] {
            let script = [b"builtin printf %s ".as_slice(), &quote(text.as_bytes())].concat();
            let script = String::from_utf8(script).unwrap();
            let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(output.stdout, text.as_bytes());
        }
    }
}
