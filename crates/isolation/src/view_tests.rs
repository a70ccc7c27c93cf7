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
    };
    let found = view(&confined(filesystem, true));
    let expected = [
        Step::Scratch("/tmp".into()),
        Step::Devices,
        Step::Processes,
        Step::Bind(root.clone(), Access::Write),
        Step::Bind(root.join(".git"), Access::Write),
        Step::Bind(hooks, Access::Read),
        Step::Hide(secret),
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
    let filesystem = Filesystem { read: None, write: vec![root.clone()], protect, hide: Vec::new() };
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
