//! What `git add` makes of a content before git stores it: filters, ends of lines, encodings, `$Id$`.
//!
//! Git itself does it, so that the blobs are those of the user's own `git add`: in a temporary work tree that has nothing but the
//! contents and the `.gitattributes` of the real one, with an index of its own. Attributes among the contents do not count. Filters are
//! programs of the user's configuration; they run in the real work tree, as they do there.

use crate::stream::{Entry, entries};
use crate::{BranchTarget, GitError, Repository, attributes, checked, first_line, git_in, output};
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The attributes that change contents.
const ATTRIBUTES: [&str; 6] = ["text", "crlf", "eol", "filter", "ident", "working-tree-encoding"];
/// The settings that do.
const SETTINGS: &str = r"^(core\.autocrlf|filter\..*\.(clean|process|required))$";
/// Variables that the programs of filters do not have with `git add`.
const UNSET: &str = "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_CONFIG_PARAMETERS";
/// Maximum bytes that git reads of a file with attributes.
const MAX_ATTRIBUTES_BYTES: u64 = 100 << 20;
/// Bytes that are looked at together.
const BLOCK: usize = 64 * 1024;

/// When git changes a content.
#[derive(Clone, Copy, Debug, Default)]
struct Converted {
    always: bool,
    with_crlf: bool,
    with_id: bool,
}

/// Which contents git may change, by their paths in the repository.
#[derive(Debug, Default)]
pub struct Conversions {
    paths: BTreeMap<Vec<u8>, Converted>,
    /// The commands of filters, by their settings.
    filters: BTreeMap<String, String>,
}

impl Repository {
    /// Looks up which of these files git may change before it stores them. The paths are relative to the directory.
    ///
    /// # Errors
    /// Those of every call.
    pub fn conversions(&self, files: &[&[u8]]) -> Result<Conversions, GitError> {
        let mut found = Conversions::default();
        if files.is_empty() {
            return Ok(found);
        }
        let (mut has_autocrlf, mut names) = (false, BTreeSet::new());
        for (name, value) in self.settings(SETTINGS)? {
            match name.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) {
                Some((filter, kind)) => {
                    names.insert(filter.as_bytes().to_vec());
                    if kind != "required" && !value.is_empty() {
                        found.filters.insert(name.clone(), value);
                    }
                }
                None => has_autocrlf = !matches!(value.as_str(), "false" | "no" | "off" | "0" | ""),
            }
        }
        for (path, values) in self.attributes(&ATTRIBUTES, files)? {
            let [text, crlf, eol, filter, ident, encoding] = values;
            let is_given = |value: &[u8]| value != attributes::UNSPECIFIED;
            let converted = Converted {
                always: names.contains(&filter) || is_given(&encoding),
                with_crlf: text != attributes::UNSET
                    && (has_autocrlf || [&text, &crlf, &eol].into_iter().any(|value| is_given(value))),
                with_id: ident == attributes::SET,
            };
            let is_attributes = path.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes");
            if (converted.always || converted.with_crlf || converted.with_id) && !is_attributes {
                found.paths.insert([self.prefix(), &path].concat(), converted);
            }
        }
        Ok(found)
    }

    /// Runs `git fast-import` with a stream whose part from `head` on has whole files: they get the contents that `git add` would
    /// store.
    ///
    /// # Errors
    /// Those of every call; [`GitError::Filter`] for a filter that is required, and [`GitError::Temporary`]. Nothing has been committed.
    pub fn import(
        &self,
        target: &BranchTarget,
        stream: File,
        head: u64,
        conversions: &Conversions,
    ) -> Result<(), GitError> {
        let chosen = conversions.choose(&stream, head).map_err(GitError::Temporary)?;
        if chosen.is_empty() {
            return self.import_file(stream);
        }
        let (stored, tree) = self.store(target, &stream, &chosen, conversions)?;
        let mut git = self.git(&["fast-import", "--quiet", "--done"]);
        let mut running = git.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let output = std::thread::scope(|scope| {
            if let Some(pipe) = running.stdin.take() {
                // Git may end before it has read everything.
                scope.spawn(|| drop(replace(&stream, &chosen, &stored, pipe)));
            }
            drop(tree);
            running.wait_with_output()
        })?;
        checked("fast-import", output.status, &output.stderr)
    }

    /// Lets git store the contents, and returns their ids by their paths, and the tree for that, which takes a while to be removed.
    fn store(
        &self,
        target: &BranchTarget,
        stream: &File,
        chosen: &[Entry],
        conversions: &Conversions,
    ) -> Result<(BTreeMap<Vec<u8>, String>, Tree), GitError> {
        let depth = self.prefix().iter().filter(|byte| **byte == b'/').count();
        let top = self.directory.ancestors().nth(depth).unwrap_or(&self.directory);
        let tree = Tree::new().and_then(|tree| tree.fill(top, stream, chosen).map(|()| tree));
        let tree = tree.map_err(GitError::Temporary)?;
        let repository = self.place(&["rev-parse", "--absolute-git-dir"])?;
        let settings = conversions.settings(top);
        let call = |arguments: &[&str], input: Option<&[u8]>| {
            let mut git = git_in(&tree.files(), &settings, arguments);
            git.env("GIT_DIR", &repository).env("GIT_WORK_TREE", tree.files()).env("GIT_INDEX_FILE", tree.index());
            let output = output(git, input)?;
            if output.status.success() { Ok(output.stdout) } else { Err(failure(arguments[0], &output.stderr)) }
        };
        if let Some(commit) = &target.head {
            // Text that is stored with CR LF stays so.
            call(&["read-tree", commit], None)?;
        }
        let paths: Vec<&[u8]> = chosen.iter().map(|entry| &entry.path[..]).collect();
        call(&["update-index", "--add", "--replace", "-z", "--stdin"], Some(&paths.join(&0)))?;
        let listed = call(&["ls-files", "-s", "-z"], None)?;
        // "mode id stage<tab>path"
        let entry = |entry: &[u8]| {
            let at = entry.iter().position(|byte| *byte == b'\t')?;
            let id = std::str::from_utf8(&entry[..at]).ok()?.split(' ').nth(1)?.to_owned();
            Some((entry[at + 1..].to_vec(), id))
        };
        let stored: BTreeMap<_, _> = listed.split(|byte| *byte == 0).filter_map(entry).collect();
        match paths.into_iter().find(|path| !stored.contains_key(*path)) {
            None => Ok((stored, tree)),
            Some(path) => {
                let reason = format!("it has not stored {}", String::from_utf8_lossy(path));
                Err(GitError::Failed { call: "update-index".into(), reason: Some(reason) })
            }
        }
    }
}

