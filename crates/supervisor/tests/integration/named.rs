//! Named workspaces, workspaces in memory, and forks, with real keepers: what is left after each kind of end.

mod forks;

use nacre_core::error::{Code, Error};
use nacre_core::workspace::{self, Named, Options, Stop, Workspace};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Says to a test that it runs alone, and with which rights.
const TIER: &str = "NACRE_TEST_TIER";
/// Says to a test that it is a host that will be killed: the directory of the test.
const HOST: &str = "NACRE_TEST_HOST";
const LIMIT: &str = "120";
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test alone in a process: as this user, and as a user without rights, who needs a user namespace.
fn in_tiers(name: &str, test: impl FnOnce()) {
    if std::env::var_os(TIER).is_some() {
        return test();
    }
    let name = full_name(name);
    let is_root = nix::unistd::geteuid().is_root();
    let user = ["unshare", "--user", "--map-user=1000", "--map-group=1000"];
    for (tier, words) in [("own", &[][..]), ("user", &user)].into_iter().filter(|(tier, _)| is_root || *tier == "own") {
        let own = std::env::current_exe().unwrap();
        let mut alone = Command::new("timeout");
        alone.arg(LIMIT).args(words).arg(own).args(["--exact", &name]).env(TIER, tier);
        let output = alone.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "as {tier}: {text}");
    }
}

/// The name of a test of this module, as the test program knows it.
fn full_name(name: &str) -> String {
    format!("named::{name}")
}

fn supervisor() -> PathBuf {
    env!("CARGO_BIN_EXE_nacre-supervisor").into()
}

/// A real directory with files, and a state directory.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory };
        fs::create_dir_all(place.real("sub")).unwrap();
        for name in ["a", "b", "sub/c"] {
            fs::write(place.real(name), name).unwrap();
        }
        place
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    fn real(&self, name: &str) -> PathBuf {
        self.root().join("real").join(name)
    }

    fn stores(&self) -> PathBuf {
        workspace::stores(&self.root().join("state"))
    }

    /// A file of the named store.
    fn stored(&self, name: &str) -> PathBuf {
        self.stores().join("id-x").join(name)
    }

    fn options(&self, id: Option<&str>) -> Options {
        Options { path: self.root().join("real"), id: id.map(Into::into), ..Options::default() }
    }

    fn workspace(&self, options: Options) -> Workspace {
        workspace_in(self.root(), options)
    }

    /// Opens the workspace 'x', as programs see it.
    fn open(&self) -> Open {
        self.try_open().unwrap()
    }

    fn try_open(&self) -> Result<Open, Error> {
        Open::new(self.workspace(self.options(Some("x"))))
    }

    fn lost(&self) -> String {
        let error = self.try_open().err().unwrap();
        assert_eq!(error.code, Code::WorkspaceLost, "{error}");
        error.message
    }

    fn list(&self) -> Vec<Named> {
        workspace::list(&supervisor(), &self.stores()).unwrap()
    }

    fn delete(&self, id: &str) -> Result<(), Error> {
        workspace::delete(&supervisor(), &self.stores(), id)
    }
}

fn workspace_in(root: &Path, options: Options) -> Workspace {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{}-test-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    Workspace::new(options, &root.join("state"), unique, supervisor())
}

/// An open workspace, and a mount of it.
struct Open {
    mount: Option<OwnedFd>,
    workspace: Arc<Workspace>,
}

impl Open {
    fn new(workspace: Workspace) -> Result<Self, Error> {
        let (_, mount) = workspace.share()?;
        Ok(Self { mount: Some(mount), workspace: Arc::new(workspace) })
    }

