//! A file with its path.

use super::failure::shown;
use nacre_protocol::files::Info;

/// A file with its path.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The given path, or a path below it.
    pub path: Vec<u8>,
    /// The file.
    pub info: Info,
}

/// The outcome of [`Access::stat`](super::Access::stat).
pub type Found = Option<Placed>;

impl Placed {
    /// The path as text.
    pub fn shown(&self) -> String {
        shown(&self.path)
    }
}

/// Joins a name to the given path. A file in `.` keeps its name alone.
pub(super) fn joined(given: &[u8], own: &[u8]) -> Vec<u8> {
    if own.is_empty() {
        return given.to_vec();
    }
    let stem = &given[..given.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1)];
    match stem {
        b"." => own.to_vec(),
        _ => [stem, b"/", own].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_a_list_is_the_given_one_and_the_name() {
        for (given, own, path) in [
            (&b"."[..], &b"a"[..], &b"a"[..]),
            (b"./", b"a", b"a"),
            (b"d//", b"a/b", b"d/a/b"),
            (b"/", b"a", b"/a"),
            (b"..", b"a", b"../a"),
            (b"d/", b"", b"d/"),
        ] {
            assert_eq!(joined(given, own), path);
        }
    }
}