impl Conversions {
    /// The files of a stream whose contents git may change.
    fn choose(&self, stream: &File, head: u64) -> io::Result<Vec<Entry>> {
        if self.paths.is_empty() {
            return Ok(Vec::new());
        }
        let mut chosen = Vec::new();
        for entry in entries(stream, head)? {
            let Some(converted) = self.paths.get(&entry.path).filter(|_| entry.is_file) else { continue };
            if converted.always
                || converted.with_crlf && has(stream, &entry, b"\r\n")?
                || converted.with_id && has(stream, &entry, b"$Id")?
            {
                chosen.push(entry);
            }
        }
        Ok(chosen)
    }

    /// Settings by which filters run in the real work tree.
    fn settings(&self, top: &Path) -> Vec<String> {
        let top = top.to_string_lossy().replace('\'', r"'\''");
        let setting = |(name, command): (&String, &String)| {
            // git replaces what follows a % in one of both.
            let top = if name.ends_with(".clean") { top.replace('%', "%%") } else { top.clone() };
            format!("{name}=cd '{top}' || exit 1; unset {UNSET}; {command}")
        };
        // git takes a name up to the first =.
        let settings = self.filters.iter().filter(|(name, _)| !name.contains('=')).map(setting);
        ["core.sparseCheckout=false".into(), "index.sparse=false".into()].into_iter().chain(settings).collect()
    }
}

/// A temporary work tree, and an index. Dropping it removes both.
struct Tree(TempDir);

impl Tree {
    fn new() -> io::Result<Self> {
        let place = tempfile::Builder::new().prefix("nacre-git-").tempdir()?;
        fs::create_dir(place.path().join("files"))?;
        Ok(Self(place))
    }

    fn files(&self) -> PathBuf {
        self.0.path().join("files")
    }

    fn index(&self) -> PathBuf {
        self.0.path().join("index")
    }

