//! The first that each client runs in a container of `openSandbox`, as root: prepares the container, and becomes the server.
//!
//! Commands of earlier clients have written to the container, and root has rights here that they must never get. So this
//! runs no program of the container but its Node.js, and only one that root alone can change. The runtime gets no variable of
//! the image under its name: several of them name files that it would load.

use crate::account::{self, Ids};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::HashSet;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why there is no server: an exit code, and what is printed. lib/engine/enter.ts has the codes too.
struct Refusal(i32, String);

const MOUNT_MISSING: i32 = 71;
const NO_ADDON: i32 = 72;
const NO_RUNTIME: i32 = 73;
const NO_BASH: i32 = 70;

/// The variable with the options of the sandbox.
const SETTINGS: &str = "NACRE_INSIDE";
/// What the names of the image's variables begin with for the server, which gives them to commands.
const IMAGE: &str = "NACRE_ENV_";

/// What names begin with that do not count: proof.ts has it too.
const MARKER: &[u8] = b".nacre-";

/// Where the programs of the image are when it does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Where only root writes.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// `--enter UID GID NAME [KIND PATH]...`: becomes the server. Exits with 2 for bad use.
///
/// The kind `own` is for directories that the container has for itself. The others say how a path is recognized that the
/// container shares with the machine.
pub fn run(words: &[OsString]) -> ! {
    let Refusal(code, text) = match Entering::parse(words) {
        Some(entry) => entry.enter().unwrap_err(),
        None => Refusal(2, "--enter is for openSandbox".into()),
    };
    eprintln!("{text}");
    std::process::exit(code);
}

struct Entering<'a> {
    user: Ids,
    name: &'a str,
    paths: Vec<(&'a OsStr, &'a Path)>,
}

impl<'a> Entering<'a> {
    fn parse(words: &'a [OsString]) -> Option<Self> {
        let [uid, gid, name, pairs @ ..] = words else { return None };
        let id = |word: &OsString| word.to_str()?.parse().ok();
        let paths = pairs.chunks(2).map(|pair| match pair {
            [kind, path] => Some((kind.as_os_str(), Path::new(path))),
            _ => None,
        });
        Some(Self {
            user: Ids { uid: id(uid)?, gid: id(gid)? },
            name: name.to_str()?,
            paths: paths.collect::<Option<_>>()?,
        })
    }

    fn enter(&self) -> Result<Infallible, Refusal> {
        // This process may come and go between two looks of the init.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(1), nix::sys::signal::Signal::SIGUSR1);
        let (own, shared): (Vec<_>, Vec<_>) = self.paths.iter().partition(|(kind, _)| *kind == "own");
        if let Some((_, path)) = shared.iter().find(|(proof, path)| !is_same(path, proof)) {
            return Err(Refusal(MOUNT_MISSING, path.display().to_string()));
        }
        let search = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
        let bash = programs(&search, "bash").next().ok_or_else(|| Refusal(NO_BASH, "there is no bash".into()))?;
        let paths: Vec<_> = self.paths.iter().map(|(_, path)| *path).collect();
        let home = account::home(self.user, self.name, &bash, &paths)
            .map_err(|error| Refusal(1, format!("the user has no account: {error}")))?;
        // New volumes belong to root.
        if self.user.uid != 0 {
            own.iter().for_each(|(_, directory)| drop(account::give(directory, self.user)));
        }
        become_server(&search, &home)
    }
}

/// Whether a path is the same as outside. Otherwise the engine has mounted what another machine has there, or an empty directory.
fn is_same(path: &Path, proof: &OsStr) -> bool {
    let proof = proof.as_bytes();
    if let Some(name) = proof.strip_prefix(b"has=") {
        return path.join(OsStr::from_bytes(name)).symlink_metadata().is_ok();
    }
    match proof.strip_prefix(b"names=") {
        Some(names) => std::str::from_utf8(names).is_ok_and(|names| has_most(path, names)),
        None => proof == b"file" && path.metadata().is_ok_and(|found| !found.is_dir()),
    }
}

/// Whether a directory has most of the names with these hashes: others may come and go just then.
fn has_most(directory: &Path, wanted: &str) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    let names = entries.flatten().map(|entry| entry.file_name());
    let found: HashSet<_> = names.filter(|name| !name.as_bytes().starts_with(MARKER)).map(|name| hash(&name)).collect();
    let wanted: Vec<_> = wanted.split(',').filter(|hash| !hash.is_empty()).collect();
    let count = wanted.iter().filter(|hash| found.contains(**hash)).count();
    if wanted.is_empty() { found.is_empty() } else { count * 2 >= wanted.len() }
}

/// FNV-1a, as proof.ts computes it.
fn hash(name: &OsStr) -> String {
    let bytes = name.as_bytes().iter();
    format!("{:x}", bytes.fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)))
}

/// The programs of a name in the directories of a search path, without relative ones.
pub fn programs(search: &OsStr, name: &str) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(search)
        .filter(|directory| directory.is_absolute())
        .map(move |directory| directory.join(name))
        .filter(|file| file.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0))
}

/// The real path of a file, if root alone can change the file and what leads to it.
///
/// A mounted directory does not count, whatever its owner: engines of a Mac show root as the owner of what a user can write.
fn trusted(file: &Path) -> Option<PathBuf> {
    let file = file.canonicalize().ok()?;
    let image = Path::new("/").metadata().ok()?.dev();
    let mount = mount_of(Path::new("/"))?;
    let is_trusted = |at: &Path| {
        at.metadata().is_ok_and(|found| {
            // Files can have the device of the layer that they are in.
            let is_of_image = mount_of(at) == Some(mount) && (!found.is_dir() || found.dev() == image);
            found.uid() == 0 && found.mode() & 0o022 == 0 && is_of_image
        })
    };
    file.ancestors().all(is_trusted).then_some(file)
}

