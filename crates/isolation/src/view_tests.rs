use super::*;
use nacre_protocol::confinement::{Confinement, Filesystem, Namespaces};

fn confined(filesystem: Filesystem, processes: bool) -> Confinement {
    let namespaces = Namespaces { user: false, ipc: true, network: false, processes };
    Confinement {
        filesystem: Some(filesystem),
        restricts: true,
        ..Confinement::open(namespaces, "/".into(), "/bin/sh".into())
    }
}

#[test]
fn writable_trees_come_after_the_private_directories_and_hidden_ones_last() {
    let kept = tempfile::tempdir().unwrap();
    let root = kept.path().canonicalize().unwrap();
    let [hooks, secret] = [".git/hooks", "secret"].map(|name| root.join(name));
    std::fs::create_dir_all(&hooks).unwrap();
    std::fs::create_dir_all(&secret).unwrap();
    let filesystem = Filesystem {
        read: None,
        write: vec![root.clone()],
        protect: vec![hooks.clone()],
        hide: vec![secret.clone(), root.join("missing")],
        ..Filesystem::default()
    };
    let found = view(&confined(filesystem, true));
    let expected = [
        Step::Scratch("/tmp".into()),
        Step::Devices,
        Step::Processes,
        Step::Bind(root.clone(), Access::Write),
        Step::Bind(root.join(".git"), Access::Write),
        Step::Bind(hooks, Access::Read),
        Step::Hide(secret.clone(), secret),
    ];
    assert_eq!((found.only, found.steps), (None, expected.to_vec()));
}

#[test]
fn a_writable_tmp_is_the_machines_own() {
    let filesystem = Filesystem { write: vec!["/tmp".into()], ..Filesystem::default() };
    let found = view(&confined(filesystem, false));
    assert_eq!(found.steps, [Step::Devices, Step::Bind("/tmp".into(), Access::Write)]);
}

#[test]
fn a_list_of_readable_trees_begins_with_what_programs_need() {
    let filesystem = Filesystem { read: Some(vec!["/var".into()]), ..Filesystem::default() };
    let only = view(&confined(filesystem, false)).only.unwrap();
    assert!(
        ["/usr", "/var", "/bin/sh"].iter().all(|path| only.contains(&PathBuf::from(path)))
            && !only.contains(&PathBuf::from("/")),
        "{only:?}"
    );
}

#[test]
fn a_writable_root_is_no_mount_over_the_private_processes() {
    let filesystem = Filesystem { read: Some(vec![]), write: vec!["/".into(), "/var".into()], ..Filesystem::default() };
    let found = view(&confined(filesystem, true));
    assert_eq!((found.only, found.access), (None, Access::Write));
    assert_eq!(found.steps, [Step::Devices, Step::Processes, Step::Bind("/var".into(), Access::Write)]);
}

#[test]
fn a_hidden_tmp_is_the_private_one() {
    let filesystem = Filesystem { hide: vec!["/tmp".into()], ..Filesystem::default() };
    assert_eq!(view(&confined(filesystem, false)).steps, [Step::Scratch("/tmp".into()), Step::Devices]);
}

#[test]
fn no_mount_covers_a_protected_tree() {
    let kept = tempfile::tempdir().unwrap();
    let root = kept.path().canonicalize().unwrap();
    let [config, hooks, inner] = ["git/config", "git/hooks", "git/hooks/inner"].map(|name| root.join(name));
    for path in [&config, &inner] {
        std::fs::create_dir_all(path).unwrap();
    }
    let protect = vec![inner, hooks.clone(), config.clone()];
    let filesystem = Filesystem { write: vec![root.clone()], protect, ..Filesystem::default() };
    let binds: Vec<Step> =
        view(&confined(filesystem, false)).steps.into_iter().filter(|step| matches!(step, Step::Bind(..))).collect();
    let expected = [
        Step::Bind(root.clone(), Access::Write),
        Step::Bind(root.join("git"), Access::Write),
        Step::Bind(config, Access::Read),
        Step::Bind(hooks, Access::Read),
    ];
    assert!(binds.ends_with(&expected), "{binds:?}");
}

fn mount(source: &Path, target: &Path) -> Mount {
    Mount { source: source.into(), target: target.into() }
}

/// A directory with a source, what else a test names, and rules that mount the source at `target` in it.
fn mounted(target: &str, others: &[&str], rules: impl FnOnce(&Path) -> Filesystem) -> (tempfile::TempDir, View) {
    let kept = tempfile::tempdir_in("/var/tmp").unwrap();
    for name in others.iter().chain(&["source"]) {
        std::fs::create_dir_all(kept.path().join(name)).unwrap();
    }
    let mounts = vec![mount(&kept.path().join("source"), &kept.path().join(target))];
    let found = view(&confined(Filesystem { mounts, ..rules(kept.path()) }, false));
    (kept, found)
}

