//! Merges the lines of two versions of a file that have a common base.

use crate::lines::{Lines, Numbering};
use crate::region::{Choice, Region, regions};
use std::ops::Range;

/// A file with a byte 0 among so many first ones is binary, as for git.
const LOOKED_AT_BYTES: usize = 8000;
/// Maximum bytes of a file whose lines are merged; a longer one counts as binary.
pub const MAX_BYTES: u64 = 16 << 20;
/// How often the character of a marker is repeated.
const MARKER: usize = 7;

/// What stands at a conflict.
#[derive(Clone, Copy, Debug)]
pub enum AtConflict<'a> {
    /// Both versions, between git's markers with these labels.
    Markers {
        /// Of the first version.
        ours: &'a str,
        /// Of the second version.
        theirs: &'a str,
    },
    /// The first version.
    Ours,
    /// Both versions, and it is no conflict: git's `union`.
    Both,
}

/// A merged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its content.
    pub content: Vec<u8>,
    /// The conflicts; without any, it is complete.
    pub conflicts: Vec<Conflict>,
}

/// Lines that both versions have changed in different ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The first line of it in the merged file, with the first marker if there is one; from 0.
    pub line: usize,
    /// The lines of the first version; from 0.
    pub ours: Range<usize>,
    /// The lines of the second version.
    pub theirs: Range<usize>,
    /// The text of the first version.
    pub our_text: Vec<u8>,
    /// The text of the second version.
    pub their_text: Vec<u8>,
}

/// Whether a file has no lines to merge.
pub fn is_binary(content: &[u8]) -> bool {
    content.len() as u64 > MAX_BYTES || content[..content.len().min(LOOKED_AT_BYTES)].contains(&0)
}

/// Merges two versions of a file. None of the three may be binary. A file that both have created has an empty base.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8], at_conflict: AtConflict<'_>) -> Text {
    let mut numbering = Numbering::default();
    let [base, ours, theirs] = [base, ours, theirs].map(|text| numbering.lines(text));
    let regions = regions(&base, &ours, &theirs, numbering.count());
    let mut text = Text { content: Vec::new(), conflicts: Vec::new() };
    // The lines of the first version that are done, and those that the content has.
    let (mut done, mut lines) = (0, 0);
    for region in regions {
        let (our_lines, their_lines) = (region.our_lines(), region.their_lines());
        let (mut copy, mut copied) =
            (|from: &Lines<'_>, part: Range<usize>| text.content.extend(from.text_of(part)), 0);
        match region.choice {
            Choice::Same => continue,
            Choice::Ours => {
                copy(&ours, done..our_lines.end);
                copied += our_lines.end - done;
            }
            Choice::Theirs => {
                copy(&ours, done..our_lines.start);
                copied += our_lines.start - done + their_lines.len();
                copy(&theirs, their_lines);
            }
            Choice::Neither => {
                copy(&ours, done..our_lines.start);
                copied += our_lines.start - done;
                let conflict = Conflict {
                    line: lines + copied,
                    our_text: ours.text_of(our_lines.clone()).to_vec(),
                    their_text: theirs.text_of(their_lines.clone()).to_vec(),
                    ours: our_lines.clone(),
                    theirs: their_lines.clone(),
                };
                copied += our_lines.len();
                let newline = newline(&base, &ours, &theirs, &region);
                match at_conflict {
                    AtConflict::Ours => text.content.extend(ours.text_of(our_lines.clone())),
                    AtConflict::Markers { ours: our_label, theirs: their_label } => {
                        mark(&mut text.content, '<', our_label, newline);
                        add_lines(&mut text.content, ours.text_of(our_lines.clone()), newline);
                        mark(&mut text.content, '=', "", newline);
                        add_lines(&mut text.content, theirs.text_of(their_lines.clone()), newline);
                        mark(&mut text.content, '>', their_label, newline);
                        copied += their_lines.len() + 3;
                    }
                    AtConflict::Both => {
                        add_lines(&mut text.content, ours.text_of(our_lines.clone()), newline);
                        text.content.extend(theirs.text_of(their_lines.clone()));
                        copied += their_lines.len();
                    }
                }
                if !matches!(at_conflict, AtConflict::Both) {
                    text.conflicts.push(conflict);
                }
            }
        }
        lines += copied;
        done = our_lines.end;
    }
    text.content.extend(ours.text_of(done..ours.count()));
    text
}

/// How the markers of a conflict end: as the lines before it. If the versions differ there, as the base.
fn newline(base: &Lines<'_>, ours: &Lines<'_>, theirs: &Lines<'_>, region: &Region) -> &'static str {
    let before = |lines: Range<usize>| lines.start.saturating_sub(1);
    let files = [(ours, before(region.our_lines())), (theirs, before(region.their_lines())), (base, 0)];
    // LF decides, wherever it is seen first. CR LF must not be contradicted by any of them.
    let mut last = None;
    for (lines, line) in files {
        last = lines.has_crlf(line);
        if last == Some(false) {
            break;
        }
    }
    if last == Some(true) { "\r\n" } else { "\n" }
}

fn mark(content: &mut Vec<u8>, character: char, label: &str, newline: &str) {
    content.extend(character.to_string().repeat(MARKER).bytes());
    if !label.is_empty() {
        content.push(b' ');
        content.extend(label.bytes());
    }
    content.extend(newline.bytes());
}

/// Adds lines, the last one with a newline in any case.
fn add_lines(content: &mut Vec<u8>, lines: &[u8], newline: &str) {
    content.extend(lines);
    if !lines.is_empty() && !lines.ends_with(b"\n") {
        content.extend(newline.bytes());
    }
}
