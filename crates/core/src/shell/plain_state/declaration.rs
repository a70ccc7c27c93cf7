//! One line of `declare -p`, and the text that restores the variable.

use super::statements::split_word;

/// `declare -flags name=value`, or without `=value` for a variable that is declared but unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// The flags as printed: `--`, or a dash and letters.
    pub flags: &'a [u8],
    /// The variable's name.
    pub name: &'a [u8],
    /// The value as printed, quoted; starts with `(` for arrays.
    pub value: Option<&'a [u8]>,
}

impl<'a> Declaration<'a> {
    /// Parses a statement; `None` if it is something else (`declare -f`, noise).
    pub fn parse(statement: &'a [u8]) -> Option<Self> {
        let (word, rest) = split_word(statement);
        let (flags, rest) = split_word(rest);
        let end = rest.iter().position(|byte| *byte == b'=').unwrap_or(rest.len());
        let name = &rest[..end];
        let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        (word == b"declare" && flags.starts_with(b"-") && is_name).then(|| Self {
            flags,
            name,
            value: rest.get(end + 1..),
        })
    }

    /// True for a variable with this attribute letter.
    pub fn has(&self, attribute: u8) -> bool {
        self.flags.contains(&attribute)
    }

    /// A statement that declares the variable in a shell without it.
    ///
    /// The attributes follow the value, since `-i` would evaluate it and `-l` convert it. Bash parses `name=(...)` only
    /// as a separate assignment or after a literal `declare`, not after `builtin declare`. A literal `declare` may be a
    /// function of the user. An array is therefore declared first, which fails for a variable that cannot be assigned.
    /// The value of a nameref is checked only if it is declared as one.
    pub fn restore(&self) -> Vec<u8> {
        let declare = b"\\builtin declare ".as_slice();
        let attributes = [declare, self.flags, b" ", self.name].concat();
        match self.value {
            Some(value) if value.starts_with(b"(") => {
                let kind = if self.has(b'A') { b"-A ".as_slice() } else { b"-a " };
                [declare, kind, self.name, b" && ", self.name, b"=", value, b" && ", &attributes].concat()
            }
            Some(value) if self.has(b'n') => [&attributes, b"=".as_slice(), value].concat(),
            Some(value) => [declare, b"-- ", self.name, b"=", value, b" && ", &attributes].concat(),
            None => attributes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_bash_prints() {
        let scalar = Declaration::parse(b"declare -rx A=\"x=y\"").unwrap();
        assert_eq!((scalar.flags, scalar.name, scalar.value), (&b"-rx"[..], &b"A"[..], Some(&b"\"x=y\""[..])));
        assert!(scalar.has(b'r') && !scalar.has(b'n'));
        assert_eq!(Declaration::parse(b"declare -x OLDPWD").unwrap().value, None);
        assert_eq!(Declaration::parse(b"declare -- \"\"=x"), None);
        assert_eq!(Declaration::parse(b"some noise"), None);
    }

    #[test]
    fn bash_takes_every_kind_back() {
        let script = r#"a=(x "y z" $'n\nl'); declare -A m=([k]=v ["a b"]="c'd"); declare -ri n=7; declare -ar r=(1 2)
            declare -ax e=(q); declare -lx low=ABC; declare -a unset_array; declare -n ref=n; s='it'"'"'s'
            declare -p a m n r e low unset_array ref s"#;
        let bash = |script: &[u8]| {
            let script = std::ffi::OsStr::from_bytes(script);
            let output = std::process::Command::new("bash").arg("-c").arg(script).output().unwrap();
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        use std::os::unix::ffi::OsStrExt;
        let printed = bash(script.as_bytes());
        let mut restore: Vec<u8> = super::super::statements::statements(&printed)
            .into_iter()
            .flat_map(|statement| [Declaration::parse(statement).unwrap().restore(), b"\n".to_vec()].concat())
            .collect();
        restore.extend_from_slice(b"declare -p a m n r e low unset_array ref s");
        assert_eq!(String::from_utf8_lossy(&bash(&restore)), String::from_utf8_lossy(&printed));
    }
}
