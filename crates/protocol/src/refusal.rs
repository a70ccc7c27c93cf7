//! What a rule for files has refused.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rule {
    /// The path is in no readable tree.
    Read,
    /// It is in no writable tree.
    Write,
    /// It is in this tree, which is hidden.
    Hide,
    /// It is in this tree, which is protected.
    Protect,
    /// It is in this tree, which the preset protects.
    Project,
    /// It is this file, which has the rules.
    File,
    /// It is code that a program with hosts of its own wanted to load, and that is not the machine's own.
    Program,
}

impl Rule {
    /// The same as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Hide => "hide",
            Self::Protect => "protect",
            Self::Project => "project",
            Self::File => "file",
            Self::Program => "library",
        }
    }
}

/// A path that the rules have refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileRefusal {
    /// What a program wanted to use.
    pub path: PathBuf,
    /// Why it could not.
    pub rule: Rule,
    /// The tree that the rule has to have, or not to have, for it.
    pub tree: PathBuf,
}
