use super::*;
use crate::export::{Contents, Export, export};
use crate::layers::Layers;
use crate::testing::{self, Mounted, Random, Seen, Snapshot, Workspace, differing, open, seeds, snapshot, write};
use nacre_archive::About;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

fn in_namespaces(name: &str, test: impl FnOnce(Workspace)) {
    testing::in_namespaces(&format!("import::tests::{name}"), test);
}

fn own() -> (u32, u32) {
    (geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn run(script: &str, workspace: &Workspace) {
    let done = Command::new("bash").args(["-c", script]).current_dir(workspace.path()).status().unwrap();
    assert!(done.success(), "{script}");
}

/// Writes an archive of a workspace. Returns what it does not have.
fn suspended(mounted: &Mounted) -> (File, Vec<String>, usize) {
    let file = tempfile::tempfile().unwrap();
    let (missing, count) = mounted.compare(|sides| {
        let Export { entries, missing, .. } = export(sides, own()).unwrap();
        let mut contents = Contents::new(sides, &entries);
        nacre_archive::write(&file, About::default(), b"states", &entries, |number| contents.open(number)).unwrap();
        (missing, entries.len())
    });
    (file, missing, count)
}

fn unpacking(rejects: bool) -> Unpacking {
    Unpacking { rejects, max_bytes: 1 << 30, owner: None }
}

/// A workspace that was resumed above the directory of another one, or of its own.
struct Resumed {
    merged: OwnedFd,
    mounted: Mounted,
    differing: Vec<String>,
}

fn resume(file: File, workspace: &Workspace, place: &str) -> std::result::Result<Resumed, Failure> {
    resume_with(file, workspace, place, true)
}

fn resume_with(file: File, workspace: &Workspace, place: &str, rejects: bool) -> std::result::Result<Resumed, Failure> {
    let directory = workspace.directory.path().join(place);
    fs::create_dir(&directory).unwrap();
    let place = rustix::fs::open(&directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let layers = Layers::at(place.try_clone().unwrap()).unwrap();
    let base = open(&workspace.path());
    let import = Import::new(file, &unpacking(rejects), &base)?;
    let first = layers.create(&base).unwrap();
    let differing = import.unpack(&place, first, &base, workspace.mounter.marks())?;
    let merged = workspace.mount_stack(&place, &[first], &base);
    let mounted = Mounted {
        merged: merged.try_clone().unwrap(),
        base,
        layers: layers::trees(&place, &[first]).unwrap(),
        mounter: workspace.mounter,
    };
    let differing = differing.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    Ok(Resumed { merged, mounted, differing })
}

/// What an archive keeps: no bits for set-user-ID and no extended attributes. Sockets are left out.
fn kept(snapshot: &Snapshot) -> Snapshot {
    let is_kept = |seen: &Seen| FileType::from_raw_mode(seen.mode) != FileType::Socket;
    let keep = |seen: &Seen| Seen { mode: seen.mode & !0o6000, attributes: Default::default(), ..seen.clone() };
    snapshot.iter().filter(|(_, seen)| is_kept(seen)).map(|(path, seen)| (path.clone(), keep(seen))).collect()
}

const EVERYTHING: &str = r#"set -e
    echo changed > a; rm gone; chmod 4711 old/b; mkdir -p new/empty; echo new > new/file; ln new/file "$(printf 'new/s\nme')"
    ln -s /etc/passwd new/link; ln -sfn ../a old/was-file; mkfifo new/fifo; truncate -s 5M new/sparse; printf x >> new/sparse
    rm -r old/deep; mkdir old/deep; echo other > old/deep/d; mkdir locked; touch locked/file; chmod 555 locked
    mv moved away || true; chmod 000 a; chmod 1750 .; touch -d @1.5 new/file new/empty; touch old/same; rm -r whole
    mkdir kind; rm -r kind; echo file > kind-d; rm other-kind; mkdir other-kind"#;

fn fill(workspace: &Workspace) {
    for directory in ["old/deep", "moved/inner", "whole/x"] {
        fs::create_dir_all(workspace.path().join(directory)).unwrap();
    }
    let names = [
        "a",
        "gone",
        "old/b",
        "old/same",
        "old/was-file",
        "old/deep/c",
        "moved/inner/e",
        "whole/x/f",
        "other-kind",
        "untouched",
    ];
    for name in names {
        write(workspace.path().join(name), name);
    }
}

#[test]
fn a_resumed_workspace_shows_the_same() {
    in_namespaces("a_resumed_workspace_shows_the_same", |workspace| {
        fill(&workspace);
        let mounted = workspace.mount(1);
        run(EVERYTHING, &workspace);
        drop(std::os::unix::net::UnixListener::bind(workspace.path().join("socket")).unwrap());
        let before = snapshot(&mounted.merged);
        let changes = mounted.changes();
        let (file, missing, _) = suspended(&mounted);
        assert!(missing.contains(&"socket socket".into()), "{missing:?}");
        assert!(missing.contains(&"mode 4000 of old/b".into()), "{missing:?}");
        drop(mounted);
        workspace.unmount();
        let Resumed { merged, mounted, differing: other } = resume(file, &workspace, "resumed").unwrap();
        assert_eq!(other, [""; 0]);
        assert_eq!(differing(&kept(&before), &kept(&snapshot(&merged))), [""; 0]);
        let changes: Vec<_> = changes.into_iter().filter(|change| !change.ends_with(" socket")).collect();
        assert_eq!(mounted.changes(), changes);
        let at = |name: &str| fs::metadata(workspace.path().join(name)).unwrap();
        let (one, two) = (at("new/file"), at("new/s\nme"));
        assert_eq!((one.ino(), one.nlink(), one.mtime(), one.mtime_nsec()), (two.ino(), 2, 1, 500_000_000));
        assert_eq!((at("new/empty").mtime(), at("new/empty").mtime_nsec()), (1, 500_000_000));
        let sparse = at("new/sparse");
        assert!(sparse.len() > 5 << 20 && sparse.blocks() * 512 < 1 << 20);
        assert_eq!(rustix::fs::fstat(merged.as_fd()).unwrap().st_mode & 0o7777, 0o1750);
    });
}

#[test]
fn an_unchanged_workspace_is_nearly_empty() {
    in_namespaces("an_unchanged_workspace_is_nearly_empty", |workspace| {
        fill(&workspace);
        let mounted = workspace.mount(1);
        let (_, missing, entries) = suspended(&mounted);
        assert_eq!((missing.len(), entries), (0, 1));
        // The content is copied up, and is the same. Only a time differs.
        run("chmod 600 old/b; chmod 644 old/b; touch -d @1 a", &workspace);
        let (file, missing, entries) = suspended(&mounted);
        assert_eq!((missing.len(), entries), (0, 3));
        drop(mounted);
        workspace.unmount();
        assert_eq!(resume(file, &workspace, "resumed").unwrap().mounted.changes(), [""; 0]);
    });
}

#[test]
fn random_changes_in_several_layers_come_back() {
    in_namespaces("random_changes_in_several_layers_come_back", |mut workspace| {
        for seed in seeds(60) {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut script = |steps: usize| {
                let mut lines = String::new();
                for _ in 0..steps {
                    let mut path = || {
                        let names = ["a", "b", "c"];
                        let depth = 1 + random.below(3);
                        (0..depth).map(|_| names[random.below(names.len())]).collect::<Vec<_>>().join("/")
                    };
                    let (one, two) = (path(), path());
                    let step = match random.below(10) {
                        0 | 1 => format!("rm -rf {one}"),
                        2 => format!("mkdir -p {one}"),
                        3 => format!("mv -T {one} {two}"),
                        4 => format!("ln -sfn ../{two} {one}"),
                        5 => format!("ln -f {one} {two}"),
                        6 => format!("chmod {} {one}", ["755", "600", "1777"][random.below(3)]),
                        7 => format!(
                            "rm -rf {one} && mkdir -p {one} && echo {seed} > {one}/{}",
                            ["a", "b"][random.below(2)]
                        ),
                        _ => format!("mkdir -p $(dirname {one}) && echo {} > {one}", random.below(5)),
                    };
                    lines.push_str(&format!("{{ {step}; }} 2>/dev/null\n"));
                }
                lines + "true"
            };
            run(&script(25), &workspace);
            let mut before = Snapshot::new();
            let (mut archive, mut changes) = (None, Vec::new());
            let count = 1 + seed as usize % 3;
            let scripts: Vec<String> = (0..count).map(|_| script(15)).collect();
            for (at, text) in scripts.iter().enumerate() {
                let mounted = workspace.mount(at + 1);
                run(text, &workspace);
                if at + 1 == count {
                    before = snapshot(&mounted.merged);
                    changes = mounted.changes();
                    archive = Some(suspended(&mounted).0);
                }
                drop(mounted);
                workspace.unmount();
            }
            let Resumed { merged, mounted, .. } = resume(archive.unwrap(), &workspace, "resumed").unwrap();
            assert_eq!(differing(&kept(&before), &kept(&snapshot(&merged))), [""; 0], "seed {seed}");
            assert_eq!(mounted.changes(), changes, "seed {seed}");
            drop((merged, mounted));
            let next = workspace.another();
            workspace = next;
        }
    });
}

#[test]
fn another_real_directory_is_noticed() {
    in_namespaces("another_real_directory_is_noticed", |workspace| {
        fill(&workspace);
        let mounted = workspace.mount(1);
        run(
            "echo 1 > a; rm gone; rm -r whole; mkdir whole; echo 2 > old/deep/c; echo 3 > made; rm -r moved",
            &workspace,
        );
        let (file, _, _) = suspended(&mounted);
        drop(mounted);
        workspace.unmount();
        let archive = || {
            let mut copy = tempfile::tempfile().unwrap();
            let mut file = &file;
            std::io::Seek::rewind(&mut file).unwrap();
            io::copy(&mut file, &mut copy).unwrap();
            copy
        };
        // What it does not touch may differ, and so may what it hides or has deleted as a whole.
        run(
            "echo x > untouched; echo x > old/b; echo x > whole/x/f; echo x > moved/inner/e; echo x > new-one",
            &workspace,
        );
        assert_eq!(resume(archive(), &workspace, "same").unwrap().differing, [""; 0]);
        workspace.unmount();
        run("echo x > a; echo x > gone; rm -r old/deep; echo x > made", &workspace);
        let Err(Failure::Differs { paths, count }) = resume(archive(), &workspace, "rejected") else { panic!() };
        assert_eq!((paths.len(), count), (5, 5));
        let other = resume_with(archive(), &workspace, "reported", false).unwrap();
        let mut differing = other.differing.clone();
        differing.sort();
        assert_eq!(differing, ["a", "gone", "made", "old/deep", "old/deep/c"]);
        let read = |name: &str| fs::read_to_string(workspace.path().join(name)).unwrap();
        assert_eq!([read("a"), read("old/deep/c"), read("made"), read("untouched")], ["1\n", "2\n", "3\n", "x\n"]);
        assert!(!workspace.path().join("gone").exists() && !workspace.path().join("moved").exists());
        assert_eq!(fs::read_dir(workspace.path().join("whole")).unwrap().count(), 0);
    });
}

#[test]
fn a_real_directory_that_is_missing_shows_no_marks() {
    in_namespaces("a_real_directory_that_is_missing_shows_no_marks", |workspace| {
        fill(&workspace);
        let mounted = workspace.mount(1);
        run("rm old/b old/deep/c; echo 1 > old/deep/new", &workspace);
        let (file, _, _) = suspended(&mounted);
        drop(mounted);
        workspace.unmount();
        run("rm -r old", &workspace);
        resume_with(file, &workspace, "resumed", false).unwrap();
        let names = |directory: &str| {
            let mut names: Vec<_> = fs::read_dir(workspace.path().join(directory))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        assert_eq!((names("old"), names("old/deep")), (vec!["deep".into()], vec!["new".into()]));
    });
}

#[test]
fn files_of_other_users_come_back_as_the_own() {
    in_namespaces("files_of_other_users_come_back_as_the_own", |workspace| {
        if workspace.mounter != crate::overlay::Mounter::Root {
            return;
        }
        fill(&workspace);
        run("chown 1234:1234 old/b", &workspace);
        let mounted = workspace.mount(1);
        run("echo 1 > made; chown 7:7 made; echo 2 > old/b; echo 3 > a; chown 8:8 a", &workspace);
        let (file, missing, _) = suspended(&mounted);
        assert_eq!(missing, ["owner 8:8 of a", "owner 7:7 of made"]);
        drop(mounted);
        workspace.unmount();
        resume(file, &workspace, "resumed").unwrap();
        let owner = |name: &str| fs::metadata(workspace.path().join(name)).unwrap().uid();
        assert_eq!([owner("made"), owner("old/b"), owner("a")], [0, 1234, 0]);
    });
}