    /// A path as programs see it.
    fn at(&self, name: &str) -> PathBuf {
        let mount = self.mount.as_ref().unwrap().as_raw_fd();
        PathBuf::from(format!("/proc/self/fd/{mount}")).join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.at(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn changes(&self) -> Vec<String> {
        let changes = self.workspace.changes(None, &Stop::default()).unwrap().unwrap();
        let text = |change: &nacre_protocol::workspace::WorkspaceChange| {
            format!("{:?} {}", change.difference, String::from_utf8_lossy(&change.path))
        };
        changes.iter().map(text).collect()
    }

    fn commit(&self) -> Result<u64, Error> {
        self.workspace.commit(None, false, false, false).map(|commit| commit.applied)
    }

    /// The paths in conflict.
    fn conflicts(&self) -> Vec<String> {
        let error = self.commit().unwrap_err();
        assert_eq!(error.code, Code::WorkspaceConflict, "{error}");
        error.paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    /// Ends the programs, and then the workspace.
    fn close(mut self) {
        self.mount = None;
        self.workspace.close();
    }
}

/// The children of this process.
fn children() -> Vec<i32> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let list = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().map(|pid| pid.parse::<i32>().unwrap()));
    }
    found
}

fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
}

fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_named_workspace_goes_on_after_it_was_closed() {
    in_tiers("a_named_workspace_goes_on_after_it_was_closed", || {
        let place = Place::new();
        let first = place.open();
        first.write("a", "changed");
        first.write("new", "new");
        fs::remove_file(first.at("sub/c")).unwrap();
        fs::set_permissions(first.at(""), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let (changes, usage) = (first.changes(), first.workspace.usage().unwrap());
        assert_eq!(changes, ["Metadata .", "Modified a", "Created new", "Deleted sub/c"]);
        first.close();
        assert!(!place.stored("open").exists());
        assert_eq!(fs::read_to_string(place.real("a")).unwrap(), "a");

        let second = place.open();
        assert_eq!((second.changes(), second.workspace.usage().unwrap()), (changes, usage));
        assert_eq!((second.read("a"), second.read("new")), ("changed".into(), "new".into()));
        // The moment of the first opening counts.
        fs::write(place.real("b"), "changed by others").unwrap();
        second.write("b", "changed here");
        second.close();
        let third = place.open();
        assert_eq!(third.conflicts(), ["b"]);
        assert_eq!(third.workspace.discard(Some(vec![b"b".to_vec()])).unwrap(), 1);
        assert_eq!(third.read("b"), "changed by others");
        assert_eq!(third.commit().unwrap(), 4);
        third.close();

        // What was committed is no change of other programs.
        let fourth = place.open();
        assert_eq!(fourth.changes(), [""; 0]);
        fourth.write("a", "again");
        fourth.write("sub/c", "again");
        assert_eq!(fourth.commit().unwrap(), 2);
        fourth.write("a", "and again");
        fourth.close();
        fs::write(place.real("a"), "changed by others").unwrap();
        let fifth = place.open();
        assert_eq!(fifth.conflicts(), ["a"]);
        assert_eq!(fifth.workspace.discard(None).unwrap(), 1);
        assert_eq!((fifth.read("a"), fifth.changes().len()), ("changed by others".into(), 0));
        fifth.close();
        assert_eq!(children(), [0; 0]);
    });
}

#[test]
fn a_named_workspace_survives_its_keeper() {
    in_tiers("a_named_workspace_survives_its_keeper", || {
        let place = Place::new();
        let mut first = place.open();
        first.write("a", "committed");
        first.commit().unwrap();
        first.write("a", "changed");
        first.write("new", "new");
        let [keeper] = children()[..] else { panic!("{:?}", children()) };
        kill(keeper);
        assert_eq!(first.workspace.changes(None, &Stop::default()).unwrap_err().code, Code::EngineError);
        // Its programs still run.
        let error = place.try_open().err().unwrap();
        assert_eq!(error.code, Code::WorkspaceInUse, "{error}");
        assert!(error.message.contains("still running"), "{error}");
        assert_eq!(place.delete("x").unwrap_err().code, Code::WorkspaceInUse);
        first.mount = None;
        let second = place.open();
        assert_eq!(
            (second.changes(), second.read("new")),
            (vec!["Modified a".into(), "Created new".into()], "new".into())
        );
        assert_eq!(second.commit().unwrap(), 2);
        second.close();
        assert_eq!(fs::read_to_string(place.real("a")).unwrap(), "changed");
    });
}

#[test]
fn a_checkpoint_seals_what_nobody_writes_to() {
    in_tiers("a_checkpoint_seals_what_nobody_writes_to", || {
        let place = Place::new();
        let checkpoint = |open: &Open, may_seal| {
            let (point, is_sealed) = open.workspace.checkpoint(None, Vec::new(), b"text", may_seal).unwrap();
            (point.number, is_sealed)
        };
        let mut open = place.open();
        open.write("a", "first");
        let files = open.workspace.usage().unwrap().files;
        assert_eq!(checkpoint(&open, true), (1, true));
        assert_eq!(open.workspace.usage().unwrap().files, files);
        let refused = fs::write(open.at("a"), "").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
        open.mount = Some(open.workspace.share().unwrap().1);
        open.write("a", "second");
        // It is being written.
        let mut writer = fs::OpenOptions::new().append(true).open(open.at("a")).unwrap();
        assert_eq!(checkpoint(&open, true), (2, false));
        writer.write_all(b" and more").unwrap();
        drop(writer);
        assert_eq!(checkpoint(&open, false), (3, false));
        assert_eq!(checkpoint(&open, true), (4, true));
        open.mount = Some(open.workspace.share().unwrap().1);
        open.write("a", "last");
        let changes = open.changes();
        assert_eq!(changes, ["Modified a"]);
        // The store has the new layers already.
        let [keeper] = children()[..] else { panic!("{:?}", children()) };
        kill(keeper);
        open.mount = None;
        let mut next = place.open();
        assert_eq!((next.changes(), next.read("a")), (changes, "last".into()));
        for (number, text) in
            [(1, "first"), (2, "second"), (3, "second and more"), (4, "second and more"), (1, "first")]
        {
            assert_eq!(next.workspace.prepare(Some(number)).unwrap().1, b"text");
            next.workspace.switch().unwrap();
            next.mount = Some(next.workspace.share().unwrap().1);
            assert_eq!(next.read("a"), text, "{number}");
            next.write("a", "changed");
        }
        next.close();
        let last = place.open();
        assert_eq!(last.read("a"), "changed");
        assert_eq!(last.commit().unwrap(), 1);
        last.close();
    });
}

#[test]
fn layers_are_merged_and_survive_the_keeper() {
    in_tiers("layers_are_merged_and_survive_the_keeper", || {
        let place = Place::new();
        let open = || Open::new(place.workspace(Options { undo_steps: 3, ..place.options(Some("x")) })).unwrap();
        let mut used = open();
        let mut model = std::collections::BTreeMap::new();
        let mut least = u64::MAX;
        for round in 0..120 {
            let command = format!("command {round}");
            let (point, is_sealed) =
                used.workspace.step((command.clone(), Vec::new()), Vec::new(), b"text", true).unwrap().unwrap();
            assert_eq!(point.command, Some(command));
            if is_sealed {
                used.mount = Some(used.workspace.share().unwrap().1);
            }
            let name = |number: u32| format!("file-{number}");
            used.write(&name(round % 20), &round.to_string());
            model.insert(name(round % 20), round.to_string());
            if model.remove(&name(round * 7 % 20)).is_some() {
                fs::remove_file(used.at(&name(round * 7 % 20))).unwrap();
            }
            let layers = used.workspace.usage().unwrap().layers;
            assert!(layers < 50, "{layers} layers");
            least = if round > 40 { least.min(layers) } else { least };
            if round % 23 == 22 {
                let [keeper] = children()[..] else { panic!("{:?}", children()) };
                kill(keeper);
                used.mount = None;
                used = open();
                // The next round has changed nothing before its step.
                used.workspace.step(("nothing".into(), Vec::new()), Vec::new(), b"text", true).unwrap().unwrap();
                used.mount = Some(used.workspace.share().unwrap().1);
            }
        }
        assert!(least < 25, "never less than {least} layers");
        for _ in 0..2 {
            let found = (0..20).map(|number| format!("file-{number}")).filter(|name| used.at(name).exists());
            assert_eq!(
                found.map(|name| (name.clone(), used.read(&name))).collect::<std::collections::BTreeMap<_, _>>(),
                model
            );
            used.close();
            used = open();
        }
        for round in [119, 118, 117] {
            assert_eq!(used.workspace.prepare(None).unwrap().0.command, Some(format!("command {round}")));
            used.workspace.switch().unwrap();
            used.mount = Some(used.workspace.share().unwrap().1);
            assert!(
                !used.at(&format!("file-{}", round % 20)).exists()
                    || used.read(&format!("file-{}", round % 20)) != round.to_string()
            );
        }
        assert_eq!(used.workspace.prepare(None).unwrap_err().code, Code::CheckpointNotFound);
        used.close();
    });
}

#[test]
fn a_named_workspace_survives_its_host_and_keeper() {
    const NAME: &str = "a_named_workspace_survives_its_host_and_keeper";
    if let Some(root) = std::env::var_os(HOST) {
        let root = PathBuf::from(root);
        let options = Options { path: root.join("real"), id: Some("x".into()), ..Options::default() };
        let open = Open::new(workspace_in(&root, options)).unwrap();
        open.write("a", "changed");
        eprintln!("keeper {}", children()[0]);
        let _ = std::io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    }
    in_tiers(NAME, || {
        let place = Place::new();
        for kills_keeper in [true, false] {
            let mut host = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", &full_name(NAME), "--nocapture"])
                .env(HOST, place.root())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(host.stderr.take().unwrap()).lines();
            let keeper = lines.find_map(|line| line.unwrap().strip_prefix("keeper ")?.parse().ok()).unwrap();
            let used = place.list();
            assert_eq!(used.iter().map(|named| (&*named.id, named.in_use)).collect::<Vec<_>>(), [("x", true)]);
            if kills_keeper {
                kill(keeper);
            }
            host.kill().unwrap();
            host.wait().unwrap();
            assert!(place.stored("open").exists());
            let next = place.open();
            assert_eq!(next.changes(), ["Modified a"]);
            next.close();
        }
    });
}

#[test]
fn layers_that_were_open_when_the_machine_stopped_are_lost() {
    in_tiers("layers_that_were_open_when_the_machine_stopped_are_lost", || {
        let place = Place::new();
        let first = place.open();
        first.write("a", "changed");
        fs::write(place.stored("open"), "00000000-0000-0000-0000-000000000000\n").unwrap();
        drop(first.mount);
        kill(children()[0]);
        assert!(place.lost().contains("restarted while it was open"));
        assert!(place.lost().contains("restarted while it was open"));
        fs::write(place.stored("open"), "").unwrap();
        assert!(place.lost().contains("restarted while it was open"));
        first.workspace.close();
        place.delete("x").unwrap();
        let next = place.open();
        assert_eq!(next.changes(), [""; 0]);
        next.close();
        assert!(!place.stored("open").exists());
    });
}

#[test]
fn damaged_stores_are_lost() {
    in_tiers("damaged_stores_are_lost", || {
        let place = Place::new();
        let damage = |name: &'static str, harm: &dyn Fn(&Path), message: &str| {
            let open = place.open();
            open.write("a", "changed");
            open.close();
            let before = place.list();
            assert_eq!(before[0].path.as_deref(), Some(&*place.root().join("real")));
            harm(&place.stored(name));
            assert!(place.lost().contains(message), "{name}: {}", place.lost());
            let listed = place.list();
            assert_eq!((listed.len(), listed[0].path.is_some()), (1, name != "about"));
            place.delete("x").unwrap();
            assert_eq!(place.list(), []);
        };
        let garbage = |path: &Path| fs::write(path, "garbage").unwrap();
        let missing = |path: &Path| fs::remove_file(path).unwrap();
        let cut = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(30).unwrap();
        let no_directory = |path: &Path| fs::rename(path, path.with_extension("away")).unwrap();
        damage("about", &garbage, "its file 'about' is damaged");
        damage("about", &missing, "its file 'about' is missing");
        damage("known", &cut, "its file 'known' is damaged");
        damage("known", &missing, "its file 'known' is missing");
        damage("journal", &garbage, "its file 'journal' is damaged");
        damage("layers", &garbage, "its file 'layers' is damaged");
        damage("layers", &missing, "its file 'layers' is missing");
        damage("layer-1", &no_directory, "one of its layers is missing");
        damage("layer-1/upper", &no_directory, "one of its layers is missing");
        let link = |path: &Path| {
            fs::rename(path, path.with_extension("away")).unwrap();
            std::os::unix::fs::symlink("/etc", path).unwrap();
        };
        damage("layer-1/upper", &link, "one of its layers is missing");
        assert_eq!(fs::read_to_string(place.real("a")).unwrap(), "a");
    });
}

