use super::*;
use crate::changes::Sides;
use crate::commit::{Commit, Options, Outcome, Point};
use crate::overlay;
use crate::selection::Selection;
use crate::staging;
use crate::testing::{self, Workspace, differing, snapshot, without_times, write};
use std::fs;
use std::path::PathBuf;

fn in_namespaces(name: &str, test: impl FnOnce(Workspace)) {
    testing::in_namespaces(&format!("named::tests::{name}"), test);
}

/// A mounted named workspace.
struct Opened {
    named: Named,
    path: PathBuf,
    merged: OwnedFd,
    base: OwnedFd,
    layers: Vec<Tree>,
}

fn stores_of(workspace: &Workspace) -> PathBuf {
    workspace.directory.path().join("stores")
}

fn open_unmounted(workspace: &Workspace) -> std::result::Result<(Named, OwnedFd), Failure> {
    let (path, stores) = (workspace.path(), stores_of(workspace));
    let real = opening::open_real(&path)?;
    let stores = Stores { path: &stores, are_temporary: false };
    let wanted = Wanted { stores, id: "x", unique: "1-test", path: &path, base: &real, mounter: workspace.mounter };
    Ok((open(&wanted)?, real))
}

impl Opened {
    fn new(workspace: &Workspace) -> Self {
        let (named, real) = open_unmounted(workspace).unwrap();
        let merged = workspace.mount_stack(named.store.layers().place(), &named.history.stack, &real);
        let layers = layers::trees(named.store.layers().place(), &named.history.stack).unwrap();
        Self { named, path: workspace.path(), merged, base: real, layers }
    }

    fn commit(&mut self, reached: impl FnMut(Point) -> Result<()>) -> std::result::Result<Outcome, Failure> {
        let directory = self.named.store.directory().try_clone().unwrap();
        self.commit_and_keep(&|known| state::write_known(&directory, known), reached)
    }

    fn commit_and_keep(
        &mut self,
        keep: &dyn Fn(&Known) -> Result<()>,
        reached: impl FnMut(Point) -> Result<()>,
    ) -> std::result::Result<Outcome, Failure> {
        let Self { named: Named { store, about, known, .. }, path, merged, base, layers } = self;
        let tree = |root: &OwnedFd| Tree::new(root.try_clone().unwrap());
        let commit = Commit {
            merged: &tree(merged),
            base: &tree(base),
            layers,
            marks: about.mounter.marks(),
            opened: about.opened,
            known,
            contents: &std::collections::BTreeMap::new(),
            keep,
            interrupt: &|| Ok(()),
            store: store.directory(),
            path: path.as_os_str().as_bytes(),
            staging: &staging::name(about.unique.as_bytes()),
        };
        commit.run(Options { paths: None, force: false, sync: false, withholds: false }, reached)
    }

    fn keep_a_checkpoint(&mut self) {
        let Named { store, history, .. } = &mut self.named;
        let point = workspace::Point {
            number: 0,
            name: None,
            created_at: 0,
            sessions: Vec::new(),
            command: None,
            runs_in: Vec::new(),
        };
        let stack = history.stack.clone();
        history.points.clear();
        history.add(point, stack);
        history.write(store.directory()).unwrap();
    }

    fn changes(&self) -> usize {
        let tree = |root: &OwnedFd| Tree::new(root.try_clone().unwrap());
        let (merged, base) = (tree(&self.merged), tree(&self.base));
        let Named { about, known, .. } = &self.named;
        let (layers, marks) = (&self.layers[..], about.mounter.marks());
        let interrupt = &|| Ok(());
        let sides = Sides { merged: &merged, base: &base, layers, marks, opened: about.opened, known, interrupt };
        sides.changes(&Selection::all()).unwrap().len()
    }
}

const OLD: [&str; 4] = ["edited", "gone", "old/deep/a", "old/b"];

fn furnish(workspace: &Workspace) {
    fs::create_dir_all(workspace.path().join("old/deep")).unwrap();
    for name in OLD {
        write(workspace.path().join(name), name);
    }
}

