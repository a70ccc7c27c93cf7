//! Some hunks of changed files, for a commit or a discard.

use crate::changes::Sides;
use crate::diff::Texts;
use crate::failure::{Failure, Trouble, at};
use crate::selection::Selection;
use crate::walk::Walk;
use nacre_protocol::workspace::{HunkChoice, WithoutHunks};
use std::collections::{BTreeMap, HashSet};

/// Maximum bytes of all files together.
const MAX_BYTES: usize = 256 << 20;

/// Which of a file's hunks the new content has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The chosen ones: what becomes real.
    Chosen,
    /// All others: what stays in the workspace.
    Others,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Partial {
    /// The files of which all hunks are chosen, beside the chosen paths. `None`: everything.
    pub paths: Option<Vec<Vec<u8>>>,
    /// The new contents of the others.
    pub contents: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Partial {
    /// Finds the chosen hunks, beside chosen paths. Without hunks, no path chooses everything.
    ///
    /// # Errors
    /// [`Failure::NoChange`] and [`Failure::NoHunk`] if one does not exist, or no more; [`Failure::TooLarge`]; as for a patch.
    pub fn find(
        sides: &Sides<'_>,
        paths: Option<Vec<Vec<u8>>>,
        choices: Vec<HunkChoice>,
        takes: Takes,
    ) -> Result<Self, Failure> {
        if choices.is_empty() {
            return Ok(Self { paths, contents: BTreeMap::new() });
        }
        let paths = paths.unwrap_or_default();
        let selection = Selection::of(paths.clone());
        let mut found = Self { paths: Some(paths), contents: BTreeMap::new() };
        let walks = (Walk::new(sides.merged), Walk::new(sides.base));
        let mut bytes = 0;
        for (path, ids) in joined(choices) {
            let doing = "compare the hunks of the workspace";
            (sides.interrupt)().map_err(|errno| Trouble::from(errno).while_doing(doing))?;
            let change = sides.change(&path).map_err(|errno| at(&path)(errno).while_doing(doing))?;
            let change = change.ok_or_else(|| Failure::NoChange(path.clone()))?;
            let texts = match Texts::load((&walks.0, &walks.1), &change)? {
                Ok(texts) => texts,
                Err(without) => return Err(Failure::NoHunk(path, reason_of(without).into())),
            };
            let hunks = texts.hunks();
            let present = hunks.ids(&path);
            let mut chosen = HashSet::new();
            for id in ids {
                let Some(number) = present.iter().position(|present| *present == id) else {
                    return Err(Failure::NoHunk(path, format!("hunk {id} is not there any more")));
                };
                chosen.insert(number);
            }
            if selection.includes(&path) {
                continue;
            }
            if chosen.len() == present.len() {
                found.paths.get_or_insert_default().push(path);
                continue;
            }
            if takes == Takes::Others {
                chosen = (0..present.len()).filter(|number| !chosen.contains(number)).collect();
            }
            let content = hunks.apply(&chosen);
            bytes += content.len();
            if bytes > MAX_BYTES {
                return Err(Failure::TooLarge(format!("the files of the hunks have more than {MAX_BYTES} bytes")));
            }
            found.contents.insert(path, content);
        }
        Ok(found)
    }
}

/// The choices of each file.
fn joined(choices: Vec<HunkChoice>) -> BTreeMap<Vec<u8>, Vec<String>> {
    let mut joined: BTreeMap<Vec<u8>, Vec<String>> = BTreeMap::new();
    for HunkChoice { path, ids } in choices {
        joined.entry(path).or_default().extend(ids);
    }
    joined
}

fn reason_of(without: WithoutHunks) -> &'static str {
    match without {
        WithoutHunks::Kind => "only changed content of a file has hunks",
        WithoutHunks::Large => "a file of more than 1 MiB has no hunks",
        WithoutHunks::Binary => "a binary file has no hunks",
        WithoutHunks::Generated | WithoutHunks::MaxBytes => "its hunks are not listed",
    }
}