#[test]
fn stores_of_another_version_are_refused_until_they_are_deleted() {
    in_tiers("stores_of_another_version_are_refused_until_they_are_deleted", || {
        let place = Place::new();
        let raise = |name: &str| {
            let mut bytes = fs::read(place.stored(name)).unwrap();
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            let line = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let version: u32 = line.strip_prefix("nacre workspace ").unwrap().parse().unwrap();
            bytes.splice(..end, format!("nacre workspace {}", version + 99).into_bytes());
            fs::write(place.stored(name), bytes).unwrap();
        };
        for name in ["about", "known", "layers"] {
            let open = place.open();
            open.write("a", "changed");
            open.close();
            raise(name);
            for _ in 0..2 {
                let error = place.try_open().err().unwrap();
                assert_eq!(error.code, Code::WorkspaceUnsupported, "{error}");
                assert!(error.message.ends_with("open it with that version to commit its changes, or delete it"));
            }
            assert_eq!(fs::read_to_string(place.stored("layer-1/upper/a")).unwrap(), "changed");
            let listed: Vec<_> = place.list().into_iter().map(|named| (named.id, named.path.is_some())).collect();
            assert_eq!(listed, [("x".into(), name != "about")]);
            place.delete("x").unwrap();
            assert_eq!(place.list(), []);
        }
        // A commit of another version that has not ended is left to it.
        let open = place.open();
        open.close();
        fs::write(place.stored("journal"), "nacre workspace 99\nsteps").unwrap();
        for error in [place.try_open().err().unwrap(), place.delete("x").unwrap_err()] {
            assert_eq!(error.code, Code::WorkspaceUnsupported, "{error}");
            assert!(error.message.ends_with("open it with that version first"), "{error}");
        }
        assert!(place.stored("journal").exists());
        fs::remove_file(place.stored("journal")).unwrap();
        place.delete("x").unwrap();
    });
}