    /// Writes the contents, and copies the attributes for them.
    fn fill(&self, top: &Path, stream: &File, chosen: &[Entry]) -> io::Result<()> {
        let files = self.files();
        let (mut directories, mut made) = (BTreeSet::from([&b""[..]]), BTreeSet::new());
        let mut block = vec![0; BLOCK];
        for Entry { path, content, .. } in chosen {
            if path.split(|byte| *byte == b'/').any(|name| matches!(name, b"" | b"." | b".." | b".git")) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a path leads elsewhere"));
            }
            let ends = (0..path.len()).filter(|at| path[*at] == b'/');
            directories.extend(ends.map(|at| &path[..at]));
            let place = files.join(OsStr::from_bytes(path));
            if let Some(parent) = place.parent()
                && made.insert(parent.to_path_buf())
            {
                fs::create_dir_all(parent)?;
            }
            let mut file = File::options().write(true).create_new(true).open(place)?;
            let length = content.end - content.start;
            match block.get_mut(..length as usize) {
                Some(block) => {
                    stream.read_exact_at(block, content.start)?;
                    file.write_all(block)?;
                }
                // The kernel copies it.
                None => {
                    let mut from = stream;
                    from.seek(SeekFrom::Start(content.start))?;
                    io::copy(&mut from.take(length), &mut file)?;
                }
            }
            // An index entry of the same time would make git believe that it knows the content.
            file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)))?;
        }
        for directory in directories {
            let name = Path::new(OsStr::from_bytes(directory)).join(".gitattributes");
            if let Some(from) = attributes::open_attributes(&top.join(&name), OFlags::NOFOLLOW) {
                let mut to = File::options().write(true).create_new(true).open(files.join(name))?;
                io::copy(&mut from.take(MAX_ATTRIBUTES_BYTES), &mut to)?;
            }
        }
        Ok(())
    }
}

/// The failure of a call that may have run filters.
fn failure(call: &str, stderr: &[u8]) -> GitError {
    let reason = first_line(stderr);
    let text = String::from_utf8_lossy(&stderr[stderr.len().saturating_sub(BLOCK)..]);
    let fatal = text.lines().find_map(|line| line.strip_prefix("fatal: "));
    // "path: clean filter 'name' failed"
    let of_filter = |fatal: &str| {
        let (path, rest) = fatal.rsplit_once(": clean filter '")?;
        Some((path.to_owned(), rest.strip_suffix("' failed")?.to_owned()))
    };
    match fatal.and_then(of_filter) {
        Some((path, filter)) => GitError::Filter { path, filter, reason: reason.unwrap_or_default() },
        None => GitError::Failed { reason: fatal.map(str::to_owned).or(reason), call: call.into() },
    }
}

/// Whether a content has this text.
fn has(stream: &File, Entry { content, .. }: &Entry, text: &[u8]) -> io::Result<bool> {
    let mut block = vec![0; BLOCK.min((content.end - content.start) as usize)];
    let mut at = content.start;
    while at < content.end {
        let length = block.len().min((content.end - at) as usize);
        stream.read_exact_at(&mut block[..length], at)?;
        if memchr::memmem::find(&block[..length], text).is_some() {
            return Ok(true);
        }
        if at + length as u64 == content.end {
            break;
        }
        // It may begin in this block.
        at += (length + 1 - text.len()) as u64;
    }
    Ok(false)
}

/// Writes a stream with the ids of stored contents in the places of these.
fn replace(stream: &File, chosen: &[Entry], stored: &BTreeMap<Vec<u8>, String>, to: impl Write) -> io::Result<()> {
    let mut to = io::BufWriter::new(to);
    let mut at = 0;
    let copy = |from: u64, end: u64, to: &mut dyn Write| {
        let mut reader = stream;
        reader.seek(SeekFrom::Start(from))?;
        io::copy(&mut BufReader::new(reader.take(end - from)), to).map(drop)
    };
    for Entry { start, name, content, path, .. } in chosen {
        copy(at, *start, &mut to)?;
        let mut mode = [0; 6];
        stream.read_exact_at(&mut mode, start + 2)?;
        to.write_all(&[b"M ", &mode[..], b" ", stored[path].as_bytes(), b" "].concat())?;
        copy(name.start, name.end, &mut to)?;
        to.write_all(b"\n")?;
        // A newline follows the content.
        at = content.end + 1;
    }
    copy(at, stream.metadata()?.len(), &mut to)?;
    to.flush()
}