/// Makes ten changes.
fn change(workspace: &Workspace) {
    let at = |name: &str| workspace.path().join(name);
    write(at("edited"), "edited again");
    fs::remove_file(at("gone")).unwrap();
    fs::remove_dir_all(at("old")).unwrap();
    fs::create_dir_all(at("new/deep")).unwrap();
    write(at("new/deep/file"), "new");
    fs::set_permissions(at(""), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
}

/// Changes again what was committed.
fn change_again(workspace: &Workspace) {
    let at = |name: &str| workspace.path().join(name);
    write(at("edited"), "edited once more");
    write(at("gone"), "back");
    fs::create_dir_all(at("old/deep")).unwrap();
    write(at("old/deep/a"), "back");
    fs::remove_dir_all(at("new/deep")).unwrap();
    write(at("new/deep"), "a file now");
}

/// Runs a call in a process that ends there.
fn in_process(call: impl FnOnce() -> i32) -> i32 {
    // SAFETY: no other thread of this process holds a lock: the harness waits for this one.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(101);
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the pointer outlives the call.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFEXITED(status));
            libc::WEXITSTATUS(status)
        }
    }
}

/// Kills a commit after each point, or while it is undone, and opens the workspace again.
fn kill_everywhere(workspace: &Workspace, fails: bool) {
    for point in 0.. {
        let workspace = workspace.another();
        furnish(&workspace);
        let code = in_process(|| {
            let mut opened = Opened::new(&workspace);
            change(&workspace);
            opened.keep_a_checkpoint();
            let (store, stack) = (stores_of(&workspace).join("id-x"), opened.named.history.stack.clone());
            let (mut count, mut code, mut is_failing) = (0, 1, fails);
            let done = opened.commit(|reached| {
                code = match reached {
                    Point::Planned => 2,
                    Point::Reversed => 4,
                    _ => code,
                };
                // As the keeper does.
                if reached == Point::Settled && code == 2 {
                    History::new(stack.clone())
                        .write(&open_directory(rustix::fs::CWD, store.as_os_str().as_bytes())?)?;
                }
                if count == point {
                    // SAFETY: ends the process.
                    unsafe { libc::_exit(code) }
                }
                count += 1;
                if is_failing && reached == Point::Applied && count > 18 {
                    (is_failing, code) = (false, 3);
                    return Err(Errno::IO);
                }
                Ok(())
            });
            if done.is_ok() != fails { 0 } else { 101 }
        });
        assert_ne!(code, 101, "after point {point}");
        workspace.unmount();
        // Every workspace with the same directory completes the commit.
        if point % 2 == 0 {
            Stores { path: &stores_of(&workspace), are_temporary: false }
                .sweep(&testing::open(&workspace.path()))
                .unwrap();
        }
        let mut opened = Opened::new(&workspace);
        assert!(!journal::exists(opened.named.store.directory()).unwrap(), "after point {point}");
        let is_committed = match code {
            0 => !fails,
            2 | 3 => true,
            _ => false,
        };
        assert_eq!(opened.changes(), if is_committed { 0 } else { 10 }, "after point {point}");
        // A commit that was completed here ends the checkpoints, and one that has applied nothing leaves them.
        let points = opened.named.history.points.len();
        assert!(
            if code == 2 { points == 0 } else { is_committed || points == 1 },
            "{points} after point {point} with {code}"
        );
        if is_committed {
            change_again(&workspace);
        }
        let outcome = opened.commit(|_| Ok(())).unwrap();
        let applied = if is_committed { 7 } else { 10 };
        assert_eq!(
            outcome,
            Outcome::Committed { applied, skipped: Default::default() },
            "after point {point} with {code}"
        );
        let [merged, base] = [&opened.merged, &opened.base].map(|tree| without_times(&snapshot(tree)));
        assert_eq!(differing(&merged, &base), [""; 0]);
        assert_eq!(state::read_known(opened.named.store.directory()).unwrap(), opened.named.known);
        if code == 0 {
            assert!(point > 15, "only {point} points");
            return;
        }
    }
}

#[test]
fn a_commit_of_a_named_workspace_that_is_killed_is_known_afterwards() {
    in_namespaces("a_commit_of_a_named_workspace_that_is_killed_is_known_afterwards", |workspace| {
        kill_everywhere(&workspace, false);
    });
}