#[test]
fn a_named_workspace_belongs_to_its_directory() {
    in_tiers("a_named_workspace_belongs_to_its_directory", || {
        let place = Place::new();
        let open = place.open();
        open.write("a", "changed");
        open.close();
        fs::rename(place.root().join("real"), place.root().join("moved")).unwrap();
        fs::create_dir(place.root().join("real")).unwrap();
        assert!(place.lost().contains("is another directory"));
        // It may have another path.
        let options = Options { path: place.root().join("moved"), ..place.options(Some("x")) };
        let open = Open::new(place.workspace(options)).unwrap();
        assert_eq!((open.changes(), open.commit().unwrap()), (vec!["Modified a".into()], 1));
        open.close();
    });
}

#[test]
fn a_directory_with_the_number_of_a_removed_one_is_another() {
    in_tiers("a_directory_with_the_number_of_a_removed_one_is_another", || {
        let place = Place::new();
        let real = place.root().join("real");
        let number = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
        let before = number(&real);
        place.open().close();
        fs::remove_dir_all(&real).unwrap();
        // Some file systems use the number again at once, and others never.
        let others = (0..1000).map(|attempt| place.root().join(format!("other-{attempt}")));
        let same = others.inspect(|other| fs::create_dir(other).unwrap()).find(|other| number(other) == before);
        fs::rename(same.unwrap_or_else(|| place.root().join("other-0")), &real).unwrap();
        assert!(place.lost().contains("is another directory"));
    });
}

