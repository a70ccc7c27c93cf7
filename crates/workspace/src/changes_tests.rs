use super::*;
use crate::testing::{self, Workspace, write};
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

fn in_namespaces(name: &str, test: impl FnOnce(Workspace)) {
    testing::in_namespaces(&format!("changes::tests::{name}"), test);
}

#[test]
fn every_kind_of_change_is_found() {
    in_namespaces("every_kind_of_change_is_found", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        for name in ["kept", "same", "touched", "edited", "sized", "gone", "mode", "to-link"] {
            write(at(name), "content");
        }
        symlink("kept", at("link")).unwrap();
        fs::create_dir_all(at("old/deep")).unwrap();
        write(at("old/deep/a"), "a");
        write(at("old/b"), "b");
        let mounted = workspace.mount(1);
        assert_eq!(mounted.changes(), [""; 0]);

        write(at("same"), "content");
        File::options().append(true).open(at("touched")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        write(at("edited"), "CONTENT");
        write(at("sized"), "longer content");
        fs::remove_file(at("gone")).unwrap();
        fs::set_permissions(at("mode"), PermissionsExt::from_mode(0o4711)).unwrap();
        fs::remove_file(at("to-link")).unwrap();
        symlink("nowhere", at("to-link")).unwrap();
        fs::remove_file(at("link")).unwrap();
        symlink("edited", at("link")).unwrap();
        fs::remove_dir_all(at("old")).unwrap();
        fs::create_dir_all(at("new/deep")).unwrap();
        write(at("new/deep/file"), "");
        let fifo = CString::new(at("fifo").as_os_str().as_bytes()).unwrap();
        // SAFETY: the path outlives the call.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        assert_eq!(
            mounted.changes(),
            [
                "modified edited",
                "created fifo",
                "deleted gone",
                "modified link",
                "metadata mode",
                "created new",
                "created new/deep",
                "created new/deep/file",
                "deleted old",
                "deleted old/b",
                "deleted old/deep",
                "deleted old/deep/a",
                "modified sized",
                "replaced to-link",
            ]
        );
        let some = mounted.changes_of(&Selection::of(vec![b"new/deep".to_vec(), b"old/b".to_vec(), b"mode".to_vec()]));
        let paths: Vec<_> = some.iter().map(|change| String::from_utf8_lossy(&change.path)).collect();
        assert_eq!(paths, ["mode", "new/deep", "new/deep/file", "old/b"]);
        let entry = |mode: u32| Some(ChangedEntry { kind: Kind::File, size: 7, mode });
        assert_eq!((some[0].now, some[0].before.map(|before| before.size)), (entry(0o4711), Some(7)));
        assert_eq!((some[3].now, some[3].before.map(|before| before.size)), (None, Some(1)));
    });
}

#[test]
fn what_is_put_back_is_no_change() {
    in_namespaces("what_is_put_back_is_no_change", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        fs::create_dir(at("directory")).unwrap();
        write(at("directory/file"), "content");
        let mounted = workspace.mount(1);
        fs::remove_dir_all(at("directory")).unwrap();
        write(at("directory"), "a file now");
        assert_eq!(mounted.changes(), ["replaced directory", "deleted directory/file"]);
        fs::remove_file(at("directory")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        write(at("directory/file"), "content");
        write(at("directory/more"), "");
        assert_eq!(mounted.changes(), ["created directory/more"]);
        fs::remove_file(at("directory/more")).unwrap();
        assert_eq!(mounted.changes(), [""; 0]);
    });
}

#[test]
fn a_renamed_directory_is_deleted_and_created() {
    in_namespaces("a_renamed_directory_is_deleted_and_created", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        fs::create_dir_all(at("old/below")).unwrap();
        write(at("old/below/file"), "content");
        let mounted = workspace.mount(1);
        // Without root, the kernel cannot rename it: `mv` copies then.
        let moved = Command::new("mv").args([at("old"), at("new")]).status().unwrap();
        assert!(moved.success());
        let expected = [
            "created new",
            "created new/below",
            "created new/below/file",
            "deleted old",
            "deleted old/below",
            "deleted old/below/file",
        ];
        assert_eq!(mounted.changes(), expected);
        fs::write(at("new/below/file"), "more content").unwrap();
        assert_eq!(mounted.changes(), expected);
    });
}

