//! Changing sessions over to another mount of their workspace, with real shells, programs and mounts.

use crate::place::{KILL, Kind, Place, is_pending, is_running, request, run, spawn_session, start, until, wait};
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_containment::signal;
use nacre_core::error::Code;
use nacre_core::exec::By;
use nacre_core::files::{FileChange, Seen, Watcher};
use nacre_core::sandbox::{NewSession, Pause, WhenBusy};
use nacre_core::session::{Handle, Isolate, SessionIsolation};
use nacre_protocol::confinement::{Confinement, Filesystem, Landlock, Mount, Namespaces, Workspace};
use rustix::fs::inotify;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fs;
use std::future::pending;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

impl Place {
    fn workspace(&self) -> PathBuf {
        self.directory.path().join("real").canonicalize().unwrap()
    }

    /// Changes every session over to another mount.
    fn remount(&self) {
        run({
            let pausing = self.sandbox.pause();
            async move {
                let pause = pausing.await.unwrap();
                assert!(pause.is_idle());
                Arc::new(pause).remount().await;
            }
        });
    }

    /// Changes a hidden file, and makes a checkpoint. Returns whether that has put another mount in place, instead of copying
    /// files.
    fn is_sealed(&self) -> bool {
        self.exec(&format!("echo >> {}/.changed", self.workspace().display()));
        let before = self.mounts();
        assert!(run(self.sandbox.checkpoint(None, WhenBusy::Copy, pending())).unwrap().is_some());
        self.mounts() != before
    }

    fn is_idle(&self) -> bool {
        self.pause().is_idle()
    }

    /// The mounts at the workspace, with their ids.
    fn mounts(&self) -> Vec<String> {
        let own = format!(" {} ", self.workspace().display());
        let all = self.exec("cat /proc/self/mountinfo");
        all.lines().filter(|line| line.contains(&own)).map(String::from).collect()
    }

    fn kill(&self, pid: &str) {
        let target = Stat::read(Pid::new(pid.parse().unwrap()).unwrap()).unwrap();
        signal::send_to(target.identity, libc::SIGKILL).unwrap();
        until("it ends", || !is_running(target.identity.pid));
    }
}

/// What a session must not notice.
const STATE: &str = "echo $$ $! $x $PWD $OLDPWD; dirs -l; f; pwd; pwd -P; /bin/pwd; cat ../file; umask; trap; (cd . && pwd)
    (cd - > /dev/null; pwd; /bin/pwd; cd - > /dev/null; pwd); cat < here; readlink /proc/self/cwd; [[ . -ef $PWD ]] && echo same";

const SET_UP: &str =
    "mkdir -p a/b; echo text > a/file; echo here > a/b/here; pushd a > /dev/null; f() { echo F $x; }; x=1
    umask 027; trap 'echo U' USR1; sleep 0 & wait; cd b";

#[test]
fn a_shell_goes_on_in_its_directory_of_the_new_mount() {
    for kind in [Kind::default(), Kind { without_groups: true, ..Kind::default() }] {
        let place = Place::of(kind);
        place.exec(SET_UP);
        let (state, mounts) = (place.exec(STATE), place.mounts());
        assert_eq!(mounts.len(), 1, "{mounts:?}");
        assert!(state.ends_with("a/b\nsame"), "{state}");
        for _ in 0..3 {
            let before = place.mounts();
            place.remount();
            assert_eq!(place.exec("kill -USR1 $$; echo y > new; cat new"), "U\ny");
            assert_eq!(place.exec(STATE), state);
            let after = place.mounts();
            assert!(after.len() == 1 && after != before, "{after:?}");
        }
    }
}

#[test]
fn each_command_of_plain_mode_uses_the_new_mount() {
    let place = Place::of(Kind { without_builtin: true, ..Kind::default() });
    place.exec("mkdir a; cd a; x=1; echo text > file");
    for _ in 0..2 {
        let before = place.mounts();
        place.remount();
        let ran = place.exec("echo $x; cat file; /bin/pwd");
        assert_eq!(ran, format!("1\ntext\n{}/a", place.workspace().display()));
        assert!(place.mounts().len() == 1 && place.mounts() != before);
    }
}

