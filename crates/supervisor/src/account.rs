//! The user of commands in a container: an account, without which many tools fail, and a home directory.

use rustix::fs::{FlockOperation, flock};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PASSWD: &str = "/etc/passwd";
/// The lock of programs that change it. Only root can open it, so commands cannot hold it.
const LOCK: &str = "/etc/.pwd.lock";
const HOMES: &str = "/home";
/// Where homes are that can be nowhere else. Nothing of the machine is mounted there, and only root writes there.
const OWN_HOMES: &str = "/var/lib/nacre/homes";

/// The ids of the user that commands run as.
#[derive(Clone, Copy)]
pub struct Ids {
    pub uid: u32,
    pub gid: u32,
}

/// Returns the user's home directory. Adds what is missing: the account, with a name like `wanted`, and the directory.
///
/// A home that contains one of the `shared` paths, or is in one, is replaced: with isolation, commands may write their home.
pub fn home(ids: Ids, wanted: &str, shell: &Path, shared: &[&Path]) -> io::Result<PathBuf> {
    let Ids { uid, gid } = ids;
    let is_apart = |home: &Path| is_apart(home, shared) && is_apart(&real(home), shared);
    let own = Path::new(OWN_HOMES).join(uid.to_string());
    if uid == 0 {
        let home = Some(PathBuf::from("/root")).filter(|home| is_apart(home)).unwrap_or(own);
        make(&home, ids)?;
        return Ok(home);
    }
    // Several clients may enter at once. The lock ends with its file.
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(LOCK)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(PASSWD)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let accounts = String::from_utf8_lossy(&text);
    let home = match home_of(uid, &accounts) {
        Some(home) if is_apart(home) => home.into(),
        Some(_) => own,
        None => {
            let groups = fs::read(GROUPS).unwrap_or_default();
            let exists = |name: &str| Path::new(HOMES).join(name).symlink_metadata().is_ok();
            let name = free_name(wanted, uid, &accounts, &String::from_utf8_lossy(&groups), exists);
            let home = Some(Path::new(HOMES).join(&name)).filter(|home| is_apart(home)).unwrap_or(own);
            let end = if text.last().is_none_or(|last| *last == b'\n') { "" } else { "\n" };
            let entry = format!("{end}{name}:x:{uid}:{gid}::{}:{}\n", home.display(), shell.display());
            file.write_all(entry.as_bytes())?;
            home
        }
    };
    make(&home, ids)?;
    Ok(home)
}

const GROUPS: &str = "/etc/group";

fn home_of(uid: u32, accounts: &str) -> Option<&Path> {
    let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut own = fields.filter(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(uid));
    own.next().map(|fields| Path::new(*fields.get(5).unwrap_or(&"")))
}

/// Where a path leads, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|at| Some((at.canonicalize().ok()?, path.strip_prefix(at).ok()?)));
    known.map_or_else(|| path.into(), |(real, rest)| real.join(rest))
}

fn is_apart(home: &Path, shared: &[&Path]) -> bool {
    home.is_absolute()
        && home != Path::new("/")
        && !shared.iter().any(|path| path.starts_with(home) || home.starts_with(path))
}

/// A name that gives the user neither the directory nor the groups of another account: groups list their members by name.
fn free_name(wanted: &str, uid: u32, accounts: &str, groups: &str, exists: impl Fn(&str) -> bool) -> String {
    let is_account = |name: &str| accounts.lines().any(|line| line.split(':').next() == Some(name));
    let is_member = |name: &str| {
        let mut lists = groups.lines().filter_map(|line| line.split(':').nth(3));
        lists.any(|members| members.split(',').any(|member| member == name))
    };
    let mut name = wanted.to_string();
    let mut numbers = uid..;
    while is_account(&name) || is_member(&name) || exists(&name) {
        let Some(number) = numbers.next() else { break };
        name = format!("{wanted}-{number}");
    }
    name
}

fn make(home: &Path, ids: Ids) -> io::Result<()> {
    if home.is_dir() {
        return Ok(());
    }
    let parent = home.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)?;
    let home = parent.canonicalize()?.join(home.file_name().unwrap_or(OsStr::new("")));
    fs::create_dir(&home)?;
    give(&home, ids)
}

/// Makes the user the owner of a directory, if root is, and no program of the container has put a link on the way.
pub fn give(directory: &Path, Ids { uid, gid }: Ids) -> io::Result<()> {
    std::env::set_current_dir(directory)?;
    if std::env::current_dir()? == directory && Path::new(".").metadata()?.uid() == 0 {
        std::os::unix::fs::chown(".", Some(uid), Some(gid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "root:x:0:0:root:/root:/bin/bash\nnode:x:1000:1000::/home/node:/bin/bash\nodd:x:1001:1001\n";
    const GROUPS: &str = "root:x:0:\nadm:x:4:syslog,ubuntu\nbroken\n";

    #[test]
    fn finds_the_home_of_an_account_of_the_image() {
        let found = |uid| home_of(uid, ACCOUNTS);
        assert_eq!((found(1000), found(501)), (Some(Path::new("/home/node")), None));
        assert_eq!(found(1001), Some(Path::new("")));
    }

    #[test]
    fn a_new_account_has_a_name_of_its_own() {
        let name = |wanted| free_name(wanted, 501, ACCOUNTS, GROUPS, |name| name == "me" || name == "me-501");
        assert_eq!(["you", "node", "ubuntu", "me"].map(name), ["you", "node-501", "ubuntu-501", "me-502"]);
    }

    #[test]
    fn knows_where_a_missing_home_would_be() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(&top, top.join("link")).unwrap();
        assert_eq!(real(&top.join("link/a/b")), top.join("a/b"));
    }

    #[test]
    fn a_home_has_nothing_of_the_machine() {
        let shared = [Path::new("/home/me/project"), Path::new("/data")];
        for home in ["", "/", "home/you", "/home/me", "/home/me/project", "/data/home"] {
            assert!(!is_apart(Path::new(home), &shared), "{home}");
        }
        for home in ["/home/me2", "/home/me/other", "/dat"] {
            assert!(is_apart(Path::new(home), &shared), "{home}");
        }
    }
}