#[test]
fn an_open_workspace_can_neither_be_opened_nor_deleted() {
    in_tiers("an_open_workspace_can_neither_be_opened_nor_deleted", || {
        let place = Place::new();
        let open = place.open();
        let error = place.try_open().err().unwrap();
        assert_eq!((error.code, error.message.contains("another sandbox")), (Code::WorkspaceInUse, true), "{error}");
        assert_eq!(place.delete("x").unwrap_err().code, Code::WorkspaceInUse);
        let other = Open::new(place.workspace(place.options(Some("y")))).unwrap();
        other.write("a", "other");
        let ids = |place: &Place| {
            place.list().into_iter().map(|named| format!("{} {}", named.id, named.in_use)).collect::<Vec<_>>()
        };
        assert_eq!((ids(&place), open.read("a")), (vec!["x true".into(), "y true".into()], "a".into()));
        other.close();
        assert_eq!(ids(&place), ["x true", "y false"]);
        place.delete("y").unwrap();
        let error = place.delete("y").unwrap_err();
        assert_eq!((error.code, &*error.message), (Code::FileNotFound, "there is no workspace 'y'"));
        // A call that failed can be repeated.
        let waiting = place.workspace(place.options(Some("x")));
        assert_eq!(waiting.usage().unwrap_err().code, Code::WorkspaceInUse);
        open.close();
        assert_eq!(waiting.usage().unwrap().files, 0);
        waiting.close();
        assert_eq!(waiting.usage().unwrap_err().code, Code::SandboxDestroyed);
    });
}