#[test]
fn a_directory_outside_or_one_that_was_removed_is_left_alone() {
    let place = Place::new();
    place.exec("cd /; x=1");
    place.remount();
    assert_eq!(place.exec("pwd; /bin/pwd; echo $x"), "/\n/\n1");
    place.exec("mkdir $OLDPWD/gone; cd $OLDPWD/gone; rmdir ../gone");
    place.remount();
    let own = place.workspace().display().to_string();
    assert_eq!(place.exec("pwd; echo $x"), format!("{own}/gone\n1"));
    assert_eq!(place.exec(&format!("cd {own}; pwd; echo text > file; cat file")), format!("{own}\ntext"));
}

#[test]
fn every_session_changes_over() {
    let place = Place::new();
    run(place.sandbox.create_session(NewSession { id: "other".into(), ..NewSession::default() })).unwrap();
    let other = |text: &str| wait(&place.start_exec_in("other", text)).unwrap().stdout;
    place.exec("mkdir a; cd a");
    other("mkdir b; cd b");
    place.remount();
    assert_eq!(place.exec("echo a > file; cat ../b/file 2> /dev/null; [[ . -ef $PWD ]] && echo same"), "same");
    assert_eq!(other("cat ../a/file; echo b > file; [[ . -ef $PWD ]] && echo same"), b"a\nsame\n");
    assert_eq!(place.exec("cat ../b/file"), "b");
}

/// The rules that a session checks: what it may not do, and what it can.
fn check_rules(place: &Place) {
    let text = "for file in kept/file .env secret/file kept/new; do (echo changed > $file) 2> /dev/null && echo wrote $file; done
        mv kept moved 2> /dev/null && echo moved; mv deep other 2> /dev/null && echo moved
        cat kept/file .env; ls secret; (echo > deep/kept/new) 2> /dev/null && echo wrote deep/kept
        echo own > own && cat own; ls $STORE 2> /dev/null";
    let store = place.directory.path().join("state/workspaces");
    assert_eq!(place.exec(&format!("STORE={}; {text}", store.display())), "kept\nown");
}

#[test]
fn the_rules_inside_the_workspace_hold_over_each_mount() {
    let inside = |rules: Filesystem, real: &Path| Filesystem {
        protect: vec![real.join("kept"), real.join("deep/kept")],
        hide: vec![real.join("secret"), real.join(".env")],
        ..rules
    };
    let all: [fn(&Path) -> Filesystem; 3] = [
        |real| Filesystem { write: vec![real.into()], ..Filesystem::default() },
        |real| Filesystem {
            write: vec![real.parent().unwrap().join("real")],
            read: Some(vec![real.into()]),
            ..Filesystem::default()
        },
        |real| Filesystem {
            write: vec![real.into()],
            read: Some(vec![real.parent().unwrap().into()]),
            ..Filesystem::default()
        },
    ];
    for rules in all {
        for (is_isolated, is_another_user) in [(false, false), (true, false), (true, true)] {
            if is_another_user && !nix::unistd::geteuid().is_root() {
                continue;
            }
            let place = Place::with_files(Kind { is_isolated, is_another_user, ..Kind::default() }, |real| {
                for directory in ["kept", "secret", "deep/kept"] {
                    fs::create_dir_all(real.join(directory)).unwrap();
                }
                for file in ["kept/file", ".env", "secret/file"] {
                    fs::write(real.join(file), "kept\n").unwrap();
                }
                if is_another_user {
                    let own = |path: PathBuf| std::os::unix::fs::chown(path, Some(54_321), Some(54_321)).unwrap();
                    ["", "kept", "secret", "deep", "deep/kept"].iter().for_each(|name| own(real.join(name)));
                }
                Some(inside(rules(real), real))
            });
            check_rules(&place);
            // In a mount inside the workspace.
            place.exec("cd kept; x=1");
            for _ in 0..3 {
                place.remount();
                assert_eq!(
                    place.exec("cat file; /bin/pwd; cd ..; echo $x"),
                    format!("kept\n{}/kept\n1", place.workspace().display())
                );
                check_rules(&place);
                assert_eq!(place.exec("cd kept; [[ . -ef $PWD ]] && echo same"), "same");
                let mounts = place.mounts();
                assert_eq!(mounts.len(), 1, "{mounts:?}");
            }
        }
    }
}