#[test]
fn an_undo_of_a_named_workspace_that_is_killed_is_known_afterwards() {
    in_namespaces("an_undo_of_a_named_workspace_that_is_killed_is_known_afterwards", |workspace| {
        kill_everywhere(&workspace, true);
    });
}

#[test]
fn what_cannot_be_noted_is_noted_later() {
    in_namespaces("what_cannot_be_noted_is_noted_later", |workspace| {
        furnish(&workspace);
        let mut opened = Opened::new(&workspace);
        change(&workspace);
        let failed = opened.commit_and_keep(&|_| Err(Errno::NOSPC), |_| Ok(()));
        let Err(Failure::System(Errno::NOSPC, doing)) = failed else { panic!("{failed:?}") };
        assert!(doing.contains("it has been applied"), "{doing}");
        drop(opened);
        workspace.unmount();
        let mut opened = Opened::new(&workspace);
        assert_eq!(opened.changes(), 0);
        change_again(&workspace);
        let outcome = opened.commit(|_| Ok(())).unwrap();
        assert_eq!(outcome, Outcome::Committed { applied: 7, skipped: Default::default() });
    });
}

#[test]
fn the_layers_of_a_mount_are_in_use() {
    in_namespaces("the_layers_of_a_mount_are_in_use", |workspace| {
        let opened = Opened::new(&workspace);
        let stack = opened.named.history.stack.clone();
        let is_in_use = || layers::are_in_use(opened.named.store.layers().place(), &stack, workspace.mounter);
        assert!(is_in_use());
        let copy = overlay::copy(&opened.merged).unwrap();
        let Opened { merged, base, .. } = &opened;
        assert!(fstat(merged).unwrap().st_dev != fstat(base).unwrap().st_dev);
        workspace.unmount();
        assert!(is_in_use());
        drop(copy);
        let Opened { named, merged, base, .. } = opened;
        drop(merged);
        let end = Instant::now() + Duration::from_secs(10);
        while layers::are_in_use(named.store.layers().place(), &stack, workspace.mounter) {
            assert!(Instant::now() < end);
            std::thread::sleep(LOOK_EVERY);
        }
        // Nothing was mounted or written.
        let upper = layers::top(named.store.layers().place(), &stack, &Tree::new(base)).unwrap();
        assert_eq!(names(&upper).unwrap(), [b""; 0]);
    });
}

#[test]
fn an_opening_that_fails_leaves_the_workspace_as_it_was() {
    in_namespaces("an_opening_that_fails_leaves_the_workspace_as_it_was", |workspace| {
        let stores = stores_of(&workspace);
        let open = || open_unmounted(&workspace).unwrap().0;
        open().cancel();
        assert_eq!(fs::read_dir(&stores).unwrap().count(), 0);
        let named = open();
        let opened = named.about.opened;
        close(&named.store).unwrap();
        drop(named);
        open().cancel();
        assert!(!stores.join("id-x/open").exists());
        assert_eq!(open().about.opened, opened);
    });
}

#[test]
fn a_store_that_was_not_finished_is_removed() {
    in_namespaces("a_store_that_was_not_finished_is_removed", |workspace| {
        let stores = stores_of(&workspace);
        let (named, _) = open_unmounted(&workspace).unwrap();
        let directory = named.store.directory().try_clone().unwrap();
        drop(named);
        // As if the process had ended before the name was given.
        fs::rename(stores.join("id-x"), stores.join("1-test")).unwrap();
        fs::create_dir(stores.join("id-y")).unwrap();
        let all = Stores { path: &stores, are_temporary: false };
        let abandoned = sweep::find(&all.open().unwrap()).unwrap();
        assert_eq!(abandoned.len(), 1);
        sweep::remove_all(&all.open().unwrap(), abandoned);
        let left: Vec<_> = fs::read_dir(&stores).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["id-y"]);
        assert_eq!(names(&directory).unwrap(), [b""; 0]);
        let Err(Failure::Lost(_)) = open(&Wanted {
            stores: all,
            id: "y",
            unique: "1-test",
            path: &workspace.path(),
            base: &opening::open_real(&workspace.path()).unwrap(),
            mounter: workspace.mounter,
        }) else {
            panic!("an empty store was opened")
        };
    });
}
