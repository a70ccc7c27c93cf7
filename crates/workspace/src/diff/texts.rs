//! The two texts of a change that has hunks.

use super::version::Version;
use super::{Hunks, version};
use crate::failure::Failure;
use crate::walk::Walk;
use nacre_protocol::workspace::{Difference, WithoutHunks, WorkspaceChange};

/// Maximum bytes of a file that has hunks, on each side.
pub const MAX_TEXT_BYTES: u64 = 1 << 20;

/// See the module. A file that does not exist is an empty text.
pub struct Texts {
    before: Option<Version>,
    now: Option<Version>,
}

impl Texts {
    /// Reads both, from what programs see and from the real directory, or says why there are no hunks.
    ///
    /// # Errors
    /// As for a patch.
    pub fn load(
        (merged, base): (&Walk<'_>, &Walk<'_>),
        change: &WorkspaceChange,
    ) -> Result<Result<Self, WithoutHunks>, Failure> {
        if matches!(change.difference, Difference::Replaced | Difference::Metadata) {
            return Ok(Err(WithoutHunks::Kind));
        }
        if is_large(change) {
            return Ok(Err(WithoutHunks::Large));
        }
        let texts = Self { before: version(base, &change.path)?, now: version(merged, &change.path)? };
        let versions = || [&texts.before, &texts.now].into_iter().flatten();
        let without = if versions().next().is_none() || versions().any(Version::is_link) {
            Some(WithoutHunks::Kind)
        } else if versions().any(|version| version.size() > MAX_TEXT_BYTES) {
            Some(WithoutHunks::Large)
        } else {
            versions().any(|version| version.text().is_none()).then_some(WithoutHunks::Binary)
        };
        Ok(without.map_or(Ok(texts), Err))
    }

    /// The hunks from the real version to that which programs see.
    pub fn hunks(&self) -> Hunks<'_> {
        Hunks::new(text(self.before.as_ref()), text(self.now.as_ref()))
    }
}

fn text(version: Option<&Version>) -> &[u8] {
    version.and_then(Version::text).unwrap_or_default()
}

/// Whether a file is too large for hunks.
pub fn is_large(change: &WorkspaceChange) -> bool {
    [change.before, change.now].into_iter().flatten().any(|entry| entry.size > MAX_TEXT_BYTES)
}