#[test]
fn rules_for_parts_of_a_source_follow_it_to_its_target() {
    let others = ["target", "source/git/hooks", "source/secret"];
    let (kept, found) = mounted("target", &others, |root| Filesystem {
        protect: vec![root.join("source/git/hooks")],
        hide: vec![root.join("source/secret")],
        ..Filesystem::default()
    });
    let [source, target] = ["source", "target"].map(|name| kept.path().join(name));
    let expected = [
        Step::Hide(source.join("secret"), source.join("secret")),
        Step::Show(source.clone(), target.clone(), Access::Write),
        Step::Show(source.join("git"), target.join("git"), Access::Write),
        Step::Show(source.join("git/hooks"), target.join("git/hooks"), Access::Read),
        Step::Hide(source.join("secret"), target.join("secret")),
    ];
    assert!(found.steps.ends_with(&expected), "{:?}", found.steps);
    let (kept, found) =
        mounted("target", &["target"], |root| Filesystem { protect: vec![root.into()], ..Filesystem::default() });
    let [source, target] = ["source", "target"].map(|name| kept.path().join(name));
    assert_eq!(found.steps.last(), Some(&Step::Show(source, target, Access::Read)));
}

#[test]
fn what_is_hidden_in_a_source_is_hidden_at_its_target_even_if_all_of_it_is_protected_or_hidden() {
    let kept = tempfile::tempdir_in("/var/tmp").unwrap();
    let [source, target] = ["source", "target"].map(|name| kept.path().join(name));
    let [secret, state] = ["secret", "state"].map(|name| source.join(name));
    for path in [&secret, &state, &target] {
        std::fs::create_dir_all(path).unwrap();
    }
    for protect in [vec![], vec![source.clone()]] {
        let access = if protect.is_empty() { Access::Write } else { Access::Read };
        let hide = vec![source.clone(), secret.clone()];
        let filesystem = Filesystem { protect, hide, mounts: vec![mount(&source, &target)], ..Filesystem::default() };
        let found = view(&Confinement { private: vec![state.clone()], ..confined(filesystem, false) });
        let expected = [
            Step::Show(source.clone(), target.clone(), access),
            Step::Hide(secret.clone(), target.join("secret")),
            Step::Hide(state.clone(), target.join("state")),
        ];
        assert!(found.steps.ends_with(&expected), "{:?}", found.steps);
    }
}

#[test]
fn a_rule_about_what_a_mount_covers_does_not_apply_to_what_it_shows() {
    let (_kept, found) = mounted("target", &["target/secret"], |root| Filesystem {
        hide: vec![root.join("target/secret")],
        write: vec![root.join("target")],
        ..Filesystem::default()
    });
    assert!(matches!(found.steps.last(), Some(Step::Show(..))), "{:?}", found.steps);
    assert!(!found.steps.iter().any(|step| matches!(step, Step::Hide(..))), "{:?}", found.steps);
}

#[test]
fn a_missing_target_is_made_in_a_private_directory_with_all_that_the_machine_has_there() {
    let (kept, found) = mounted("homes/a/b", &["homes/z", "homes/y"], |_| Filesystem::default());
    let homes = kept.path().join("homes");
    let expected = [Step::Frame(homes.clone()), Step::Keep(homes.join("y")), Step::Keep(homes.join("z"))];
    assert!(found.steps.starts_with(&expected), "{:?}", found.steps);
    assert_eq!(found.only, None);
}

#[test]
fn no_private_directory_is_made_where_the_target_can_be_made_or_is_writable() {
    let hides = |root: &Path| Filesystem { hide: vec![root.join("homes")], ..Filesystem::default() };
    let (kept, found) = mounted("homes/a", &["homes"], hides);
    let frames =
        |view: &View| view.steps.iter().filter(|step| matches!(step, Step::Frame(_))).cloned().collect::<Vec<_>>();
    assert_eq!(frames(&found), [Step::Frame(kept.path().join("homes"))], "the hidden directory itself");
    let lists = |_: &Path| Filesystem { read: Some(vec![]), ..Filesystem::default() };
    assert_eq!(frames(&mounted("homes/a", &["homes"], lists).1), []);
    let writes = |root: &Path| Filesystem { write: vec![root.into()], ..Filesystem::default() };
    assert_eq!(frames(&mounted("homes/a", &["homes"], writes).1), []);
    assert_eq!(frames(&mounted("homes", &["homes"], |_| Filesystem::default()).1), []);
}

#[test]
fn for_a_missing_target_below_the_root_the_view_starts_from_an_empty_root() {
    let mounts = vec![mount(Path::new("/var/tmp"), Path::new("/nacre-missing/a"))];
    let found = view(&confined(Filesystem { mounts: mounts.clone(), ..Filesystem::default() }, false));
    let only = found.only.unwrap();
    assert!(["/etc", "/usr", "/var"].iter().all(|path| only.contains(&PathBuf::from(path))), "{only:?}");
    assert!(!found.steps.iter().any(|step| matches!(step, Step::Frame(_))));
    let all = Filesystem { read: Some(vec!["/".into()]), mounts, ..Filesystem::default() };
    let only = view(&confined(all, false)).only.unwrap();
    assert!(only.contains(&PathBuf::from("/etc")) && !only.contains(&PathBuf::from("/")), "{only:?}");
}