#[test]
fn one_of_many_hosts_gets_a_named_workspace() {
    in_tiers("one_of_many_hosts_gets_a_named_workspace", || {
        let place = Place::new();
        for round in 0..3 {
            let opened: Vec<Result<Open, Error>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| place.try_open())).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let (won, lost): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
            assert_eq!(won.len(), 1);
            for error in lost.into_iter().filter_map(Result::err) {
                assert_eq!(error.code, Code::WorkspaceInUse, "{error}");
            }
            for open in won.into_iter().flatten() {
                assert_eq!(open.changes().len(), round);
                open.write(&format!("new-{round}"), "");
                open.close();
            }
        }
        assert_eq!(fs::read_dir(place.stores()).unwrap().count(), 1);
    });
}

#[test]
fn names_stay_in_their_directory() {
    in_tiers("names_stay_in_their_directory", || {
        let place = Place::new();
        let long = "x".repeat(128);
        for id in ["...", "-", ".x", "id-x", "1-test-0", "A.b_c-9", &long] {
            let open = Open::new(place.workspace(place.options(Some(id)))).unwrap();
            open.write("a", id);
            open.close();
        }
        assert_eq!(place.list().len(), 7);
        let long = "x".repeat(129);
        for id in ["", ".", "..", "/", "../x", "x/y", "x\0", "é", "x\n", &long] {
            let workspace = place.workspace(place.options(Some(id)));
            assert_eq!(workspace.usage().unwrap_err().code, Code::EngineError, "{id:?}");
            assert_eq!(place.delete(id).unwrap_err().code, Code::EngineError, "{id:?}");
        }
        assert_eq!(fs::read_dir(place.stores()).unwrap().count(), 7);
        fs::create_dir(place.stores().join("id-é")).unwrap();
        fs::write(place.stores().join("id-file"), "").unwrap();
        for named in place.list() {
            place.delete(&named.id).unwrap();
        }
        assert_eq!(place.list(), []);
    });
}

