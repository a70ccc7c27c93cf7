//! `cwd` and `env` of one command: set before it, put back exactly after it, however it ended.
//!
//! Both steps are internal texts of their own. What was there before is asked of the shell and kept by the host, so it
//! is put back also when the command ended the shell's process and another one took over.

use crate::driver::script::{Declaration, quote, quote_str};
use crate::error::{Code, Error};
use std::path::Path;

/// What to ask before anything is changed. The answer is for [`Scope::new`].
pub fn question(names: &[&str]) -> String {
    let variables = names.iter().map(|name| format!("\\builtin declare -p {name}\n\\builtin printf '\\0'\n"));
    variables.chain(["\\builtin printf '%s\\0%s\\0' \"${PWD-}\" \"${OLDPWD-}\"".to_string()]).collect()
}

/// How it was before.
pub struct Scope {
    restore: Vec<u8>,
    read_only: Option<String>,
}

impl Scope {
    /// `moves` says that the command has a directory of its own.
    pub fn new(names: &[&str], moves: bool, answer: &[u8]) -> Self {
        let fields: Vec<&[u8]> = answer.split(|&byte| byte == 0).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or(&[]);
        let (mut restore, mut read_only) = (Vec::new(), None);
        for (index, name) in names.iter().enumerate() {
            let statement = field(index);
            restore.extend_from_slice(format!("\\builtin unset -v {name}\n").as_bytes());
            let Some(before) = Declaration::parse(statement.strip_suffix(b"\n").unwrap_or(statement)) else { continue };
            if before.has(b'r') {
                read_only.get_or_insert((*name).to_string());
            }
            restore.extend_from_slice(&before.restore());
        }
        if moves {
            let (cwd, before) = (quote(field(names.len())), field(names.len() + 1));
            restore.extend_from_slice(&[b"\\builtin cd -- ".as_slice(), &cwd, b"\n"].concat());
            if before.is_empty() {
                restore.extend_from_slice(b"\\builtin unset -v OLDPWD\n");
            } else {
                restore.extend_from_slice(&[b"OLDPWD=".as_slice(), &quote(before), b"\n"].concat());
            }
        }
        Self { restore, read_only }
    }

    /// The text that puts everything back.
    pub fn restore(&self) -> &[u8] {
        &self.restore
    }

    /// A variable that can not be changed.
    pub fn read_only(&self) -> Option<Error> {
        self.read_only.as_deref().map(read_only)
    }
}

/// Exports a variable, or unsets it. It is unset first: an array would take the value as its first element, an integer
/// as an expression.
pub fn assignment(name: &str, value: Option<&str>) -> Vec<u8> {
    match value {
        Some(value) => {
            format!("\\builtin unset -v {name} && \\builtin export {name}={}\n", quote_str(value)).into_bytes()
        }
        None => format!("\\builtin unset -v {name}\n").into_bytes(),
    }
}

/// Enters a directory. `CDPATH` does not apply to absolute paths.
pub fn enter(directory: &Path) -> Vec<u8> {
    [b"\\builtin cd -- ".as_slice(), &quote(directory.as_os_str().as_encoded_bytes()), b"\n"].concat()
}

/// The error for a variable that the session has made read-only.
pub fn read_only(name: &str) -> Error {
    Error::new(Code::InvalidEnvName, format!("the variable {name} is read-only in the session and can not be changed"))
}

/// Why a command can not run in a directory.
pub fn cwd_error(directory: &Path) -> Error {
    let shown = directory.display();
    let reason = match std::fs::metadata(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "does not exist".to_string(),
        Err(error) => format!("can not be used: {error}"),
        Ok(info) if !info.is_dir() => "is not a directory".to_string(),
        Ok(_) => "can not be entered".to_string(),
    };
    Error::new(Code::CwdNotFound, format!("the working directory '{shown}' {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_back_values_and_absence() {
        let answer = b"declare -x A=\"1\"\n\0\0declare -r C=\"x\"\n\0/home/a b\0/old\0";
        let scope = Scope::new(&["A", "B", "C"], true, answer);
        let text = String::from_utf8(scope.restore().to_vec()).unwrap();
        assert!(text.contains("unset -v A\n\\builtin declare -x A=\"1\"\n"));
        assert!(text.contains("unset -v B\n") && !text.contains("declare -x B"));
        assert!(text.ends_with("\\builtin cd -- '/home/a b'\nOLDPWD='/old'\n"));
        assert!(scope.read_only().unwrap().message.contains("variable C"));
    }
}
