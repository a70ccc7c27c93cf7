//! What is to be done once the steps of a commit are done or undone, and before its journal ends. It can be repeated.

use crate::journal::{Direction, Journal};
use crate::known::Known;
use crate::steps::{Action, Step};
use crate::tree::{Tree, file_type, has_other_names, open_path, own_path, split, status};
use crate::walk::Walk;
use rustix::fs::{FileType, XattrFlags, removexattr, setxattr};
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

/// Separates the layers from what has been committed.
///
/// The kernel must merge no directory with its own copy below, which would bring back what is deleted in it later. So the
/// lowest layer with the directory hides the copy.
///
/// A copied file names the real file of which it is a copy (its origin), which the commit has replaced. At each lookup, the
/// kernel asks the file system for that inode. While another program creates a file with the same number, the lookup fails
/// (`ENOMEM`), and a list of the directory lacks the file. So the layer that receives the writes forgets the origin. Sealed
/// layers keep theirs: other forks may use them, and find by it what this commit has replaced. So does a file with other
/// names, which may not be committed yet.
fn separate(layers: &[Tree], marks: &str, steps: &[Step]) -> Result<()> {
    let layers: Vec<_> = layers.iter().map(Walk::new).collect();
    for step in steps.iter().filter(|step| matches!(step.action, Action::Put { .. })) {
        let (parent, name) = split(&step.path);
        let mut is_hidden = false;
        for (number, layer) in layers.iter().enumerate().rev() {
            let Some(directory) = layer.directory(parent)? else { continue };
            let Some(found) = status(Some(&directory), name)? else { continue };
            let entry = open_path(&directory, name)?;
            // It has been applied: without space for a mark, that is no reason to fail.
            let is_directory = file_type(&found) == FileType::Directory;
            if !is_directory && number == 0 && !has_other_names(&found) {
                let _ = removexattr(own_path(&entry), format!("{marks}.overlay.origin"));
            } else if is_directory && !is_hidden {
                let _ = setxattr(own_path(&entry), format!("{marks}.overlay.opaque"), b"y", XattrFlags::empty());
                is_hidden = true;
            }
        }
    }
    Ok(())
}