#[test]
fn a_mount_of_the_workspace_shows_each_new_mount() {
    let target = Path::new("/home/nacre-missing/user");
    for (is_isolated, part) in [(false, ""), (true, ""), (true, "sub")] {
        let place = Place::with_files(Kind { is_isolated, ..Kind::default() }, |real| {
            fs::create_dir_all(real.join("sub/kept")).unwrap();
            let mounts = vec![Mount { source: real.join(part), target: target.into() }];
            Some(Filesystem { mounts, protect: vec![real.join("sub/kept")], ..Filesystem::default() })
        });
        let kept = target.join(if part.is_empty() { "sub/kept" } else { "kept" });
        let (target, kept) = (target.display(), kept.display());
        place.exec(&format!("cd {target}; x=1"));
        for number in 0..3 {
            place.exec(&format!("echo {number} > file{number}"));
            let probe = format!("cat {target}/file*; echo > {kept}/new; ls {kept}; /bin/pwd; echo $x");
            let before = place.exec(&probe);
            assert!(before.ends_with(&format!("{number}\n{target}\n1")), "{before}");
            place.remount();
            assert_eq!(place.exec(&probe), before);
        }
        assert_eq!(place.real(&format!("{part}/file0")), None, "only the layer has changed");
    }
}

#[test]
fn a_standby_and_a_new_shell_go_on_in_the_new_mount() {
    let place = Place::new();
    place.exec("mkdir a; cd a; x=1");
    for number in 0..3 {
        place.exec("true");
        place.remount();
        place.kill(&place.exec("echo $$"));
        let own = place.workspace();
        assert_eq!(place.exec("/bin/pwd; echo $x"), format!("{}/a\n1", own.display()));
        place.exec("true");
        place.remount();
        let pids = place.exec("echo $$ $PPID");
        let (shell, supervisor) = pids.split_once(' ').unwrap();
        place.kill(supervisor);
        // Until then it could run the next command, whose end would be reported as the supervisor's.
        until("the shell ends, too", || !is_running(Pid::new(shell.parse().unwrap()).unwrap()));
        assert_eq!(
            place.exec("/bin/pwd; echo $x; [[ . -ef $PWD ]] && echo same"),
            format!("{}/a\n1\nsame", own.display()),
            "{number}"
        );
    }
}

#[test]
fn a_shell_or_supervisor_that_dies_in_the_pause_changes_nothing_for_the_next_command() {
    for victim in ["$$", "$PPID"] {
        let place = Place::new();
        // Its changes would be lost.
        place.exec("mkdir a; cd a; x=1");
        let pid = place.exec(&format!("echo {victim}"));
        let pause = place.pause();
        place.kill(&pid);
        run(Arc::new(pause).remount());
        assert_eq!(place.exec("/bin/pwd; echo $x"), format!("{}/a\n1", place.workspace().display()));
        assert_eq!(place.mounts().len(), 1);
    }
}

/// A pause in which the shell does not respond. Returns its supervisor, too.
fn pause_with_an_endless_trap(place: &Place) -> (Arc<Pause>, String) {
    // The changes of the last command would be lost.
    place.exec("mkdir -p a; cd a; x=1; trap 'while :; do :; done' USR1");
    let pids = place.exec("echo $$ $PPID");
    let (shell, supervisor) = pids.split_once(' ').unwrap();
    let found = || Stat::read(Pid::new(shell.parse().unwrap()).unwrap()).unwrap();
    let pause = Arc::new(place.pause());
    let ticks = found().cpu_ticks;
    until("its trap runs", || {
        // One that comes just before the shell waits for a request is handled later.
        signal::send_to(found().identity, libc::SIGUSR1).unwrap();
        found().cpu_ticks > ticks + 1
    });
    (pause, supervisor.into())
}

#[test]
fn a_supervisor_that_dies_while_it_waits_for_a_shell_is_replaced() {
    let place = Place::new();
    let (pause, supervisor) = pause_with_an_endless_trap(&place);
    let changing = start(Arc::clone(&pause).remount());
    place.kill(&supervisor);
    wait(&changing);
    drop(pause);
    assert_eq!(place.exec("/bin/pwd; echo $x"), format!("{}/a\n1", place.workspace().display()));
    assert_eq!(place.mounts().len(), 1);
}

