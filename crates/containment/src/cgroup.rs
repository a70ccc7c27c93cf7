//! Control groups, version 2: sets of processes that no process can leave, killed by one write.
//!
//! Only the core files are used here (`cgroup.procs`, `cgroup.kill`, Linux 5.14; `cgroup.freeze`, Linux 5.2); no controller has to be enabled, so
//! it works in the `unified` part of a hybrid layout too. Rules: Documentation/admin-guide/cgroup-v2.rst.

use crate::job::lock;
use crate::mount_table::{self, Mounted};
use crate::pid::Pid;
use crate::proc_table::{numbers, read_file, read_pids};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One control group, named by its directory. Dropping it removes nothing; see [`Group::remove`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Wraps an existing group.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Creates the group `name` inside `parent`.
    pub fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        permitted(parent, || fs::create_dir(&path))?;
        Ok(Self { path })
    }

    /// The group's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps other programs from removing the group as a leftover, until the file is closed.
    ///
    /// # Errors
    /// Those of flock(2).
    pub fn hold(&self) -> io::Result<Option<fs::File>> {
        permitted(&self.path, || lock::take(&self.path))
    }

    /// Opens the directory, in which a child can be born (`CLONE_INTO_CGROUP`).
    pub fn open(&self) -> io::Result<fs::File> {
        permitted(&self.path, || fs::File::open(&self.path))
    }

    /// Moves a process into this group. Its future children start here; its present children stay where they are.
    pub fn add(&self, pid: Pid) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Lists the processes in this group itself, without zombies.
    pub fn members(&self) -> io::Result<Vec<Pid>> {
        permitted(&self.path, || read_pids(self.path.join("cgroup.procs")))
    }

    /// Like [`Group::members`]; `None` if the group does not exist.
    ///
    /// # Errors
    /// `EMFILE` and the like: there may be processes.
    pub fn members_if_any(&self) -> io::Result<Option<Vec<Pid>>> {
        match self.members() {
            Err(error) if is_gone(&error) => Ok(None),
            // A command may have made it threaded: then the group above lists its processes, too.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Some(Vec::new())),
            members => members.map(Some),
        }
    }

    /// Lists the processes in this group and in the groups below it. Groups that do not exist have none.
    pub fn members_below(&self) -> io::Result<Vec<Pid>> {
        Ok(self.members_below_if_any()?.unwrap_or_default())
    }

    /// Like [`Group::members_below`]; `None` if the group does not exist.
    ///
    /// # Errors
    /// `EMFILE` and the like: there may be processes.
    pub fn members_below_if_any(&self) -> io::Result<Option<Vec<Pid>>> {
        let Some(mut found) = self.members_if_any()? else { return Ok(None) };
        // Nearly always there are none, and one look at the directory shows that.
        if self.has_inner() {
            for inner in self.inner().or_else(|error| if is_gone(&error) { Ok(Vec::new()) } else { Err(error) })? {
                found.extend(inner.members_below()?);
            }
        }
        Ok(Some(found))
    }

    /// Whether there are groups inside this one: each is a link to its directory.
    fn has_inner(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|group| group.nlink() > 2)
    }

    /// Processor time of everything that was ever in this group or below. `None` if the group is gone.
    pub fn cpu_time(&self) -> Option<Duration> {
        let text = read_file(self.path.join("cpu.stat")).ok()?;
        numbers(&text, "usage_usec").first().map(|used| Duration::from_micros(*used))
    }

    /// Sends SIGKILL to every process in this group and below, atomically against forks.
    pub fn kill(&self) -> io::Result<()> {
        self.write("cgroup.kill", "1")
    }

    /// Freezes every process in this group and below, or thaws them. [`Group::is_frozen`] shows when the last one has
    /// stopped. A frozen process handles no signal until it is thawed, except SIGKILL.
    pub fn set_frozen(&self, frozen: bool) -> io::Result<()> {
        self.write("cgroup.freeze", if frozen { "1" } else { "0" })
    }

    /// Writes to a file of the group.
    pub(crate) fn write(&self, name: &str, text: &str) -> io::Result<()> {
        permitted(&self.path, || fs::write(self.path.join(name), text))
    }

    /// Reads a file of the group.
    pub(crate) fn read(&self, name: &str) -> io::Result<String> {
        permitted(&self.path, || fs::read_to_string(self.path.join(name)))
    }

    /// True once every process in this group and below has stopped. A group that does not exist has none.
    pub fn is_frozen(&self) -> io::Result<bool> {
        match self.read("cgroup.events") {
            Err(error) if is_gone(&error) => Ok(true),
            events => Ok(events?.lines().any(|line| line == "frozen 1")),
        }
    }

    /// A file whose descriptor has an exceptional condition, for poll(2), once the first process has come into this group
    /// or one below, the last has left, or the group was frozen or thawed, since [`note_change`].
    pub fn changes(&self) -> io::Result<fs::File> {
        permitted(&self.path, || fs::File::open(self.path.join("cgroup.events")))
    }

    /// The groups inside this one, without those inside them.
    pub fn inner(&self) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in permitted(&self.path, || fs::read_dir(&self.path))? {
            let entry = entry?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(Self::at(entry.path()));
            }
        }
        Ok(found)
    }

    /// Removes this group if it is empty and has no groups below it.
    pub fn remove_alone(&self) -> io::Result<()> {
        match permitted(&self.path, || fs::remove_dir(&self.path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Removes this group and the groups below it if no process is in any of them. A command may have made these, and a
    /// program that still uses them has a process there.
    pub fn remove_empty(&self) -> io::Result<()> {
        match self.remove_alone() {
            Err(_) if self.has_inner() && self.members_below()?.is_empty() => self.remove(),
            other => other,
        }
    }

    /// Kills what is in this group and below, and removes the groups, unless that takes longer than half a second.
    pub fn end(&self) {
        let give_up = Instant::now() + EMPTYING;
        while self.kill().and_then(|()| self.remove()).is_err() && self.path.exists() && Instant::now() < give_up {
            std::thread::sleep(LOOK);
        }
    }

    /// Removes this group and the groups below it. Fails with `EBUSY` while a process is left in any of them.
    pub fn remove(&self) -> io::Result<()> {
        self.inner().unwrap_or_default().iter().try_for_each(Self::remove)?;
        self.remove_alone()
    }
}

/// Does something with a group again if a command has taken the permissions for it away.
fn permitted<T>(group: &Path, action: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match action() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            restore_permissions(group);
            action()
        }
        outcome => outcome,
    }
}