#[test]
fn changes_of_all_layers_count_once() {
    in_namespaces("changes_of_all_layers_count_once", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        for name in ["a", "b", "c"] {
            write(at(name), "content");
        }
        workspace.mount(1);
        write(at("a"), "changed");
        fs::remove_file(at("b")).unwrap();
        fs::create_dir(at("made")).unwrap();
        write(at("made/file"), "");
        workspace.unmount();
        workspace.mount(2);
        write(at("a"), "content");
        assert!(Command::new("mv").args([at("made"), at("renamed")]).status().unwrap().success());
        workspace.unmount();
        let mounted = workspace.mount(3);
        write(at("renamed/more"), "");
        fs::remove_file(at("c")).unwrap();
        assert_eq!(
            mounted.changes(),
            ["deleted b", "deleted c", "created renamed", "created renamed/file", "created renamed/more"]
        );
    });
}

#[test]
fn a_directory_hides_what_a_layer_below_deletes() {
    in_namespaces("a_directory_hides_what_a_layer_below_deletes", |workspace| {
        let at = |name: &str| workspace.path().join(name);
        for name in ["made", "moved", "deep/made"] {
            fs::create_dir_all(at(name)).unwrap();
            write(at(name).join("old"), "");
        }
        workspace.mount(1);
        for name in ["made", "moved", "deep/made"] {
            fs::remove_dir_all(at(name)).unwrap();
        }
        write(at("moved"), "a file for a while");
        fs::create_dir(at("new")).unwrap();
        workspace.unmount();
        workspace.mount(2);
        fs::remove_file(at("moved")).unwrap();
        workspace.unmount();
        let mounted = workspace.mount(3);
        for name in ["made", "deep/made"] {
            fs::create_dir(at(name)).unwrap();
            write(at(name).join("new"), "");
        }
        assert!(Command::new("mv").arg("-T").args([at("new"), at("moved")]).status().unwrap().success());
        assert_eq!(
            mounted.changes(),
            [
                "created deep/made/new",
                "deleted deep/made/old",
                "created made/new",
                "deleted made/old",
                "deleted moved/old"
            ]
        );
    });
}

#[test]
fn extended_attributes_and_odd_names_are_compared() {
    in_namespaces("extended_attributes_and_odd_names_are_compared", |workspace| {
        let root = workspace.path();
        let at = |name: &[u8]| root.join(std::ffi::OsStr::from_bytes(name));
        let odd: [&[u8]; 4] = [b"a:b,c\\d", b"\xff\n\"", b" ", b"-rf"];
        for name in odd {
            write(at(name), "content");
        }
        let mounted = workspace.mount(1);
        rustix::fs::setxattr(at(odd[0]), "user.note", b"value", rustix::fs::XattrFlags::empty()).unwrap();
        write(at(odd[1]), "changed");
        fs::remove_file(at(odd[2])).unwrap();
        fs::rename(at(odd[3]), at(b"new\tname")).unwrap();
        let found = mounted.changes_of(&Selection::all());
        let found: Vec<_> = found.iter().map(|change| (&change.path[..], change.difference)).collect();
        assert_eq!(
            found,
            [
                (odd[2], Difference::Deleted),
                (odd[3], Difference::Deleted),
                (odd[0], Difference::Metadata),
                (b"new\tname", Difference::Created),
                (odd[1], Difference::Modified),
            ]
        );
    });
}

#[test]
fn paths_longer_than_the_kernel_takes_are_compared() {
    in_namespaces("paths_longer_than_the_kernel_takes_are_compared", |workspace| {
        let mounted = workspace.mount(1);
        let name = "x".repeat(200);
        // Made from within: no path is long enough.
        let script =
            format!("for ((n = 0; n < 60; n++)); do mkdir {name} && cd -P {name} || exit; done; echo hi > file");
        let made = Command::new("bash").args(["-c", &script]).current_dir(workspace.path()).status().unwrap();
        assert!(made.success());
        let found = mounted.changes_of(&Selection::all());
        assert_eq!((found.len(), found[60].path.len()), (61, 60 * 201 + 4));
    });
}