#[test]
fn a_session_that_cannot_change_over_starts_again() {
    let place = Place::new();
    let (pause, supervisor) = pause_with_an_endless_trap(&place);
    let process = Stat::read(Pid::new(supervisor.parse().unwrap()).unwrap()).unwrap().identity.pid;
    let queued = place.start_exec("/bin/pwd; echo $x $PPID");
    run(Arc::clone(&pause).remount());
    until("the supervisor ends", || !is_running(process));
    drop(pause);
    let output = String::from_utf8(wait(&queued).unwrap().stdout).unwrap();
    let own = place.workspace();
    assert!(output.starts_with(&format!("{}/a\n1 ", own.display())) && !output.contains(&supervisor), "{output}");
    assert_eq!(place.mounts().len(), 1);
}

#[test]
fn a_watch_reports_an_overflow_and_goes_on() {
    let place = Place::new();
    place.exec("mkdir a");
    let watch = |path: &'static str| {
        let opened = place.sandbox.files("default", move |access| async move { access.watch(path.into(), true).await });
        Arc::new(run(opened).unwrap())
    };
    let (tree, file) = (watch("."), {
        place.exec("echo > file");
        watch("file")
    });
    let next = |watch: &Arc<_>| {
        let watch: Arc<Watcher> = Arc::clone(watch);
        run(async move { watch.next().await }).unwrap()
    };
    let awaits = |watch: &Arc<_>, change: FileChange, path: &str| {
        let is_it = |seen: &Seen| seen.change == change && seen.path == path.as_bytes();
        until("the change is seen", || next(watch).iter().any(is_it));
    };
    for number in 0..3 {
        place.remount();
        awaits(&tree, FileChange::Overflow, ".");
        awaits(&file, FileChange::Overflow, "file");
        let name = format!("a/{number}");
        place.exec(&format!("echo > {name}; echo more >> file"));
        awaits(&tree, FileChange::Created, &name);
        awaits(&file, FileChange::Modified, "file");
    }
}

#[test]
fn only_a_session_without_programs_is_idle() {
    for without_groups in [false, true] {
        let place = Place::of(Kind { without_groups, ..Kind::default() });
        assert!(place.is_idle());
        for number in 0..20 {
            // A standby that was just replaced is no program.
            place.exec(&format!("x={number}; ls > /dev/null"));
            assert!(place.is_idle(), "in round {number}");
        }
        let writer =
            run(place.sandbox.files("default", |access| async move { access.write(b"w".to_vec(), None, false).await }));
        assert!(!place.is_idle());
        drop(writer);
        until("the write has ended", || place.is_idle());
        if without_groups || place.sandbox.capabilities().group_parent.is_none() {
            // A pause is refused then.
            continue;
        }
        let process = place.process("sleep 600");
        assert!(!place.is_idle());
        assert!(run(async move { process.kill(By::Caller.into(), KILL).await }));
        assert!(place.is_idle());
        for program in ["sleep 600 & echo $!", "(setsid sleep 600 > /dev/null 2>&1 & echo $!)"] {
            let pid = place.exec(program);
            assert!(!place.is_idle());
            place.kill(&pid);
            assert!(place.is_idle());
        }
    }
}

/// Sessions of the user who runs the tests, and of another one if that is root.
fn of_each_user(test: impl Fn(Place)) {
    for is_another_user in [false, true] {
        if !is_another_user || nix::unistd::geteuid().is_root() {
            test(Place::with_files(Kind { is_another_user, ..Kind::default() }, |real| {
                if is_another_user {
                    std::os::unix::fs::chown(real, Some(54_321), Some(54_321)).unwrap();
                }
                None
            }));
        }
    }
}