/// Gives this user the permissions back that a command has taken away: its user is the owner of the group. Those of the
/// groups above matter, too, since the kernel moves no process without those of a common one. The host and the supervisor may
/// do this at the same time.
pub fn restore_permissions(group: &Path) {
    let mut above: Vec<_> = group.ancestors().collect();
    above.reverse();
    for directory in above.into_iter().filter(|path| is_cgroup2(path)) {
        permit(directory, 0o700);
        FILES.iter().for_each(|(name, permissions)| permit(&directory.join(name), *permissions));
    }
}

/// The files that are used here, and the permissions for them.
const FILES: [(&str, u32); 7] = [
    ("cgroup.procs", 0o600),
    ("cgroup.kill", 0o200),
    ("cgroup.freeze", 0o600),
    ("cgroup.subtree_control", 0o600),
    ("cgroup.events", 0o400),
    ("cgroup.controllers", 0o400),
    ("memory.events", 0o400),
];

/// Gives the owner of a file these permissions, too.
fn permit(path: &Path, permissions: u32) {
    let Ok(mode) = fs::metadata(path).map(|found| found.mode()) else { return };
    if mode & permissions != permissions {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode | permissions));
    }
}

/// Reads a file of [`Group::changes`]: only later changes show from now on.
pub fn note_change(changes: &fs::File) -> io::Result<()> {
    changes.read_at(&mut [0; 64], 0).map(drop)
}

