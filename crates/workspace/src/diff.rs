//! A patch with the changes of a workspace, in git's format: `git apply` makes them in the real directory.
//!
//! Object ids are complete, and content that is not text is a binary patch. Git has no form for directories, FIFOs,
//! sockets, devices, owners, and modes other than the executable bit of the owner, so the patch omits them. It also omits
//! names that git refuses, because one of them makes git refuse the whole patch: `.git`, and what Windows takes for it.
//!
//! No filter, conversion or setting of git applies. Each path is read again, so the patch has what is there now, whatever
//! the list of changes says.
//!
//! Memory holds the two versions of one path, up to 64 MiB each, and the lines that differ. A larger file is a binary
//! patch, which is read and written in blocks. A file above [`MAX_FILE_BYTES`] makes the patch fail, also if it is sparse.

mod binary;
mod hunks;
mod lines;
mod stream;
mod texts;
mod version;

use crate::Tree;
use crate::failure::{Failure, errno_of, shown, while_doing};
use crate::tree::split;
use crate::walk::Walk;
pub use hunks::Hunks;
use nacre_protocol::host_programs::Changed;
use nacre_protocol::workspace::WorkspaceChange;
use std::io::{self, Write};
pub use stream::stream;
pub use texts::{Texts, is_large};
pub use version::MAX_FILE_BYTES;
use version::Version;

/// The id of a version that does not exist.
const NO_ID: version::Id = [0; 20];

/// Writes a patch for changed paths, from the real directory to what programs see. `interrupt` fails once the caller has gone.
///
/// # Errors
/// [`Failure::TooLarge`] if the patch has more than `max_bytes`, or a file more than [`MAX_FILE_BYTES`]; `EAGAIN` if a
/// file changes all the time. Part of the patch is written then.
pub fn write(
    merged: &Tree,
    base: &Tree,
    changes: &[WorkspaceChange],
    max_bytes: u64,
    interrupt: &dyn Fn() -> rustix::io::Result<()>,
    out: impl Write,
) -> Result<(), Failure> {
    let mut out = Limited { out, left: max_bytes, max_bytes };
    let (merged, base) = (Walk::new(merged), Walk::new(base));
    let counted = Changed::new(changes.iter().map(|change| change.path.as_slice()));
    for WorkspaceChange { path, .. } in changes.iter().filter(|change| !is_refused(&change.path)) {
        interrupt().map_err(while_doing("write the patch"))?;
        let (before, now) = (version(&base, path)?, version(&merged, path)?);
        let path = Path { reason: counted.reason(path, false), ..Path::new(path) };
        match (before, now) {
            (Some(before), Some(now)) if before.is_link() == now.is_link() => {
                section(&mut out, &path, Some(&before), Some(&now))?;
            }
            // Another kind of file is another file.
            (before, now) => {
                for (before, now) in [(before, None), (None, now)] {
                    section(&mut out, &path, before.as_ref(), now.as_ref())?;
                }
            }
        }
    }
    out.flush().map_err(|error| out.failure(&error))
}

/// The file or link at a path.
fn version(side: &Walk<'_>, path: &[u8]) -> Result<Option<Version>, Failure> {
    let (parent, name) = split(path);
    let directory = side.directory(parent).map_err(while_doing(reading(path)))?;
    directory.map_or(Ok(None), |directory| Version::load(&directory, name, path))
}

fn reading(path: &[u8]) -> String {
    format!("read {} of the workspace", shown(path))
}

/// Whether git refuses a path because of a component: `.git`, and what Windows takes for it, with letters of any case.
/// See `is_ntfs_dotgit` in git's `path.c`.
fn is_refused(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| {
        let rest = [&b".git"[..], b"git~1"].iter().find_map(|reserved| {
            let start = name.get(..reserved.len())?;
            start.eq_ignore_ascii_case(reserved).then(|| &name[reserved.len()..])
        });
        rest.is_some_and(|rest| {
            let end = rest.iter().find(|byte| !matches!(byte, b'.' | b' '));
            matches!(end, None | Some(b':' | b'\\'))
        })
    })
}

/// A path as git writes it.
struct Path<'a> {
    path: &'a [u8],
    before: Vec<u8>,
    now: Vec<u8>,
    /// Why programs of the machine run or obey it later.
    reason: Option<&'static str>,
}

impl<'a> Path<'a> {
    fn new(path: &'a [u8]) -> Self {
        Self { path, reason: None, before: quoted(b"a/", path), now: quoted(b"b/", path) }
    }
}