/// The number of the mount that has a file. 0 before Linux 5.8.
fn mount_of(file: &Path) -> Option<u64> {
    statx(CWD, file, AtFlags::empty(), StatxFlags::MNT_ID).map(|found| found.stx_mnt_id).ok()
}

/// The addon must be built for the C library of the runtime, which is that of the image.
fn libc_name() -> &'static str {
    let has = |directory: &str, loader: &str| {
        fs::read_dir(directory).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.file_name().as_bytes().starts_with(loader.as_bytes()))
        })
    };
    let is_gnu = ["/lib", "/lib64"].iter().any(|directory| has(directory, "ld-linux"));
    if !is_gnu && has("/lib", "ld-musl-") { "musl" } else { "gnu" }
}

fn become_server(search: &OsStr, home: &Path) -> Result<Infallible, Refusal> {
    let libc = libc_name();
    let files = std::env::current_exe().ok().and_then(|file| Some(file.parent()?.to_path_buf())).unwrap_or_default();
    let addon = files.join(libc);
    if !addon.is_dir() {
        return Err(Refusal(NO_ADDON, libc.into()));
    }
    let node = programs(search, "node").filter_map(|file| trusted(&file)).find(|file| is_recent(file));
    let bun = files.join(format!("bun-{libc}"));
    let runtime = node.or_else(|| bun.is_file().then_some(bun)).ok_or_else(|| Refusal(NO_RUNTIME, libc.into()))?;
    let image = std::env::vars_os().filter(|(name, _)| name != SETTINGS).map(|(name, value)| {
        let mut renamed = OsString::from(IMAGE);
        renamed.push(name);
        (renamed, value)
    });
    let error = bare(&runtime)
        .arg(files.join("inside.mjs"))
        // It reads settings in its home directory, and commands must not be able to write there.
        .env("HOME", &files)
        .env("BUN_RUNTIME_TRANSPILER_CACHE_PATH", "0")
        .env("NACRE_NATIVE_PATH", addon)
        .env("NACRE_HOME", home)
        .env(SETTINGS, std::env::var_os(SETTINGS).unwrap_or_default())
        .envs(image)
        .exec();
    Err(Refusal(NO_RUNTIME, format!("{}: {error}\n{libc}", runtime.display())))
}

/// A command that finds nothing of the project, and nothing that the image's variables name.
fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", SYSTEM_PATH).current_dir("/");
    command
}

/// Whether a Node.js can run the server.
fn is_recent(node: &Path) -> bool {
    let output = bare(node).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    is_recent_version(&String::from_utf8_lossy(&output))
}

fn is_recent_version(version: &str) -> bool {
    let mut numbers = version.strip_prefix('v').unwrap_or("").split('.').map_while(|part| part.parse::<u32>().ok());
    matches!((numbers.next(), numbers.next()), (Some(20), Some(19..)) | (Some(22), Some(3..)) | (Some(23..), Some(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn knows_the_versions_of_node_that_can_run_the_server() {
        for version in ["v20.19.0\n", "v22.3.0", "v23.0.0", "v24.11.1-nightly"] {
            assert!(is_recent_version(version), "{version}");
        }
        for version in ["", "v18.20.0", "v20.18.3", "v21.7.0", "v22.2.0", "22.12.0", "v22"] {
            assert!(!is_recent_version(version), "{version}");
        }
    }

    #[test]
    fn recognizes_a_directory_by_any_names() {
        let place = tempfile::tempdir().unwrap();
        let is_same = |path: &Path, proof: &str| is_same(path, OsStr::new(proof));
        assert!(is_same(place.path(), "names=") && !is_same(place.path(), "names=1"));
        for name in [&b"a\nb"[..], "ü".as_bytes(), b"\xff", b".nacre-0123"] {
            fs::write(place.path().join(OsStr::from_bytes(name)), "").unwrap();
        }
        // proof.test.ts expects the same.
        assert!(is_same(place.path(), "names=28e4c710,119dd44a,7a0b824e") && is_same(place.path(), "has=.nacre-0123"));
        assert!(is_same(place.path(), "names=28e4c710,1") && !is_same(place.path(), "names=28e4c710,1,2"));
        assert!(!is_same(place.path(), "names=") && !is_same(place.path(), "has=other"));
        assert!(!is_same(place.path(), "file") && is_same(&place.path().join("ü"), "file"));
        assert!(!is_same(Path::new("/proc/does/not/exist"), "names="));
    }

    #[test]
    fn trusts_no_file_that_others_than_root_can_change() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("node");
        fs::write(&file, "").unwrap();
        // Everybody can write in the directory above.
        assert_eq!(trusted(&file), None);
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/usr/bin/env", &link).unwrap();
        let real = Path::new("/usr/bin/env").canonicalize().unwrap();
        let is_image = nix::unistd::geteuid().is_root()
            && Path::new("/").metadata().unwrap().uid() == 0
            && mount_of(&real) == mount_of(Path::new("/"));
        assert_eq!(trusted(&link), is_image.then_some(real));
        fs::set_permissions(&file, Permissions::from_mode(0o757)).unwrap();
        assert_eq!(programs(place.path().as_os_str(), "node").collect::<Vec<_>>(), [file]);
        assert_eq!(programs(OsStr::new("relative:"), "node").next(), None);
    }
}