/// The group was removed, perhaps after its file was opened.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// The name of a sandbox's group, which contains the groups of its sessions.
///
/// Such a group exists only for limits that the sessions share.
pub fn name_of_sandbox(unique: &str) -> String {
    format!("nacre-sandbox-{unique}")
}

/// True when a directory is the group of a sandbox.
pub fn is_of_sandbox(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"nacre-sandbox-"))
}

/// The directory of this process's own group, in which it may create groups, when version 2 is mounted.
pub fn own_directory() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let directory = mount_table::of_this_process().ok()?.iter().find_map(|mount| directory_under(mount, path))?;
    is_cgroup2(&directory).then_some(directory)
}

/// Why control groups cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel has no version 2 hierarchy, or it is not mounted.
    #[error("no cgroup v2 hierarchy is mounted")]
    NotMounted,
    /// The probe's group cannot be created.
    #[error("no group can be made in {}: {error}", directory.display())]
    Create {
        /// The parent.
        directory: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The probe's group cannot be removed.
    #[error("a group cannot be removed again: {0}")]
    Remove(io::Error),
    /// The kernel cannot kill a group.
    #[error("cgroup.kill is missing (Linux before 5.14)")]
    NoKill,
}

/// Finds the directory in which groups can be created, or the reason why there is none. Tries it with an empty group.
///
/// Groups are created next to this process's own group when controllers are enabled there. Below a group that holds
/// processes, as this one does, the kernel enables none.
pub fn probe() -> Result<PathBuf, ProbeError> {
    let own = own_directory().ok_or(ProbeError::NotMounted)?;
    match above(&own).filter(|directory| hands_down_limits(directory)).map(try_directory) {
        Some(Ok(directory)) => Ok(directory),
        _ => try_directory(&own),
    }
}

/// The group above, if this process sees it.
fn above(group: &Path) -> Option<&Path> {
    group.parent().filter(|directory| is_cgroup2(directory))
}

fn hands_down_limits(directory: &Path) -> bool {
    let enabled = fs::read_to_string(directory.join("cgroup.subtree_control")).unwrap_or_default();
    enabled.split_ascii_whitespace().any(|name| ["memory", "pids", "cpu"].contains(&name))
}

fn try_directory(directory: &Path) -> Result<PathBuf, ProbeError> {
    static TRIES: AtomicU64 = AtomicU64::new(0);
    clear_leftovers(directory);
    // Unique: also not used by an earlier process with this pid.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("{PROBE}{}-{now}-{}", std::process::id(), TRIES.fetch_add(1, Ordering::Relaxed));
    let group = Group::create(directory, &name)
        .map_err(|error| ProbeError::Create { directory: directory.to_path_buf(), error })?;
    let kill = group.path().join("cgroup.kill").exists();
    group.remove().map_err(ProbeError::Remove)?;
    if kill { Ok(directory.to_path_buf()) } else { Err(ProbeError::NoKill) }
}

/// Prefix of the empty groups that [`probe`] creates.
const PROBE: &str = "nacre-probe-";

/// Prefix of all groups that are not inside another one of these.
const OWN: &str = "nacre-";

/// A new group is held, or has a process, much sooner.
const OLD: Duration = Duration::from_secs(10);

/// How long a killed process may take to leave its group.
const EMPTYING: Duration = Duration::from_millis(500);

/// The time between two looks at that.
const LOOK: Duration = Duration::from_millis(1);

/// Removes empty groups whose owners were killed: a host and its supervisors may die together, with their pid
/// namespace. An owner whose group may be empty holds it ([`Group::hold`]), also in other pid namespaces.
fn clear_leftovers(directory: &Path) {
    for (_, group) in own_groups(directory) {
        let made = fs::metadata(group.path()).and_then(|info| info.modified());
        let is_old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > OLD));
        if let (true, Ok(Some(_lock))) = (is_old, group.hold()) {
            let _ = group.remove();
        }
    }
}