#[test]
fn a_checkpoint_copies_files_while_the_shell_holds_something_of_its_mount() {
    of_each_user(|place| {
        place.exec("echo text > file; mkdir directory; mkfifo pipe");
        assert!(place.is_sealed());
        for held in ["exec 5<> pipe", "exec 5< file; flock 5", "exec 5< .", "exec 5< directory"] {
            place.exec(held);
            assert!(!place.is_sealed(), "{held}");
            assert_eq!(place.exec("echo new > file; cat file"), "new");
            place.exec("exec 5>&-");
            assert!(place.is_sealed(), "{held}");
        }
        // These do not.
        place.exec("exec 5< file 6< <(:) 7> /dev/null 8< /dev/zero; cd /");
        assert!(place.is_sealed());
        assert_eq!(place.exec("read -r -u 5 line; echo $line"), "new");
    });
}

#[test]
fn a_checkpoint_copies_files_while_the_name_of_the_directory_does_not_lead_there() {
    of_each_user(|place| {
        let own = place.workspace().display().to_string();
        let name = "x".repeat(200);
        let mut there = vec![format!("for ((n = 0; n < 25; n++)); do mkdir {name}; cd {name}; done")];
        if place.exec("id -u") != "0" {
            there.push("mkdir -p a/b; cd a/b; chmod 000 ..".into());
        }
        for there in there {
            place.exec(&format!("cd {own}; x=1; {there}"));
            assert!(!place.is_sealed(), "{there}");
            assert_eq!(place.exec("echo $x > new; cat new"), "1", "{there}");
            place.exec(&format!("cd {own}; chmod 755 a 2> /dev/null"));
            assert!(place.is_sealed(), "{there}");
            assert_eq!(place.exec("echo $x > new; cat new"), "1", "{there}");
        }
    });
}

#[test]
fn a_change_of_mounts_runs_no_trap() {
    let place = Place::new();
    place.exec("trap 'echo ran > trapped' CONT");
    place.exec("true");
    place.remount();
    assert!(place.is_sealed());
    assert_eq!(place.exec("ls"), "");
}

#[test]
fn a_session_that_is_ending_is_not_idle() {
    let place = Place::new();
    run(place.sandbox.create_session(NewSession { id: "ends".into(), ..NewSession::default() })).unwrap();
    let pid = wait(&place.start_exec_in("ends", "trap '' TERM; sleep 600 & echo $!")).unwrap().stdout;
    let pid = String::from_utf8(pid).unwrap();
    let deleting = start(place.sandbox.delete_session("ends", Duration::from_secs(600)));
    assert!(!place.is_idle() && is_pending(&deleting));
    place.kill(pid.trim());
    wait(&deleting).unwrap();
    assert!(place.is_idle());
}

/// A file system in memory, with a file `name` that has this text.
fn memory(text: &str) -> OwnedFd {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
    fsconfig_create(&context).unwrap();
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty()).unwrap();
    fs::create_dir(inside(&mount, "deep")).unwrap();
    fs::write(inside(&mount, "deep/name"), text).unwrap();
    mount
}

fn inside(mount: &OwnedFd, path: &str) -> PathBuf {
    format!("/proc/self/fd/{}/{path}", mount.as_raw_fd()).into()
}

/// Where a mount of the session below shows its workspace.
const SHOWN: &str = "/home/nacre-missing/shown";

/// A session whose workspace is one of these mounts, for each start another.
struct Own {
    session: Handle,
    path: tempfile::TempDir,
    /// How often a mount was asked for.
    asked: Arc<AtomicUsize>,
}

