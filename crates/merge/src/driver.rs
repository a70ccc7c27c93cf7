//! The commands of git's merge drivers, with what they work with in the place of `%A` and the like.

/// What a driver works with: names of files in its directory, and texts.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The file with the common version.
    pub base: &'a str,
    /// The file with the first version, and later with the result.
    pub ours: &'a str,
    /// The file with the second version.
    pub theirs: &'a str,
    /// How long markers are.
    pub marker_size: u32,
    /// The path of the merged file.
    pub path: &'a [u8],
    /// What markers say of the three versions.
    pub labels: [&'a str; 3],
}

/// The text that a shell runs for a driver.
pub fn command(driver: &str, input: Input<'_>) -> Vec<u8> {
    let [of_base, of_ours, of_theirs] = input.labels;
    let mut command = Vec::new();
    let mut rest = driver.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        command.extend(&rest[..at]);
        let value = match rest.get(at + 1) {
            Some(b'O') => input.base.into(),
            Some(b'A') => input.ours.into(),
            Some(b'B') => input.theirs.into(),
            Some(b'L') => input.marker_size.to_string().into_bytes(),
            Some(b'P') => quoted(input.path),
            Some(b'S') => quoted(of_base.as_bytes()),
            Some(b'X') => quoted(of_ours.as_bytes()),
            Some(b'Y') => quoted(of_theirs.as_bytes()),
            Some(b'%') => b"%".to_vec(),
            _ => {
                command.push(b'%');
                rest = &rest[at + 1..];
                continue;
            }
        };
        command.extend(value);
        rest = &rest[at + 2..];
    }
    command.extend(rest);
    command
}

/// Quotes a text for a shell, as git does.
fn quoted(text: &[u8]) -> Vec<u8> {
    let mut quoted = b"'".to_vec();
    for byte in text {
        match byte {
            b'\'' | b'!' => quoted.extend([b'\'', b'\\', *byte, b'\'']),
            byte => quoted.push(*byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_its_values_quoted() {
        let input = Input {
            base: "o",
            ours: "a",
            theirs: "b",
            marker_size: 9,
            path: b"-it's\n$(x)!",
            labels: ["base", "side 0", "side 1"],
        };
        let command = super::command("m %O %A %B %L %P %S %X %Y 100%% %q %", input);
        assert_eq!(
            String::from_utf8(command).unwrap(),
            "m o a b 9 '-it'\\''s\n$(x)'\\!'' 'base' 'side 0' 'side 1' 100% %q %"
        );
    }
}