/// Kills what programs that have ended have left in their groups, and removes the groups, however young they are. A part of
/// a group's name is that of its program. A supervisor that lives on holds its group, and removes it.
pub fn end_leftovers(is_ended: impl Fn(&str) -> bool) {
    let own = own_directory();
    // Of a supervisor that is just ending, for all groups together.
    let give_up = Instant::now() + EMPTYING;
    for directory in own.iter().flat_map(|own| [Some(&**own), above(own)]).flatten() {
        for (_, group) in own_groups(directory).filter(|(name, _)| name.split('-').any(&is_ended)) {
            let mut hold = group.hold();
            while matches!(hold, Ok(None)) && Instant::now() < give_up {
                std::thread::sleep(LOOK);
                hold = group.hold();
            }
            if let Ok(Some(_lock)) = hold {
                group.end();
            }
        }
    }
}

/// The groups in a directory that nacre has made.
fn own_groups(directory: &Path) -> impl Iterator<Item = (String, Group)> {
    let names = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let directory = directory.to_path_buf();
    names.filter(|name| name.starts_with(OWN)).map(move |name| {
        let group = Group::at(directory.join(&name));
        (name, group)
    })
}

/// Maps the group path from `/proc/self/cgroup` through a mount.
fn directory_under(mount: &Mounted, path: &str) -> Option<PathBuf> {
    let below = Path::new(path).strip_prefix(&mount.root).ok().filter(|_| mount.kind == b"cgroup2")?;
    Some(mount.place.join(below))
}

