//! What is to be done once the steps of a commit are done or undone, and before its journal ends. It can be repeated.

use crate::journal::{Direction, Journal};
use crate::known::Known;
use crate::steps::{Action, Step};
use crate::tree::{Tree, file_type, open_path, own_path, split, status};
use crate::walk::Walk;
use rustix::fs::{FileType, XattrFlags, setxattr};
use rustix::io::Result;

/// Notes what the commit has made of the real directory, and separates the layers from it.
///
/// # Errors
/// Those of the system calls.
pub fn settle(journal: &Journal, base: &Tree, layers: &[Tree], marks: &str, known: &mut Known) -> Result<()> {
    known.expect(&journal.notes);
    match journal.direction {
        Direction::Back => known.note_undone(base, &journal.steps),
        Direction::Forward => {
            known.note(base, &journal.steps, &journal.staged)?;
            known.note_equal(&journal.notes);
            separate(layers, marks, &journal.steps)
        }
    }
}

/// Separates the layers from what has been committed: the kernel must merge no directory with its own copy below, which
/// would bring back what is deleted in it later. So the lowest layer with the directory hides the copy.
fn separate(layers: &[Tree], marks: &str, steps: &[Step]) -> Result<()> {
    let layers: Vec<_> = layers.iter().map(Walk::new).collect();
    for step in steps.iter().filter(|step| matches!(step.action, Action::Put { .. })) {
        let (parent, name) = split(&step.path);
        for layer in layers.iter().rev() {
            let Some(directory) = layer.directory(parent)? else { continue };
            let Some(found) = status(Some(&directory), name)? else { continue };
            if file_type(&found) == FileType::Directory {
                let entry = open_path(&directory, name)?;
                let mark = format!("{marks}.overlay.opaque");
                // It has been applied: without space for the mark, that is no reason to fail.
                let _ = setxattr(own_path(&entry), mark, b"y", XattrFlags::empty());
                break;
            }
        }
    }
    Ok(())
}