/// Quotes a path like a string in C, if it needs to be.
fn quoted(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    if path.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        return [prefix, path].concat();
    }
    let mut text = [b"\"", prefix].concat();
    for byte in path {
        let short = match byte {
            0x07 => b'a',
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0b => b'v',
            0x0c => b'f',
            b'\r' => b'r',
            b'"' | b'\\' => *byte,
            b' '..=b'~' => {
                text.push(*byte);
                continue;
            }
            _ => {
                text.extend_from_slice(format!("\\{byte:03o}").as_bytes());
                continue;
            }
        };
        text.extend_from_slice(&[b'\\', short]);
    }
    text.push(b'"');
    text
}

/// Writes what a path becomes. Writes nothing if git sees no difference.
fn section<W: Write>(
    out: &mut Limited<W>,
    path: &Path<'_>,
    before: Option<&Version>,
    now: Option<&Version>,
) -> Result<(), Failure> {
    let is_same = match (before, now) {
        (None, None) => return Ok(()),
        (Some(before), Some(now)) => before.has_content_of(now),
        _ => false,
    };
    let (old, new) = (before.map(Version::mode), now.map(Version::mode));
    if is_same && old == new {
        return Ok(());
    }
    let written = header(out, path, (before, old), (now, new), is_same);
    written.map_err(|error| out.failure(&error))?;
    if is_same {
        return Ok(());
    }
    let absent = Some(&b""[..]);
    match (before.map_or(absent, Version::text), now.map_or(absent, Version::text)) {
        (Some(a), Some(b)) => text_patch(out, path, (a, old), (b, new)).map_err(|error| out.failure(&error)),
        _ => {
            out.write_all(b"GIT binary patch\n").map_err(|error| out.failure(&error))?;
            binary::literal(out, now, path.path)?;
            binary::literal(out, before, path.path)
        }
    }
}

/// A version, and its mode in git.
type Moded<'a> = (Option<&'a Version>, Option<&'static str>);

fn header(
    out: &mut impl Write,
    path: &Path<'_>,
    (before, old): Moded<'_>,
    (now, new): Moded<'_>,
    is_same: bool,
) -> io::Result<()> {
    // git apply skips lines before a header.
    if let Some(reason) = path.reason {
        writeln!(out, "# runs later: {reason}")?;
    }
    out.write_all(&[b"diff --git ", &path.before[..], b" ", &path.now, b"\n"].concat())?;
    match (old, new) {
        (None, Some(new)) => writeln!(out, "new file mode {new}")?,
        (Some(old), None) => writeln!(out, "deleted file mode {old}")?,
        (Some(old), Some(new)) if old != new => write!(out, "old mode {old}\nnew mode {new}\n")?,
        _ => {}
    }
    if is_same {
        return Ok(());
    }
    let id = |version: Option<&Version>| {
        let id = version.map_or(NO_ID, Version::id);
        id.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    write!(out, "index {}..{}", id(before), id(now))?;
    match (old, new) {
        (Some(old), Some(new)) if old == new => writeln!(out, " {new}"),
        _ => writeln!(out),
    }
}

/// A text, and its mode in git.
type Text<'a> = (&'a [u8], Option<&'static str>);

fn text_patch(out: &mut impl Write, path: &Path<'_>, (a, old): Text<'_>, (b, new): Text<'_>) -> io::Result<()> {
    if a.is_empty() && b.is_empty() {
        return Ok(());
    }
    // Git ends a name with spaces by a tab, so that other programs find its end.
    let end: &[u8] = if path.path.contains(&b' ') { b"\t\n" } else { b"\n" };
    let name = |mode: Option<&str>, name: &[u8]| match mode {
        None => b"/dev/null\n".to_vec(),
        Some(_) => [name, end].concat(),
    };
    out.write_all(b"--- ")?;
    out.write_all(&name(old, &path.before))?;
    out.write_all(b"+++ ")?;
    out.write_all(&name(new, &path.now))?;
    Hunks::new(a, b).write(out)
}

/// Fails once more than a number of bytes is written.
struct Limited<W> {
    out: W,
    left: u64,
    max_bytes: u64,
}

impl<W> Limited<W> {
    /// What failed when this was written to.
    fn failure(&self, error: &io::Error) -> Failure {
        if error.kind() == io::ErrorKind::FileTooLarge {
            return Failure::TooLarge(format!("it has more than {} bytes", self.max_bytes));
        }
        let errno = errno_of(error);
        Failure::System(errno, "write the patch".into())
    }
}

impl<W: Write> Write for Limited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        self.out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