fn is_cgroup2(directory: &Path) -> bool {
    statfs(directory).is_ok_and(|info| info.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_directory_in_pure_hybrid_and_namespaced_layouts() {
        let under = |line: &str, path| directory_under(&mount_table::parse(line.as_bytes()).unwrap(), path);
        let pure = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(under(pure, "/user/a"), Some("/sys/fs/cgroup/user/a".into()));
        let hybrid = "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        assert_eq!(under(hybrid, "/"), Some("/sys/fs/cgroup/unified/".into()));
        let container = "99 80 0:26 /docker/x /sys/fs/cg\\040roup ro - cgroup2 cgroup rw";
        assert_eq!(under(container, "/docker/x/y"), Some("/sys/fs/cg roup/y".into()));
        assert_eq!(under(container, "/elsewhere"), None);
        assert_eq!(under("1 2 0:3 / /proc rw - proc proc rw", "/"), None);
    }

    #[test]
    fn what_a_command_forbids_is_permitted_again() {
        let Ok(directory) = probe() else { return };
        let place = Group::create(&directory, &format!("rights-test-{}", std::process::id())).unwrap();
        let [from, to] = ["from", "to"].map(|name| Group::create(place.path(), name).unwrap());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::new(child.id() as i32).unwrap();
        from.add(pid).unwrap();
        let user = rustix::thread::Uid::from_raw(65534);
        let is_root = rustix::process::geteuid().is_root();
        let mut paths = Vec::new();
        for group in [&place, &from, &to] {
            paths.extend(fs::read_dir(group.path()).unwrap().map(|entry| entry.unwrap().path()));
        }
        paths.insert(0, place.path().into());
        if is_root {
            paths.iter().for_each(|path| std::os::unix::fs::chown(path, Some(65534), None).unwrap());
        }
        let groups = [place.clone(), from.clone(), to.clone()];
        let act = move || {
            if is_root {
                // Of this thread: root may do everything.
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            let [place, from, to] = &groups;
            let actions: [(&str, &dyn Fn() -> io::Result<()>); 9] = [
                ("move", &|| to.add(pid)),
                ("freeze", &|| place.set_frozen(true)),
                ("look", &|| place.is_frozen().map(drop)),
                ("thaw", &|| place.set_frozen(false)),
                ("watch", &|| to.changes().map(drop)),
                ("list", &|| place.members_below().map(|found| assert_eq!(found, [pid]))),
                ("open", &|| from.open().map(drop)),
                ("make", &|| Group::create(from.path(), "inner").map(drop)),
                ("remove", &|| from.remove()),
            ];
            for (name, action) in actions {
                for path in paths.iter().rev().filter(|path| path.exists()) {
                    fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
                }
                action().unwrap_or_else(|error| panic!("{name}: {error}"));
                restore_permissions(to.path());
                restore_permissions(from.path());
            }
        };
        std::thread::spawn(act).join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let give_up = Instant::now() + Duration::from_secs(1);
        while place.remove().is_err() {
            assert!(Instant::now() < give_up);
        }
    }

    fn make_old(group: &Group) {
        let times = fs::FileTimes::new().set_modified(SystemTime::now() - 2 * OLD);
        fs::File::open(group.path()).unwrap().set_times(times).unwrap();
    }

    #[test]
    fn a_try_that_was_cut_short_is_cleared_away_and_not_in_the_way() {
        let Ok(directory) = probe() else { return };
        let [old, young] = ["old", "young"]
            .map(|age| Group::create(&directory, &format!("{PROBE}{}-{age}-test", std::process::id())).unwrap());
        make_old(&old);
        assert_eq!(probe().unwrap(), directory);
        assert!(!old.path().exists() && young.path().exists());
        young.remove().unwrap();
    }

    #[test]
    fn groups_of_dead_owners_are_cleared_away_with_those_inside() {
        let Ok(directory) = probe() else { return };
        // Of its own: other programs with sandboxes clear the usual one.
        let place = Group::create(&directory, &format!("leftovers-test-{}", std::process::id())).unwrap();
        let groups = ["dead", "held", "full"].map(|name| {
            let group = Group::create(place.path(), &format!("{OWN}{name}")).unwrap();
            Group::create(group.path(), "inner").unwrap();
            make_old(&group);
            group
        });
        let [dead, held, full] = &groups;
        let hold = held.hold().unwrap().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        full.add(Pid::new(child.id() as i32).unwrap()).unwrap();
        clear_leftovers(place.path());
        assert!(!dead.path().exists() && held.path().join("inner").exists() && full.path().exists());
        drop(hold);
        child.kill().unwrap();
        child.wait().unwrap();
        let give_up = Instant::now() + Duration::from_secs(1);
        while held.path().exists() || full.path().exists() {
            assert!(Instant::now() < give_up);
            // The removal of the group inside has made it young.
            [held, full].into_iter().filter(|group| group.path().exists()).for_each(make_old);
            clear_leftovers(place.path());
        }
        place.remove().unwrap();
    }

    #[test]
    fn a_frozen_group_stops_and_can_be_thawed_and_killed() {
        let Ok(directory) = probe() else { return };
        let group = Group::create(&directory, &format!("nacre-freeze-test-{}", std::process::id())).unwrap();
        let inner = Group::create(group.path(), "inner").unwrap();
        assert_eq!(group.inner().unwrap(), std::slice::from_ref(&inner));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        inner.add(Pid::new(child.id() as i32).unwrap()).unwrap();
        let wait_until = |frozen: bool| {
            let give_up = Instant::now() + Duration::from_secs(10);
            while group.is_frozen().unwrap() != frozen {
                assert!(Instant::now() < give_up, "never frozen: {frozen}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for frozen in [true, false, true] {
            group.set_frozen(frozen).unwrap();
            wait_until(frozen);
        }
        group.kill().unwrap();
        child.wait().unwrap();
        let give_up = Instant::now() + Duration::from_secs(10);
        while group.remove().is_err() {
            assert!(Instant::now() < give_up);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(group.is_frozen().unwrap(), "a group that does not exist has no process");
    }

    #[test]
    fn a_killed_group_is_empty_and_can_be_removed() {
        let Ok(directory) = probe() else { return };
        let group = Group::create(&directory, &format!("nacre-test-{}", std::process::id())).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::new(child.id() as i32).unwrap();
        group.add(pid).unwrap();
        assert_eq!(group.members().unwrap(), vec![pid]);
        assert!(group.remove().is_err());
        group.kill().unwrap();
        child.wait().unwrap();
        assert!(group.members().unwrap().is_empty());
        // The kernel may take a moment to notice that the group is empty.
        let give_up = Instant::now() + Duration::from_secs(1);
        while let Err(error) = group.remove() {
            assert!(Instant::now() < give_up, "{error}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
