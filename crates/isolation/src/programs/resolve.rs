//! Finds the executables of programs when a session begins.

use super::{has_one_name, identity};
use crate::mount_table::MountTable;
use crate::network::PROXY_PORT;
use crate::paths::open_regular;
use crate::view::SHARED_MEMORY;
use nacre_protocol::confinement::{Confinement, KnownFile, KnownProgram, KnownPrograms, PRIVATE_TMP};
use nacre_protocol::standing::RunAs;
use rustix::fs::fstat;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Maximum headers of an executable, and bytes of the name of its loader. Those of the machine have about a dozen.
const MAX_HEADERS: u16 = 128;
const MAX_NAME: u64 = 4096;

/// Where git has the programs that connect for it, next to the directory of the program.
const HELPERS_OF_GIT: [&str; 4] = [
    "../lib/git-core/git-remote-http",
    "../lib/git-core/git-remote-https",
    "../libexec/git-core/git-remote-http",
    "../libexec/git-core/git-remote-https",
];

/// A program, as the rules name it.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// Its name, or the path of its executable.
    pub name: &'a str,
    /// Its executables. None: the one that the name leads to.
    pub files: &'a [PathBuf],
}

/// Finds the executables of programs. `shared`: trees in which other sessions can write. `path`: the variable PATH of the session.
/// `user`: that of its programs.
///
/// # Errors
/// A sentence about the first program of which the session could take the place.
pub fn resolve(
    programs: &[Program<'_>],
    confinement: &Confinement,
    mounts: &MountTable,
    shared: &[PathBuf],
    path: Option<&OsStr>,
    user: &RunAs,
) -> Result<KnownPrograms, String> {
    let changeable = changeable(confinement, mounts, shared);
    let mut known: Vec<KnownProgram> = Vec::new();
    for (order, program) in programs.iter().enumerate() {
        let mut files: Vec<KnownFile> = Vec::new();
        for file in executables(program, path)? {
            let found = look(&file, confinement, &changeable, user)
                .map_err(|reason| format!("'{}' of {} {reason}", file.display(), program.name))?;
            if known.iter().any(|other| other.files.contains(&found)) {
                return Err(format!("'{}' belongs to two programs: name it in one of them", file.display()));
            }
            if !files.contains(&found) {
                files.push(found);
            }
        }
        known.push(KnownProgram { port: PROXY_PORT + 1 + order as u16, files });
    }
    Ok(KnownPrograms { programs: known, changeable })
}

/// Where programs can change files, by all names. What is protected there does not count: it could be anything before.
fn changeable(confinement: &Confinement, mounts: &MountTable, shared: &[PathBuf]) -> Vec<PathBuf> {
    let rules = confinement.filesystem.as_ref();
    let write = rules.map_or_else(|| vec!["/".into()], |rules| rules.write.clone());
    let sources = rules.iter().flat_map(|rules| &rules.mounts).map(|mount| mount.source.clone());
    let caches = confinement.caches.iter().map(|caches| caches.files.clone());
    let machine: Vec<PathBuf> = write.into_iter().chain(sources).chain(caches).chain(shared.to_vec()).collect();
    let targets = rules.iter().flat_map(|rules| &rules.mounts).map(|mount| mount.target.clone());
    let private = [confinement.temporary.clone(), PRIVATE_TMP.into(), SHARED_MEMORY.into()];
    mounts.with_aliases(&machine).into_iter().chain(targets).chain(private).collect()
}

/// The executables of a program, without links.
fn executables(program: &Program<'_>, path: Option<&OsStr>) -> Result<Vec<PathBuf>, String> {
    let missing = |file: &Path| format!("there is no file '{}' for {}", file.display(), program.name);
    let real = |file: &Path| file.canonicalize().map_err(|_| missing(file));
    if !program.files.is_empty() {
        return program.files.iter().map(|file| real(file)).collect();
    }
    if program.name.starts_with('/') {
        return Ok(vec![real(Path::new(program.name))?]);
    }
    let found = std::env::split_paths(path.unwrap_or_default())
        .map(|directory| directory.join(program.name))
        .find(|file| file.is_absolute() && is_executable(file))
        .ok_or_else(|| {
            format!(
                "{0} is not on the PATH: install it, or name its files, like {{ files: ['/usr/bin/{0}'] }}",
                program.name
            )
        })?;
    let file = real(&found)?;
    let helpers = if program.name == "git" { &HELPERS_OF_GIT[..] } else { &[] };
    let directory = file.parent().unwrap_or(Path::new("/")).to_path_buf();
    let helpers = helpers.iter().filter_map(|helper| directory.join(helper).canonicalize().ok());
    Ok([file].into_iter().chain(helpers).collect())
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// What identifies an executable, or the rest of a sentence about why nothing does.
fn look(file: &Path, confinement: &Confinement, changeable: &[PathBuf], user: &RunAs) -> Result<KnownFile, String> {
    let writable = |path: &Path| changeable.iter().find(|root| path.starts_with(root));
    if let Some(root) = writable(file) {
        return Err(format!(
            "is below '{}', where programs of the sandbox can write: install it elsewhere, or narrow isolation.filesystem.write",
            root.display()
        ));
    }
    let unreadable = |error: io::Error| format!("cannot be read: {error}");
    let opened = open_regular(file).map_err(unreadable)?.ok_or("is not a file: name an executable")?;
    let found = fstat(&opened).map_err(|error| unreadable(error.into()))?;
    if !has_one_name(&found, user) {
        return Err("has another name (it is a hard link), by which programs of the session could write to it: install a copy of it, or \
                    run the sandbox as another user"
            .into());
    }
    if std::fs::metadata(&confinement.shell).is_ok_and(|shell| is_same(&shell, &found)) {
        return Err("is the session's shell, which runs any command: name the programs that it starts".into());
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with("ld-") || name.starts_with("ld.so") || name.starts_with("ld64") {
        return Err("is the loader, which runs any program: name a program".into());
    }
    if name.starts_with("busybox") || name.starts_with("toybox") {
        return Err("is many programs, also a shell, which runs any command: install the program itself".into());
    }
    if let Some(loader) = loader_of(&opened).map_err(unreadable)?? {
        let real = loader.canonicalize().map_err(unreadable)?;
        if !loader.is_absolute() || writable(&real).is_some() {
            return Err(format!("is loaded by '{}', which programs of the session can replace", loader.display()));
        }
        let name = loader.file_name().unwrap_or_default().to_string_lossy();
        if !(name.starts_with("ld-linux") || name.starts_with("ld64")) {
            return Err(format!(
                "is loaded by '{}', whose libraries nacre does not check: only glibc's are. Name a static program",
                loader.display()
            ));
        }
    }
    Ok(identity(file, &found))
}

fn is_same(one: &std::fs::Metadata, other: &rustix::fs::Stat) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.st_dev, other.st_ino)
}

/// The loader of an executable of ELF; none if it is static. The inner error is the rest of a sentence.
fn loader_of(file: &File) -> io::Result<Result<Option<PathBuf>, String>> {
    const EXECUTABLE: &[u8] = b"\x7fELF\x02\x01";
    const PT_INTERP: u32 = 3;
    let mut head = [0; 64];
    let length = file.read_at(&mut head, 0)?;
    if head.starts_with(b"#!") {
        return Ok(Err("is a script, which any program can pass to its interpreter: name a compiled program".into()));
    }
    if length < head.len() || !head.starts_with(EXECUTABLE) {
        return Ok(Err("is not a program of this machine (ELF of 64 bits): name a compiled program".into()));
    }
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let start = number(&head, 32).ok_or_else(broken)?;
    let [size, count] = [54, 56].map(|at| u16::from_le_bytes([head[at], head[at + 1]]));
    if size < 56 || count > MAX_HEADERS {
        return Err(broken());
    }
    for order in 0..u64::from(count) {
        let mut header = [0; 56];
        let place = start.checked_add(order * u64::from(size)).ok_or_else(broken)?;
        file.read_exact_at(&mut header, place)?;
        if u32::from_le_bytes([header[0], header[1], header[2], header[3]]) != PT_INTERP {
            continue;
        }
        let [offset, length] = [8, 32].map(|at| number(&header, at));
        let (offset, length) = (offset.ok_or_else(broken)?, length.filter(|length| (1..=MAX_NAME).contains(length)));
        let mut name = vec![0; length.ok_or_else(broken)? as usize];
        file.read_exact_at(&mut name, offset)?;
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
        return Ok(Ok(Some(PathBuf::from(OsString::from_vec(name)))));
    }
    Ok(Ok(None))
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