#[test]
fn a_chosen_directory_stays() {
    in_tiers("a_chosen_directory_stays", || {
        let place = Place::new();
        let directory = place.root().join("chosen/stores");
        let options = |id| Options { directory: Some(directory.clone()), ..place.options(id) };
        assert_eq!(workspace::list(&supervisor(), &directory).unwrap(), []);
        assert_eq!(workspace::delete(&supervisor(), &directory, "x").unwrap_err().code, Code::FileNotFound);
        let unnamed = place.workspace(options(None));
        let (shared, mount) = unnamed.share().unwrap();
        assert_eq!((&shared.store, fs::read_dir(&directory).unwrap().count()), (&directory, 1));
        drop(mount);
        unnamed.close();
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        Open::new(place.workspace(options(Some("x")))).unwrap().close();
        let listed = workspace::list(&supervisor(), &directory).unwrap();
        assert_eq!((listed.len(), &*listed[0].id, listed[0].in_use), (1, "x", false));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
        assert!((now - listed[0].used_at).abs() < 60);
        workspace::delete(&supervisor(), &directory, "x").unwrap();
        assert!(directory.exists() && !place.root().join("state").exists());
        fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        for error in [
            place.workspace(options(None)).usage().unwrap_err(),
            workspace::list(&supervisor(), &directory).unwrap_err(),
        ] {
            assert_eq!(error.code, Code::StateDirUnavailable, "{error}");
        }
    });
}

