//! What the attributes of the real files are, and the user's settings.

use crate::{GitError, Repository};
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The value of an attribute of which nothing is said.
pub const UNSPECIFIED: &[u8] = b"unspecified";
/// The value of `-name`.
pub const UNSET: &[u8] = b"unset";
/// The value of `name`.
pub const SET: &[u8] = b"set";

/// Opens a file with attributes. `None` if there is no regular file that can be read.
pub(crate) fn open_attributes(place: &Path, flags: OFlags) -> Option<File> {
    // A pipe would not end.
    let flags = (flags | OFlags::NONBLOCK).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(place).ok()?;
    file.metadata().is_ok_and(|found| found.is_file()).then_some(file)
}

/// A path, and the values of its attributes.
pub type Values<const N: usize> = (Vec<u8>, [Vec<u8>; N]);

impl Repository {
    /// The attributes of paths relative to the directory, in the order of their names.
    pub(crate) fn attributes<const N: usize>(
        &self,
        names: &[&str; N],
        paths: &[&[u8]],
    ) -> Result<Vec<Values<N>>, GitError> {
        let arguments = [&["check-attr", "-z", "--stdin"], &names[..]].concat();
        let listed = self.run(&arguments, Some(&paths.join(&0)))?;
        // Path, name and value of each.
        let fields: Vec<&[u8]> = listed.split(|byte| *byte == 0).collect();
        let of_path = |fields: &[&[u8]]| {
            let value = |at: usize| fields.get(3 * at + 2).copied().unwrap_or(UNSPECIFIED).to_vec();
            (fields[0].to_vec(), std::array::from_fn(value))
        };
        Ok(fields.chunks_exact(3 * N).map(of_path).collect())
    }

    /// The settings whose names match a regular expression, in the order in which they count. A name without a value is `true`.
    pub(crate) fn settings(&self, expression: &str) -> Result<Vec<(String, String)>, GitError> {
        let listed = match self.run(&["config", "-z", "--get-regexp", expression], None) {
            // There is none.
            Err(GitError::Failed { reason: None, .. }) => return Ok(Vec::new()),
            listed => listed?,
        };
        let setting = |setting: &[u8]| {
            let text = String::from_utf8_lossy(setting);
            let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
            (name.to_owned(), value.to_owned())
        };
        Ok(listed.split(|byte| *byte == 0).filter(|setting| !setting.is_empty()).map(setting).collect())
    }
}
