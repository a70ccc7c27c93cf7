//! Forks: what they share with their parent, and what becomes of it.

use super::*;

/// Makes forks, and lets the parent change over as its sessions do.
fn fork(parent: &mut Open, root: &Path, options: &Options, may_seal: bool) -> Result<Vec<Open>, Error> {
    let fork = parent.workspace.fork(may_seal)?;
    if fork.is_sealed() {
        parent.mount = Some(parent.workspace.share()?.1);
    }
    let opened = (0..2).map(|_| {
        let workspace = workspace_in(root, Options { id: None, ..options.clone() });
        workspace.open_as(&fork)?;
        Open::new(workspace)
    });
    let opened = opened.collect();
    fork.end();
    opened
}

fn forks(parent: &mut Open, place: &Place) -> Vec<Open> {
    fork(parent, place.root(), &place.options(None), true).unwrap()
}

/// The stores, each with its layers.
fn stored(place: &Place) -> Vec<(String, Vec<String>)> {
    let names = |path: &Path| {
        let entries = fs::read_dir(path).map_or_else(|_| Vec::new(), |entries| entries.flatten().collect());
        let mut names: Vec<_> = entries.iter().map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let layers = |name: String| {
        let layers = names(&place.stores().join(&name)).into_iter().filter(|inner| inner.starts_with("layer-"));
        (name, layers.collect())
    };
    names(&place.stores()).into_iter().map(layers).collect()
}

/// The number of layers in each store.
fn layers(place: &Place) -> Vec<usize> {
    stored(place).iter().map(|(_, layers)| layers.len()).collect()
}

fn is_empty(place: &Place) -> bool {
    !place.stores().exists()
}

const INITIAL: &str = "set -e
    echo changed > a; rm b; mkdir -p new/deep; echo one > new/deep/file; mv sub moved || { cp -a sub moved; rm -r sub; }
    mkdir sub; echo other > sub/d; ln new/deep/file linked; chmod 700 new";

fn run(open: &Open, script: &str) {
    let done = Command::new("sh").args(["-c", script]).current_dir(open.at("")).status().unwrap();
    assert!(done.success());
}

fn seen(open: &Open) -> String {
    let listing = "find . -printf '%p %y %m %n %l\n' | sort; find . -type f -exec sha1sum {} + | sort";
    let output = Command::new("sh").args(["-c", listing]).current_dir(open.at("")).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn they_begin_with_the_same_and_go_on_independently() {
    in_tiers("forks::they_begin_with_the_same_and_go_on_independently", || {
        for may_seal in [true, false] {
            let place = Place::new();
            let options = place.options(None);
            let mut parent = Open::new(place.workspace(options.clone())).unwrap();
            run(&parent, INITIAL);
            let (point, is_sealed) = parent.workspace.checkpoint(None, Vec::new(), b"text", may_seal).unwrap();
            if is_sealed {
                parent.mount = Some(parent.workspace.share().unwrap().1);
            }
            run(&parent, "echo later > later; rm a");
            let before = (seen(&parent), parent.changes());
            let mut first = fork(&mut parent, place.root(), &options, may_seal).unwrap();
            let mut second = fork(&mut first[0], place.root(), &options, may_seal).unwrap();
            for open in [&parent, &first[0], &first[1], &second[0], &second[1]] {
                assert_eq!((seen(open), open.changes()), before);
                assert_eq!(open.workspace.checkpoints().unwrap(), std::slice::from_ref(&point));
            }
            run(&parent, "rm -r new; echo parent > a");
            run(&first[0], "echo first > a; echo first > new/deep/file");
            run(&second[1], "rm -r *; mkdir new");
            assert_eq!((seen(&first[1]), first[1].changes()), before);
            assert_eq!((seen(&second[0]), second[0].changes()), before);
            assert_eq!((parent.read("a").trim(), first[0].read("a").trim()), ("parent", "first"));
            assert!(!second[1].at("a").exists() && second[1].at("new").is_dir());
            // A later one has what its parent has then.
            second.extend(fork(&mut first[0], place.root(), &options, may_seal).unwrap());
            assert_eq!(seen(&second[2]), seen(&first[0]));
            // The checkpoint outlives its deletion elsewhere.
            parent.workspace.delete_checkpoint(point.number).unwrap();
            parent.close();
            let (_, text) = second[0].workspace.prepare(Some(point.number)).unwrap();
            assert_eq!(text, b"text");
            second[0].workspace.switch().unwrap();
            second[0].mount = Some(second[0].workspace.share().unwrap().1);
            assert_eq!(second[0].read("a").trim(), "changed");
            assert!(!second[0].at("later").exists());
            for open in first.into_iter().chain(second) {
                open.close();
            }
            assert!(is_empty(&place), "{:?}", stored(&place));
        }
    });
}

#[test]
fn the_last_one_removes_a_layer() {
    in_tiers("forks::the_last_one_removes_a_layer", || {
        let place = Place::new();
        let mut parent = Open::new(place.workspace(place.options(None))).unwrap();
        run(&parent, INITIAL);
        let first = forks(&mut parent, &place);
        run(&parent, "echo more > more");
        let second = forks(&mut parent, &place);
        run(&parent, "echo later > later");
        let point = parent.workspace.checkpoint(None, Vec::new(), b"", true).unwrap();
        assert!(point.1);
        assert_eq!(layers(&place), [4, 1, 1, 1, 1]);
        parent.close();
        // The layers of the checkpoint and of the later writes are not used.
        assert_eq!(layers(&place), [2, 1, 1, 1, 1]);
        for open in second {
            assert_eq!(open.read("more"), "more\n");
            open.close();
        }
        assert_eq!(layers(&place), [1, 1, 1]);
        for open in first {
            assert_eq!(open.read("new/deep/file"), "one\n");
            open.close();
        }
        assert!(is_empty(&place), "{:?}", stored(&place));
    });
}

#[test]
fn many_that_end_at_the_same_time_leave_nothing() {
    in_tiers("forks::many_that_end_at_the_same_time_leave_nothing", || {
        for _ in 0..10 {
            let place = Place::new();
            let mut parent = Open::new(place.workspace(place.options(None))).unwrap();
            run(&parent, INITIAL);
            let mut all = forks(&mut parent, &place);
            let mut more = forks(&mut all[0], &place);
            all.append(&mut more);
            all.push(parent);
            std::thread::scope(|scope| {
                for open in all {
                    scope.spawn(|| open.close());
                }
            });
            assert!(is_empty(&place), "{:?}", stored(&place));
        }
    });
}

#[test]
fn a_keeper_that_is_killed_matters_to_no_other() {
    in_tiers("forks::a_keeper_that_is_killed_matters_to_no_other", || {
        let place = Place::new();
        let before = children();
        let mut parent = Open::new(place.workspace(place.options(None))).unwrap();
        let keeper = children().into_iter().find(|pid| !before.contains(pid)).unwrap();
        run(&parent, INITIAL);
        let mut first = forks(&mut parent, &place);
        let here = seen(&first[0]);
        kill(keeper);
        parent.close();
        // Each new workspace removes what keepers that died have left.
        let sweeping = Open::new(place.workspace(place.options(None))).unwrap();
        until("what is not used is removed", || layers(&place) == [1, 1, 1, 1]);
        sweeping.close();
        let mut second = forks(&mut first[0], &place);
        let before = children();
        let third = forks(&mut second[1], &place);
        second.extend(third);
        let killed = children().into_iter().filter(|pid| !before.contains(pid)).collect::<Vec<_>>();
        assert_eq!(killed.len(), 2);
        killed.into_iter().for_each(kill);
        for open in first.into_iter().chain(second.drain(..2)) {
            assert_eq!(seen(&open), here);
            open.close();
        }
        drop(second);
        let sweeping = Open::new(place.workspace(place.options(None))).unwrap();
        until("what was left is removed", || layers(&place) == [1]);
        sweeping.close();
        assert!(is_empty(&place));
    });
}

#[test]
fn a_named_parent_can_be_opened_again_but_not_deleted() {
    in_tiers("forks::a_named_parent_can_be_opened_again_but_not_deleted", || {
        let place = Place::new();
        let mut parent = place.open();
        run(&parent, INITIAL);
        let first = fork(&mut parent, place.root(), &place.options(None), true).unwrap();
        run(&parent, "echo more > more");
        // These have copies, which the parent itself does not use.
        let second = fork(&mut parent, place.root(), &place.options(None), false).unwrap();
        let here = seen(&parent);
        parent.close();
        let refused = || {
            let error = place.delete("x").unwrap_err();
            assert_eq!(error.code, Code::WorkspaceInUse);
            assert!(error.message.contains("forks still use its layers"), "{error}");
        };
        refused();
        let again = place.open();
        assert_eq!((seen(&again), seen(&second[0])), (here.clone(), here.clone()));
        run(&again, "rm -r *");
        again.close();
        assert_eq!(seen(&second[1]), here);
        let count = || stored(&place).into_iter().find(|(name, _)| name == "id-x").unwrap().1.len();
        assert_eq!(count(), 3);
        for open in second {
            refused();
            open.close();
        }
        assert_eq!(count(), 2);
        for open in first {
            refused();
            assert!(!open.at("more").exists());
            open.close();
        }
        place.delete("x").unwrap();
        assert!(place.list().is_empty());
    });
}

#[test]
fn each_has_a_limit_in_memory_of_its_own() {
    in_tiers("forks::each_has_a_limit_in_memory_of_its_own", || {
        let place = Place::new();
        let options = Options { memory: true, max_bytes: Some(4 << 20), ..place.options(None) };
        let mut parent = Open::new(place.workspace(options.clone())).unwrap();
        parent.write("large", &"x".repeat(3 << 20));
        let mut first = fork(&mut parent, place.root(), &options, true).unwrap();
        first[0].write("other", &"y".repeat(3 << 20));
        let full = fs::write(first[0].at("third"), "z".repeat(3 << 20)).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(nix::libc::ENOSPC));
        first[1].write("other", &"y".repeat(3 << 20));
        parent.close();
        let second = fork(&mut first[0], place.root(), &options, true).unwrap();
        for open in first.into_iter().chain(second) {
            assert_eq!(open.read("large").len() + open.read("other").len(), 6 << 20);
            assert!(open.workspace.usage().unwrap().bytes <= 4 << 20);
            open.close();
        }
        assert!(is_empty(&place), "{:?}", stored(&place));
    });
}

#[test]
fn commits_find_conflicts_with_each_other() {
    in_tiers("forks::commits_find_conflicts_with_each_other", || {
        let place = Place::new();
        let mut parent = Open::new(place.workspace(place.options(None))).unwrap();
        parent.write("b", "committed before");
        assert_eq!(parent.commit().unwrap(), 1);
        parent.write("a", "all have this");
        fs::create_dir(parent.at("made")).unwrap();
        parent.write("made/x", "x");
        let mut forked = forks(&mut parent, &place);
        for (at, open) in forked.iter().enumerate() {
            // What the parent has committed is no conflict.
            open.write("b", &format!("{at}"));
            open.write("made/y", "y");
        }
        assert_eq!(forked[0].commit().unwrap(), 5);
        // The same change on both sides is none.
        assert_eq!(forked[1].conflicts(), ["b"]);
        assert!(fs::read_to_string(place.real("b")).unwrap() == "0");
        // What is deleted after the commit does not come back from the real directory.
        run(&forked[0], "rm made/y a");
        let mut again = forks(&mut forked[0], &place);
        for open in [&forked[0], &again[0]] {
            assert!(!open.at("made/y").exists() && open.at("made/x").exists());
            assert_eq!(open.changes(), ["Deleted a", "Deleted made/y"]);
        }
        assert_eq!(again.remove(0).commit().unwrap(), 2);
        assert!(!place.real("made/y").exists());
        for open in forked.into_iter().chain(again).chain([parent]) {
            open.close();
        }
        assert!(is_empty(&place), "{:?}", stored(&place));
    });
}

#[test]
fn they_merge_their_own_layers() {
    in_tiers("forks::they_merge_their_own_layers", || {
        let place = Place::new();
        let mut parent = Open::new(place.workspace(place.options(None))).unwrap();
        let options = Options { undo_steps: 3, ..place.options(None) };
        let mut last = fork(&mut parent, place.root(), &options, true).unwrap().remove(0);
        for generation in 0..3 {
            let mut least = u64::MAX;
            for round in 0..60 {
                last.write(&format!("file-{}", round % 20), &format!("{generation} {round}"));
                let made = last.workspace.step(("command".into(), Vec::new()), Vec::new(), b"text", true).unwrap();
                assert!(matches!(made, Some((_, true))));
                last.mount = Some(last.workspace.share().unwrap().1);
                least = if round > 40 { least.min(last.workspace.usage().unwrap().layers) } else { least };
            }
            assert!(least < 25, "never less than {least} layers");
            let next = fork(&mut last, place.root(), &options, true).unwrap().remove(0);
            std::mem::replace(&mut last, next).close();
            assert!(
                (40..60).all(|round| last.read(&format!("file-{}", round % 20)) == format!("{generation} {round}"))
            );
            assert_eq!(last.workspace.prepare(None).unwrap_err().code, Code::CheckpointNotFound);
        }
        last.close();
        parent.close();
        assert!(is_empty(&place), "{:?}", stored(&place));
    });
}

/// More than the kernel can mount above one another, in the ring full: they take 20 seconds.
fn generations() -> usize {
    if std::env::var_os("NACRE_TEST_REST").is_some() { 220 } else { 30 }
}

#[test]
fn they_have_any_number_of_generations() {
    in_tiers("forks::they_have_any_number_of_generations", || {
        let place = Place::new();
        let mut last = Open::new(place.workspace(place.options(None))).unwrap();
        let generations = generations();
        for generation in 0..generations {
            last.write("file", &generation.to_string());
            last.write(&format!("file-{generation}"), "kept");
            let next = fork(&mut last, place.root(), &place.options(None), true).unwrap().remove(0);
            std::mem::replace(&mut last, next).close();
        }
        assert_eq!(last.read("file"), (generations - 1).to_string());
        assert!((0..generations).all(|generation| last.read(&format!("file-{generation}")) == "kept"));
        last.close();
        assert!(is_empty(&place), "{:?}", stored(&place));
    });
}

#[test]
fn they_are_refused_in_another_directory() {
    in_tiers("forks::they_are_refused_in_another_directory", || {
        let place = Place::new();
        let mut parent = Open::new(place.workspace(place.options(None))).unwrap();
        fs::rename(place.real(""), place.root().join("away")).unwrap();
        fs::create_dir(place.real("")).unwrap();
        let error = fork(&mut parent, place.root(), &place.options(None), true).err().unwrap();
        assert!(error.message.contains("its directory was replaced by another one"), "{error}");
        parent.close();
        assert!(is_empty(&place), "{:?}", stored(&place));
    });
}
