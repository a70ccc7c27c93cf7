//! The changes of a workspace as a person reviews them: in groups, with their hunks.

use crate::changes::Sides;
use crate::diff::{Texts, is_large};
use crate::failure::Failure;
use crate::git_rules::GitRules;
use crate::walk::Walk;
use nacre_protocol::host_programs::Changed;
use nacre_protocol::workspace::{
    Difference, Kind, ReviewGroup, ReviewedChange, ReviewedHunk, WithoutHunks, WorkspaceChange,
};
use rustix::io::Errno;

/// What a hunk counts beside its text.
const HUNK_BYTES: usize = 100;

/// Reviews changes. The hunks have at most `max_bytes` together; those of what is generated come last.
///
/// # Errors
/// As for a patch.
pub fn review(
    sides: &Sides<'_>,
    changes: Vec<WorkspaceChange>,
    max_bytes: u64,
) -> Result<Vec<ReviewedChange>, Failure> {
    let rules = GitRules::new(sides.base);
    let walks = (Walk::new(sides.merged), Walk::new(sides.base));
    let counted = Changed::new(changes.iter().map(|change| change.path.as_slice()));
    let mut reviewed = Vec::with_capacity(changes.len());
    for change in &changes {
        let is_directory = change.now.or(change.before).is_some_and(|entry| entry.kind == Kind::Directory);
        let reason = |errno: Errno| crate::failure::at(&change.path)(errno).while_doing("read the rules of git");
        let (group, reason) = match counted.reason(&change.path, is_directory) {
            Some(reason) => (ReviewGroup::RunsLater, Some(reason)),
            None => match rules.generated(&change.path, is_directory).map_err(reason)? {
                Some(reason) => (ReviewGroup::Generated, Some(reason)),
                None if is_large(change) => (ReviewGroup::Large, None),
                None => (ReviewGroup::Source, None),
            },
        };
        let reason = reason.map(Into::into);
        let (added, removed, hunks, without) = (0, 0, Vec::new(), None);
        reviewed.push(ReviewedChange { change: change.clone(), group, reason, added, removed, hunks, without });
    }
    let mut left = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    for is_late in [false, true] {
        for one in reviewed.iter_mut().filter(|one| (one.group == ReviewGroup::Generated) == is_late) {
            (sides.interrupt)().map_err(crate::failure::while_doing("review the workspace"))?;
            // Whole trees of outputs and dependencies are not read.
            if is_late && one.change.difference != Difference::Modified {
                one.without = Some(WithoutHunks::Generated);
                continue;
            }
            match Texts::load((&walks.0, &walks.1), &one.change)? {
                Ok(texts) => add_hunks(one, &texts, &mut left),
                Err(without) => {
                    one.without = Some(without);
                    if one.group == ReviewGroup::Source && without == WithoutHunks::Binary {
                        one.group = ReviewGroup::Binary;
                    }
                }
            }
        }
    }
    Ok(reviewed)
}

fn add_hunks(one: &mut ReviewedChange, texts: &Texts, left: &mut usize) {
    let hunks = texts.hunks();
    for hunk in hunks.iter() {
        let (removed, added) = hunk.counts();
        one.removed += u64::from(removed);
        one.added += u64::from(added);
    }
    let texts = hunks.texts();
    let bytes = texts.iter().map(|text| text.len() + HUNK_BYTES).sum();
    let Some(rest) = left.checked_sub(bytes) else {
        one.without = Some(WithoutHunks::MaxBytes);
        return;
    };
    *left = rest;
    let ids = hunks.ids(&one.change.path);
    one.hunks = hunks
        .iter()
        .zip(ids.into_iter().zip(texts))
        .map(|(hunk, (id, text))| {
            let (removed, added) = hunk.counts();
            ReviewedHunk { id, before: hunk.before.into(), now: hunk.after.into(), added, removed, text }
        })
        .collect();
}
