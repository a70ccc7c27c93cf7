//! Decides about entries of directories of which two sides have versions.

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

/// A version of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Its permissions.
    pub mode: u32,
    /// A number that versions with the same content or target share.
    pub content: u8,
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The first side's version stays.
    Keep,
    /// The second side's version takes its place, or it is deleted.
    Take,
    /// Both versions are files, of which each gives something.
    Join {
        /// Whose content.
        content: Content,
        /// Its permissions.
        mode: u32,
        /// Whether both sides have changed the permissions; `mode` is that of the first side then.
        is_mode_open: bool,
    },
    /// The sides contradict each other.
    Conflict(Clash),
}

/// Whose content a file gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// That of the first side.
    Ours,
    /// That of the second side.
    Theirs,
    /// That of both, line by line.
    Both,
}

/// Why two versions do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clash {
    /// The first side has deleted what the second one has changed.
    DeletedByFirst,
    /// The second side has deleted what the first one has changed.
    DeletedBySecond,
    /// They are of different kinds.
    Kind,
    /// They are links to different targets.
    Target,
}

/// Decides about an entry, by its version in the base, on the first and on the second side.
pub fn decide(base: Option<Entry>, ours: Option<Entry>, theirs: Option<Entry>) -> Decision {
    if theirs == base || theirs == ours {
        return Decision::Keep;
    }
    if ours == base {
        return Decision::Take;
    }
    let is_directory = |entry: Entry| entry.kind == Kind::Directory;
    match (ours, theirs) {
        // What is in it counts, not its permissions.
        (None, Some(other)) if is_directory(other) && base.is_some_and(is_directory) => Decision::Keep,
        (Some(own), None) if is_directory(own) && base.is_some_and(is_directory) => Decision::Take,
        (None, _) => Decision::Conflict(Clash::DeletedByFirst),
        (_, None) => Decision::Conflict(Clash::DeletedBySecond),
        (Some(own), Some(other)) if own.kind != other.kind => Decision::Conflict(Clash::Kind),
        (Some(own), Some(other)) => {
            let base = base.filter(|base| base.kind == own.kind);
            let of_base = |content: u8| base.is_some_and(|base| base.content == content);
            let content = match (own.content, other.content) {
                (one, two) if one == two || of_base(two) => Content::Ours,
                (one, _) if of_base(one) => Content::Theirs,
                _ => Content::Both,
            };
            match own.kind {
                Kind::Symlink if content == Content::Theirs => Decision::Take,
                Kind::Symlink if content == Content::Ours => Decision::Keep,
                Kind::Symlink => Decision::Conflict(Clash::Target),
                Kind::Other => Decision::Conflict(Clash::Kind),
                Kind::File | Kind::Directory => {
                    let is_base = |mode: u32| base.is_some_and(|base| base.mode == mode);
                    let (mode, is_mode_open) = match (own.mode, other.mode) {
                        (one, two) if one == two || is_base(two) => (one, false),
                        (one, two) if is_base(one) => (two, false),
                        (one, _) => (one, true),
                    };
                    let content = if own.kind == Kind::Directory { Content::Ours } else { content };
                    Decision::Join { content, mode, is_mode_open }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn file(content: u8, mode: u32) -> Option<Entry> {
        Some(Entry { kind: Kind::File, mode, content })
    }

    const fn other(kind: Kind, content: u8) -> Option<Entry> {
        Some(Entry { kind, mode: 0o755, content })
    }

    #[test]
    fn what_one_side_has_changed_is_taken() {
        let versions =
            [None, file(1, 0o644), file(2, 0o644), file(1, 0o755), other(Kind::Symlink, 1), other(Kind::Directory, 0)];
        for base in versions {
            for changed in versions.into_iter().filter(|version| *version != base) {
                assert_eq!(decide(base, base, changed), Decision::Take);
                assert_eq!(decide(base, changed, base), Decision::Keep);
                assert_eq!(decide(base, changed, changed), Decision::Keep);
            }
        }
    }

    #[test]
    fn content_and_permissions_come_from_different_sides() {
        let joined = |content, mode, is_mode_open| Decision::Join { content, mode, is_mode_open };
        let base = file(1, 0o644);
        assert_eq!(decide(base, file(2, 0o644), file(1, 0o755)), joined(Content::Ours, 0o755, false));
        assert_eq!(decide(base, file(1, 0o755), file(2, 0o644)), joined(Content::Theirs, 0o755, false));
        assert_eq!(decide(base, file(2, 0o644), file(3, 0o755)), joined(Content::Both, 0o755, false));
        assert_eq!(decide(base, file(1, 0o600), file(1, 0o755)), joined(Content::Ours, 0o600, true));
        assert_eq!(decide(None, file(1, 0o644), file(2, 0o755)), joined(Content::Both, 0o644, true));
        // A link that both have replaced by a file is no base for its lines.
        assert_eq!(
            decide(other(Kind::Symlink, 1), file(1, 0o644), file(2, 0o644)),
            joined(Content::Both, 0o644, false)
        );
    }

    #[test]
    fn what_does_not_go_together_is_a_conflict() {
        let conflict = Decision::Conflict;
        let base = file(1, 0o644);
        assert_eq!(decide(base, None, file(2, 0o644)), conflict(Clash::DeletedByFirst));
        assert_eq!(decide(base, file(2, 0o644), None), conflict(Clash::DeletedBySecond));
        assert_eq!(decide(base, file(2, 0o644), other(Kind::Symlink, 3)), conflict(Clash::Kind));
        assert_eq!(decide(None, other(Kind::Directory, 0), file(2, 0o644)), conflict(Clash::Kind));
        assert_eq!(decide(None, other(Kind::Symlink, 1), other(Kind::Symlink, 2)), conflict(Clash::Target));
        assert_eq!(decide(None, other(Kind::Other, 1), other(Kind::Other, 2)), conflict(Clash::Kind));
    }

    #[test]
    fn a_deleted_directory_stays_deleted_whatever_its_permissions() {
        let directory = |mode| Some(Entry { kind: Kind::Directory, mode, content: 0 });
        assert_eq!(decide(directory(0o755), None, directory(0o700)), Decision::Keep);
        assert_eq!(decide(directory(0o755), directory(0o700), None), Decision::Take);
    }
}
