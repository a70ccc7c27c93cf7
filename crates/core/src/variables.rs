//! Environment variables and their changes.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Options of bash with which a shell runs no command, or ends after one.
const UNUSABLE: [&[u8]; 2] = [b"noexec", b"onecmd"];

/// An exported function that no shell gets: without the builtin of this name, the engine cannot drive it.
pub const NEVER_INHERITED: &str = "BASH_FUNC_builtin%%";

/// MAX_ARG_STRLEN: the kernel's limit for a variable, with its name, `=` and a NUL.
const MOST_BYTES: usize = 128 * 1024;

/// A change of variables: `None` unsets.
pub type EnvChange = Vec<(String, Option<String>)>;

/// The environment with the changes applied.
pub fn changed(env: &[(OsString, OsString)], changes: EnvChange) -> Vec<(OsString, OsString)> {
    let mut env = env.to_vec();
    for (name, value) in changes {
        env.retain(|(existing, _)| *existing != *name);
        env.extend(value.map(|value| (OsString::from(name), OsString::from(value))));
    }
    env
}

/// The value that shells inherit: of `SHELLOPTS`, which sets options in each bash, without those that stop a session.
pub fn inherited<'a>(name: &OsStr, value: &'a OsStr) -> Cow<'a, OsStr> {
    let options = || value.as_bytes().split(|byte| *byte == b':');
    if name != "SHELLOPTS" || !options().any(|option| UNUSABLE.contains(&option)) {
        return Cow::Borrowed(value);
    }
    let kept: Vec<&[u8]> = options().filter(|option| !UNUSABLE.contains(option)).collect();
    Cow::Owned(OsString::from_vec(kept.join(&b':')))
}

/// The error of a program's start, which says why the environment does not fit.
pub fn named_in(error: io::Error, env: &[(OsString, OsString)]) -> io::Error {
    if error.raw_os_error() != Some(libc::E2BIG) {
        return error;
    }
    let bytes = |(name, value): &(OsString, OsString)| name.len() + value.len() + 2;
    let reason = match env.iter().find(|variable| bytes(variable) > MOST_BYTES) {
        Some(variable) => format!(
            "the variable {} has {} bytes, and a program gets at most {} in one",
            variable.0.display(),
            variable.1.len(),
            MOST_BYTES - 2 - variable.0.len(),
        ),
        None => format!("all variables together have {} bytes", env.iter().map(bytes).sum::<usize>()),
    };
    io::Error::new(io::ErrorKind::ArgumentListTooLong, format!("{error}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_inherit_the_options_with_which_they_run_commands() {
        let options = |value: &'static str| inherited(OsStr::new("SHELLOPTS"), OsStr::new(value)).into_owned();
        for (given, kept) in [
            ("noexec", ""),
            ("onecmd:errexit", "errexit"),
            ("braceexpand:noexec:onecmd:pipefail", "braceexpand:pipefail"),
            ("allexport:errexit", "allexport:errexit"),
            ("noexecute", "noexecute"),
        ] {
            assert_eq!(options(given), kept);
        }
        assert_eq!(inherited(OsStr::new("OTHER"), OsStr::new("noexec")), OsStr::new("noexec"));
    }

    #[test]
    fn an_environment_that_is_too_large_is_explained() {
        let too_large = || io::Error::from_raw_os_error(libc::E2BIG);
        let variable = |name: &str, length: usize| (OsString::from(name), OsString::from("x".repeat(length)));
        let explained = named_in(too_large(), &[variable("A", 10), variable("LONG", 131_067)]).to_string();
        assert!(
            explained.contains("the variable LONG has 131067 bytes, and a program gets at most 131066"),
            "{explained}"
        );
        assert!(named_in(too_large(), &[variable("A", 10)]).to_string().contains("together have 13 bytes"));
        let other = named_in(io::Error::from_raw_os_error(libc::ENOENT), &[variable("LONG", 131_070)]);
        assert_eq!(other.raw_os_error(), Some(libc::ENOENT));
    }
}
