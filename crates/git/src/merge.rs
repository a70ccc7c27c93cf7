//! How the user's git merges files: its merge drivers, and the attributes beside those of the merged directory.
//!
//! A driver is a program of the user's configuration. This crate starts none: it says what would be started.

use crate::attributes::open_attributes;
use crate::{GitError, Repository};
use rustix::fs::OFlags;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The settings of drivers.
const SETTINGS: &str = r"^merge\.(default|.*\.driver)$";
/// The attributes of the machine.
const OF_MACHINE: &str = "/etc/gitattributes";
/// Maximum bytes that are read of a file with attributes.
const MAX_BYTES: u64 = 256 * 1024;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeSettings {
    /// The names and the commands of the drivers.
    pub drivers: Vec<(String, String)>,
    /// The name of the driver for files with no attribute.
    pub default: Option<String>,
    /// What counts more than the `.gitattributes` of the directory.
    pub stronger: Vec<Attributes>,
    /// What counts less; the strongest first.
    pub weaker: Vec<Attributes>,
}

/// A file with attributes outside of the directory: the path of the directory below the one that the patterns are relative to, which is
/// empty or ends with `/`, and the content.
pub type Attributes = (Vec<u8>, Vec<u8>);

impl Repository {
    /// Looks them up. Without a driver, everything is empty.
    ///
    /// # Errors
    /// Those of every call.
    pub fn merge_settings(&self) -> Result<MergeSettings, GitError> {
        let mut found = MergeSettings::default();
        for (name, value) in self.settings(SETTINGS)? {
            match name.strip_prefix("merge.").and_then(|rest| rest.strip_suffix(".driver")) {
                Some(driver) => {
                    found.drivers.retain(|(known, _)| known != driver);
                    found.drivers.push((driver.to_owned(), value));
                }
                None => found.default = Some(value),
            }
        }
        if found.drivers.is_empty() {
            return Ok(MergeSettings::default());
        }
        let prefix = self.prefix().to_vec();
        let read = |place: &Path, prefix: &[u8]| (prefix.to_vec(), read(place));
        // Git names it relative to the directory.
        let info = self.place(&["rev-parse", "--git-path", "info/attributes"])?;
        found.stronger.push(read(&self.directory.join(info), &prefix));
        let mut above = self.directory.as_path();
        let mut inner = Vec::new();
        for name in prefix.split(|byte| *byte == b'/').rev().filter(|name| !name.is_empty()) {
            inner = [name, b"/", &inner].concat();
            let Some(parent) = above.parent() else { break };
            above = parent;
            found.weaker.push(read(&above.join(".gitattributes"), &inner));
        }
        let set = self.place(&["config", "--type=path", "--get", "core.attributesFile"]).ok();
        found.weaker.extend(set.or_else(of_user).map(|place| read(&self.directory.join(place), &prefix)));
        found.weaker.push(read(Path::new(OF_MACHINE), &prefix));
        for attributes in [&mut found.stronger, &mut found.weaker] {
            attributes.retain(|(_, text)| !text.is_empty());
        }
        Ok(found)
    }
}

/// Where the user's attributes are by default.
fn of_user() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(config.join("git/attributes"))
}

/// The start of a file; empty if it cannot be read.
fn read(place: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    if let Some(file) = open_attributes(place, OFlags::empty()) {
        let _ = file.take(MAX_BYTES).read_to_end(&mut text);
    }
    text
}