impl Own {
    fn new(mounts: Vec<OwnedFd>) -> Self {
        // Not below /tmp, which programs may write to anyway.
        let path = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = path.path().canonicalize().unwrap();
        // A rule is about what exists in the real directory.
        fs::create_dir(place.join("deep")).unwrap();
        let (asked, mounts) = (Arc::new(AtomicUsize::new(0)), Mutex::new(mounts));
        let count = Arc::clone(&asked);
        let isolate = Isolate(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let namespaces = Namespaces { user: false, ipc: false, network: false, processes: true };
            let mut confinement = Confinement::open(namespaces, place.clone(), "/bin/bash".into());
            // The rules of Landlock belong to files, which the next mount does not have.
            let landlock = Landlock { filesystem: true, tcp: false, signals: false, abstract_sockets: false };
            confinement.landlock = (nacre_isolation::landlock::version() > 0).then_some(landlock);
            let (write, protect) = (vec![place.clone()], vec![place.join("deep")]);
            let shown = vec![Mount { source: place.clone(), target: SHOWN.into() }];
            confinement.filesystem = Some(Filesystem { write, protect, mounts: shown, ..Filesystem::default() });
            confinement.restricts = true;
            let (path, store) = (place.clone(), "/proc/nothing".into());
            confinement.workspace = Some(Workspace { path, store, outside: Vec::new(), passes_mounts: false });
            let mount = Some(mounts.lock().unwrap().remove(0));
            Ok(SessionIsolation { mount, ..SessionIsolation::of(confinement) })
        }));
        Self { session: spawn_session("own", Some(isolate)), path, asked }
    }

    fn exec(&self, text: &str) -> String {
        let (sender, ended) = channel();
        self.session.exec(request(&format!("cd {} && {text}", self.path.path().display()), sender));
        let outcome = wait(&ended).unwrap();
        String::from_utf8([outcome.stdout, outcome.stderr].concat()).unwrap().trim_end().into()
    }

    fn remount(&self, mount: OwnedFd) -> Result<(), nacre_core::error::Error> {
        let hold = self.session.hold();
        run(async move {
            assert!(hold.granted().await);
            assert_eq!(hold.freeze(false).await.map(|frozen| frozen.is_idle), Ok(true));
            hold.remount(mount).await
        })
    }
}

#[test]
fn the_old_file_system_is_released_and_nothing_is_left() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let first = memory("first");
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, inside(&first, "."), inotify::WatchFlags::CREATE).unwrap();
    let own = Own::new(vec![first]);
    assert_eq!(own.exec("cd deep; cat name; x=1"), "first");
    assert_eq!(own.exec("cat deep/name; cd deep; sleep 0"), "first");
    own.remount(memory("second")).unwrap();
    assert_eq!(own.exec("cat deep/name; echo $x; echo new > new; cat new"), "second1\nnew");
    let shown = own.exec(&format!("cd {SHOWN}; cat new deep/name; echo shown > new; cat new"));
    assert_eq!(shown, "new\nsecondshown");
    for file in ["deep/name", &format!("{SHOWN}/deep/name")] {
        assert!(own.exec(&format!("echo new > {file}")).contains("Read-only file system"), "{file}");
    }
    until("the first file system is released", || {
        let mut space = [std::mem::MaybeUninit::uninit(); 256];
        let event = inotify::Reader::new(&watch, &mut space).next().map(|event| event.events());
        event.is_ok_and(|events| events.contains(inotify::ReadFlags::UNMOUNT))
    });
    run(own.session.close(Duration::ZERO));
}

#[test]
fn what_is_no_mount_changes_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let own = Own::new(vec![memory("first")]);
    assert_eq!(own.exec("cd deep; cat name; x=1"), "first");
    let file = OwnedFd::from(fs::File::open("/dev/null").unwrap());
    let error = own.remount(file).unwrap_err();
    assert_eq!(error.code, Code::EngineError);
    assert!(error.message.contains("session 'own' cannot change over to another mount"), "{error}");
    assert_eq!(own.exec("cat deep/name; echo $x"), "first1");
    own.remount(memory("second")).unwrap();
    assert_eq!(own.exec("cat deep/name; echo $x"), "second1");
    run(own.session.close(Duration::ZERO));
}

#[test]
fn a_mount_that_no_supervisor_has_got_is_given_up() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let own = Own::new(vec![memory("first"), memory("second")]);
    // Nothing has been asked for yet.
    own.remount(memory("unused")).unwrap();
    assert_eq!(own.asked.load(Ordering::Relaxed), 0);
    assert_eq!(own.exec("cat deep/name"), "first");
    run(own.session.close(Duration::ZERO));
}

#[test]
fn a_remount_without_a_hold_is_refused() {
    let session = spawn_session("free", None);
    let hold = session.hold();
    let second = session.hold();
    let file = || OwnedFd::from(fs::File::open("/dev/null").unwrap());
    run(async move {
        assert!(hold.granted().await);
        assert!(second.remount(file()).await.is_err());
    });
    run(session.close(Duration::ZERO));
}