#[test]
fn a_workspace_in_memory_is_limited_and_leaves_nothing() {
    in_tiers("a_workspace_in_memory_is_limited_and_leaves_nothing", || {
        let place = Place::new();
        let max_bytes = Some(4 << 20);
        fs::write(place.real("large"), vec![b'x'; 3 << 20]).unwrap();

        let open = Open::new(place.workspace(Options { memory: true, max_bytes, ..place.options(None) })).unwrap();
        open.write("a", "changed");
        let error = fs::write(open.at("full"), vec![0; 8 << 20]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        // No space to copy it: the old file stays.
        let append =
            || fs::File::options().append(true).open(open.at("large")).and_then(|mut file| file.write_all(b"y"));
        assert_eq!(append().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        assert_eq!(fs::read(open.at("large")).unwrap(), vec![b'x'; 3 << 20]);
        // What needs no space of the workspace works.
        assert_eq!(open.changes(), ["Modified a", "Created full"]);
        assert!(open.workspace.diff(None, 1 << 30, &Stop::default()).unwrap().unwrap().metadata().unwrap().len() > 100);
        assert_eq!(open.workspace.commit(Some(vec![b"a".to_vec()]), false, true, false).unwrap().applied, 1);
        assert_eq!(fs::read_to_string(place.real("a")).unwrap(), "changed");
        assert!(open.workspace.usage().unwrap().bytes <= 4 << 20);
        fs::remove_file(open.at("full")).unwrap();
        append().unwrap();
        assert_eq!(open.changes(), ["Modified large"]);
        // Both versions have no space at the same time.
        assert_eq!(open.workspace.discard(None).unwrap_err().code, Code::NoSpace);
        assert_eq!(fs::read(open.at("large")).unwrap().len(), (3 << 20) + 1);
        fs::remove_file(open.at("large")).unwrap();
        fs::write(open.at("full"), vec![0; 8 << 20]).unwrap_err();
        assert_eq!(open.workspace.discard(None).unwrap(), 2);
        assert_eq!(fs::read(open.at("large")).unwrap(), vec![b'x'; 3 << 20]);
        assert_eq!((open.changes(), open.commit().unwrap()), (vec![], 0));
        open.write("new", "new");
        assert_eq!(open.commit().unwrap(), 1);
        open.write("lost", "");
        open.close();
        assert_eq!((children(), place.stores().exists()), (vec![], false));
        let names =
            |path: PathBuf| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        assert_eq!((names(place.real("")).len(), place.real("new").exists()), (5, true));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(place.root().to_str().unwrap()) && !mounts.contains("nacre-memory"));
    });
}

#[test]
fn a_commit_that_is_closed_is_applied_or_changes_nothing() {
    in_tiers("a_commit_that_is_closed_is_applied_or_changes_nothing", || {
        const FILES: usize = 400;
        let (mut applied, mut cancelled) = (0, 0);
        for round in 0..8 {
            let place = Place::new();
            let id = (round % 2 == 0).then_some("x");
            let open = Open::new(place.workspace(place.options(id))).unwrap();
            for number in 0..FILES {
                open.write(&format!("new-{number}"), "content");
            }
            let is_there = |number: usize| place.real(&format!("new-{number}")).exists();
            let is_staging = || {
                let mut entries = fs::read_dir(place.real("")).unwrap();
                entries.any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with(".nacre-commit-"))
            };
            let result = std::thread::scope(|scope| {
                let commit = scope.spawn(|| open.commit());
                // While it stages, or while it applies.
                until("the commit has not begun", || if round < 4 { is_staging() } else { is_there(0) });
                open.workspace.close();
                commit.join().unwrap()
            });
            let present = (0..FILES).filter(|number| is_there(*number)).count();
            match result {
                Ok(count) => {
                    assert_eq!((count as usize, present), (FILES, FILES));
                    applied += 1;
                }
                Err(error) => {
                    assert_eq!((error.code, present), (Code::SandboxDestroyed, 0), "{error}");
                    cancelled += 1;
                }
            }
            assert!(!is_staging());
            if id.is_some() {
                drop(open);
                let next = place.open();
                assert_eq!(next.changes().len(), FILES - present);
                next.close();
            } else {
                assert!(!place.stores().exists());
            }
        }
        assert!(applied >= 4 && applied + cancelled == 8, "{applied} applied, {cancelled} cancelled");
    });
}

#[test]
fn unnamed_workspaces_begin_while_others_end() {
    in_tiers("unnamed_workspaces_begin_while_others_end", || {
        let place = Place::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..12 {
                        let workspace = place.workspace(place.options(None));
                        assert_eq!(workspace.usage().unwrap().files, 0);
                        workspace.close();
                    }
                });
            }
        });
        until("the directory of the stores is left", || !place.stores().exists());
    });
}

#[test]
fn a_workspace_of_root_is_not_for_other_users() {
    const NAME: &str = "a_workspace_of_root_is_not_for_other_users";
    if let Some(root) = std::env::var_os(HOST) {
        let root = PathBuf::from(root);
        let options = Options { path: root.join("real"), id: Some("x".into()), ..Options::default() };
        let error = workspace_in(&root, options).usage().unwrap_err();
        assert_eq!(error.code, Code::PermissionDenied, "{error}");
        assert!(error.message.contains("made by user 0 with the rights of root"), "{error}");
        return;
    }
    in_tiers(NAME, || {
        if std::env::var(TIER).as_deref() != Ok("own") || !nix::unistd::geteuid().is_root() {
            return;
        }
        let place = Place::new();
        place.open().close();
        let output = Command::new("unshare")
            .args(["--user", "--map-user=1000", "--map-group=1000"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &full_name(NAME)])
            .env(HOST, place.root())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        // It is not harmed.
        place.open().close();
    });
}
