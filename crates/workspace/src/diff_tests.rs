use super::*;
use crate::selection::Selection;
use crate::testing::{self, Mounted, Workspace};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum bytes of a patch where a test is not about them.
const PLENTY: u64 = 1 << 30;
/// Trees of the random test, for each way to mount.
const SEEDS: u64 = 12;

/// See [`testing::in_namespaces`].
fn in_namespaces(name: &str, test: impl FnOnce(Workspace)) {
    testing::in_namespaces(&format!("diff::tests::{name}"), test);
}

/// The patch of everything.
fn patch_of(mounted: &Mounted, max_bytes: u64) -> Result<Vec<u8>, Failure> {
    mounted.compare(|sides| {
        let changes = sides.changes(&Selection::all()).unwrap();
        let mut patch = Vec::new();
        write(sides.merged, sides.base, &changes, max_bytes, sides.interrupt, &mut patch).map(|()| patch)
    })
}

/// Prepares a real directory, edits it in a workspace, and returns the patch. Git has applied it to a copy of the real
/// directory, and taken it back in a copy of the workspace.
fn applied(workspace: &Workspace, prepare: impl FnOnce(&Path), edit: impl FnOnce(&Path)) -> Vec<u8> {
    let (real, forward, backward) = (workspace.path(), beside(workspace, "forward"), beside(workspace, "backward"));
    prepare(&real);
    copy(&real, &forward);
    let before = tree(&real);
    let mounted = workspace.mount(1);
    edit(&real);
    let now = tree(&real);
    copy(&real, &backward);
    let patch = patch_of(&mounted, PLENTY).unwrap();
    apply(&patch, &forward, &[]);
    assert_trees(&tree(&forward), &now, &patch);
    apply(&patch, &backward, &["-R"]);
    let mut restored = tree(&backward);
    let is_link = |files: &Files, path: &Vec<u8>| files.get(path).is_some_and(|(mode, _)| *mode == "link");
    for (path, (mode, _)) in &mut restored {
        // Git 2.44 to 2.50 forget the mode when they take back a deletion: the file is an ordinary one.
        let is_kept = now.contains_key(path) && is_link(&now, path) == is_link(&before, path);
        if let (false, Some((had, _))) = (is_kept, before.get(path)) {
            *mode = had;
        }
    }
    assert_trees(&restored, &before, &patch);
    patch
}

/// Git itself writes the same for the two directories of [`applied`].
fn assert_as_git(patch: &[u8], workspace: &Workspace) {
    let git = |arguments: &[&str], tree: &str| {
        let mut git = Command::new("git");
        git.args(arguments).env("GIT_DIR", beside(workspace, "git")).env("GIT_WORK_TREE", beside(workspace, tree));
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").current_dir(beside(workspace, tree));
        let output = git.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    };
    git(&["init", "--quiet"], "backward");
    let trees = ["backward", "forward"].map(|tree| {
        git(&["add", "--all"], tree);
        String::from_utf8(git(&["write-tree"], tree)).unwrap().trim().to_string()
    });
    let expected = git(&["diff", "--no-renames", "--full-index", "--binary", &trees[0], &trees[1]], "forward");
    assert!(expected.len() > 1000);
    assert!(patch == expected, "{}\ngit writes:\n{}", shortened(patch), shortened(&expected));
}

fn beside(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.directory.path().join(name)
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// Runs `git apply`, outside of every repository.
fn apply(patch: &[u8], directory: &Path, arguments: &[&str]) {
    if patch.is_empty() {
        return;
    }
    let mut git = Command::new("git");
    git.arg("apply").args(arguments).args(["--whitespace=nowarn", "-"]).current_dir(directory);
    git.env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let mut git = git.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = git.stdin.take().unwrap();
    let _ = input.write_all(patch);
    drop(input);
    let output = git.wait_with_output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {problem}\n{}", shortened(patch));
}

fn shortened(patch: &[u8]) -> String {
    String::from_utf8_lossy(&patch[..patch.len().min(20_000)]).into_owned()
}

/// What git can hold of a tree: files and links by their paths, with the mode in git and the content.
type Files = BTreeMap<Vec<u8>, (&'static str, Vec<u8>)>;

fn tree(root: &Path) -> Files {
    let mut found = Files::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let relative = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if about.is_dir() {
                pending.push(path);
            } else if about.is_symlink() {
                found.insert(relative, ("link", fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec()));
            } else if about.is_file() {
                let mode = if about.permissions().mode() & 0o100 == 0 { "file" } else { "program" };
                found.insert(relative, (mode, fs::read(path).unwrap()));
            }
        }
    }
    found
}

fn assert_trees(got: &Files, expected: &Files, patch: &[u8]) {
    let names = |files: &Files| {
        let entries = files.iter().map(|(path, (mode, _))| format!("{mode} {}", path.escape_ascii()));
        entries.collect::<Vec<_>>()
    };
    assert_eq!(names(got), names(expected), "{}", shortened(patch));
    for (path, version) in expected {
        assert!(got[path] == *version, "the content of {} differs\n{}", path.escape_ascii(), shortened(patch));
    }
}

fn remove(path: &Path) {
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Numbers as lines; some have a minus.
fn numbers(end: u32, changed: &[u32]) -> String {
    (1..=end).map(|number| format!("{}{number}\n", if changed.contains(&number) { "-" } else { "" })).collect()
}

fn make_fifo(path: &Path) {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the path outlives the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

/// The most memory that this process has used, in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn each_kind_of_change_has_the_form_of_git() {
    in_namespaces("each_kind_of_change_has_the_form_of_git", |workspace| {
        let patch = applied(
            &workspace,
            |real| {
                for name in ["edited", "gone", "mode", "both", "to-link"] {
                    fs::write(real.join(name), "1\n2\n3\n4\n5\n6\n7\n8\n9\n").unwrap();
                }
                fs::write(real.join("near"), numbers(50, &[])).unwrap();
                fs::write(real.join("empty"), "").unwrap();
                fs::write(real.join("kept"), "").unwrap();
                symlink("kept", real.join("link")).unwrap();
            },
            |real| {
                fs::write(real.join("edited"), "1\n2\n3\n4\nfive\n6\n7\n8\n9").unwrap();
                // Six equal lines between two differences belong to one hunk, seven do not.
                fs::write(real.join("near"), numbers(50, &[3, 10, 18, 30, 36])).unwrap();
                fs::remove_file(real.join("gone")).unwrap();
                fs::remove_file(real.join("empty")).unwrap();
                set_mode(&real.join("mode"), 0o755);
                fs::write(real.join("both"), "").unwrap();
                set_mode(&real.join("both"), 0o700);
                for name in ["link", "to-link"] {
                    fs::remove_file(real.join(name)).unwrap();
                    symlink("else where", real.join(name)).unwrap();
                }
                fs::create_dir(real.join("new")).unwrap();
                fs::write(real.join("new/file"), "a\r\nb").unwrap();
                fs::write(real.join("new/a b"), "").unwrap();
                fs::write(real.join("new/c d"), "x\n").unwrap();
            },
        );
        assert_as_git(&patch, &workspace);
    });
}

#[test]
fn odd_names_are_quoted() {
    in_namespaces("odd_names_are_quoted", |workspace| {
        let odd: [&[u8]; 13] = [
            b"\x7f",
            b" ",
            b"-rf",
            b"a b",
            b"b/c",
            b"\xff\n\"",
            b"\\",
            b"tab\t",
            "\u{fc}".as_bytes(),
            b"dev/null",
            b" => ",
            b"\x07\x08\x0b\x0c\r\x01\x7f",
            b"a/b/a/b",
        ];
        let at = |real: &Path, name: &[u8], prefix: &str| {
            let path = real.join(prefix).join(OsStr::from_bytes(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        let patch = applied(
            &workspace,
            |real| {
                for name in odd {
                    for prefix in ["edited", "gone", "gone-empty", "mode"] {
                        fs::write(at(real, name, prefix), if prefix == "gone-empty" { "" } else { "old\n" }).unwrap();
                    }
                }
            },
            |real| {
                for name in odd {
                    fs::write(at(real, name, "edited"), "new\n").unwrap();
                    fs::remove_file(at(real, name, "gone")).unwrap();
                    fs::remove_file(at(real, name, "gone-empty")).unwrap();
                    set_mode(&at(real, name, "mode"), 0o700);
                    fs::write(at(real, name, "made"), "new").unwrap();
                    fs::write(at(real, name, "made-empty"), "").unwrap();
                    symlink(OsStr::from_bytes(name), at(real, name, "made-link")).unwrap();
                }
            },
        );
        let text = shortened(&patch);
        assert_as_git(&patch, &workspace);
        for line in [
            r#"+++ "b/edited/\377\n\"""#,
            r#"diff --git "a/mode/\a\b\v\f\r\001\177" "b/mode/\a\b\v\f\r\001\177""#,
            r#"--- "a/edited/tab\t""#,
            "+++ b/edited/a b\t",
            r#"--- "a/edited/\303\274""#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    });
}

#[test]
fn binary_content_and_odd_text_survive() {
    in_namespaces("binary_content_and_odd_text_survive", |workspace| {
        let mut random = Random(7);
        let noise: Vec<Vec<u8>> = (0..130).map(|size| (0..size).map(|_| random.below(256) as u8).collect()).collect();
        let mut late = vec![b'x'; 9000];
        late[8000] = 0;
        late[4000] = b'\n';
        let mut early = late.clone();
        early[7999] = 0;
        let long = "y".repeat(200_000);
        let texts: Vec<(&[u8], &[u8])> = vec![
            (b"a\nb\nc", b"a\nb\nc\n"),
            (b"a\nb\nc\n", b"a\nb\nc"),
            (b"a\nb", b"a\nB"),
            (b"a", b"a\nb"),
            (b"a\r\nb\r\n", b"a\nb\n"),
            (b"a\r\n\r\nb\r\n", b"a\r\nB\r\n"),
            (b"\r\r\n", b"\r\n\r"),
            (b"\n", b"\n\n"),
            (b"\n\n\n\n\n\n\n\n\n", b"\n\n\n\n"),
            (b" \t \n", b" \t\n"),
            (b"-- a\n++ b\n", b"-- a\n++ c\n@@ -1 +1 @@\n"),
            (b"\\ No newline at end of file\n", b"\\ No newline at end of file"),
            (b"\xff\xfe\n", b"\xff\n"),
            (&late, b"text"),
            (&early, &late),
            (b"", b"\0"),
            (b"\0", b""),
            (b"text", b"\0binary"),
            (long.as_bytes(), b"short"),
        ];
        let patch = applied(
            &workspace,
            |real| {
                for (number, (before, _)) in texts.iter().enumerate() {
                    fs::write(real.join(format!("text-{number}")), before).unwrap();
                }
                for (number, bytes) in noise.iter().enumerate() {
                    fs::write(real.join(format!("noise-{number}")), [&b"\0"[..], bytes].concat()).unwrap();
                }
            },
            |real| {
                for (number, (_, now)) in texts.iter().enumerate() {
                    fs::write(real.join(format!("text-{number}")), now).unwrap();
                }
                for (number, bytes) in noise.iter().rev().enumerate() {
                    fs::write(real.join(format!("noise-{number}")), [&b"\0\0"[..], bytes].concat()).unwrap();
                }
            },
        );
        let text = String::from_utf8_lossy(&patch);
        let binary = text.matches("GIT binary patch\n").count();
        assert_eq!(binary, noise.len() + 4, "{}", shortened(&patch));
    });
}

#[test]
fn another_kind_of_file_is_deleted_and_created() {
    in_namespaces("another_kind_of_file_is_deleted_and_created", |workspace| {
        const KINDS: [&str; 5] = ["file", "binary", "link", "directory", "nothing"];
        let make = |path: &Path, kind: &str| match kind {
            "file" => fs::write(path, "text\n").unwrap(),
            "binary" => fs::write(path, "\0").unwrap(),
            "link" => symlink("text\n", path).unwrap(),
            "directory" => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("below"), "text\n").unwrap();
                symlink("below", path.join("link")).unwrap();
            }
            _ => {}
        };
        let pairs = || KINDS.iter().flat_map(|from| KINDS.iter().map(move |to| (from, to, format!("{from}-{to}"))));
        let patch = applied(
            &workspace,
            |real| {
                for (from, _, name) in pairs() {
                    make(&real.join(name), from);
                }
            },
            |real| {
                for (from, to, name) in pairs() {
                    if *from != "nothing" {
                        remove(&real.join(&name));
                    }
                    make(&real.join(name), to);
                }
            },
        );
        let text = shortened(&patch);
        let expected = "diff --git a/link-file b/link-file
deleted file mode 120000
index 8e27be7d6154a1f68ea9160ef0e18691d20560dc..0000000000000000000000000000000000000000
--- a/link-file
+++ /dev/null
@@ -1 +0,0 @@
-text
diff --git a/link-file b/link-file
new file mode 100644
index 0000000000000000000000000000000000000000..8e27be7d6154a1f68ea9160ef0e18691d20560dc
--- /dev/null
+++ b/link-file
@@ -0,0 +1 @@
+text
";
        assert!(text.contains(expected), "{text}");
    });
}

#[test]
fn what_the_machine_runs_later_is_marked_and_applied() {
    in_namespaces("what_the_machine_runs_later_is_marked_and_applied", |workspace| {
        let patch = applied(
            &workspace,
            |real| {
                fs::create_dir_all(real.join("sub/.vscode")).unwrap();
                for name in [".npmrc", "sub/.vscode/tasks.json", "mise.toml", "file"] {
                    fs::write(real.join(name), "one\n").unwrap();
                }
            },
            |real| {
                fs::write(real.join(".envrc"), "without an end").unwrap();
                fs::write(real.join(".mcp.json"), b"\0binary").unwrap();
                fs::write(real.join(".cargo"), "").unwrap();
                fs::write(real.join("file"), "two\n").unwrap();
                fs::write(real.join("sub/.vscode/tasks.json"), "two\n").unwrap();
                fs::remove_file(real.join(".npmrc")).unwrap();
                set_mode(&real.join("mise.toml"), 0o755);
            },
        );
        let text = shortened(&patch);
        let marks: Vec<&str> = text.lines().filter(|line| line.starts_with("# runs later: ")).collect();
        assert_eq!(marks.len(), 6, "{text}");
        assert!(
            text.contains("# runs later: direnv runs it in the user's shell\ndiff --git a/.envrc b/.envrc\n"),
            "{text}"
        );
    });
}

#[test]
fn what_git_cannot_hold_is_omitted() {
    in_namespaces("what_git_cannot_hold_is_omitted", |workspace| {
        let refused = [".git/config", "a/.git", ".GIT/x", "git~1/x", "b/.git. /x", ".git::$INDEX/x", ".git\\x"];
        let patch = applied(
            &workspace,
            |real| {
                fs::write(real.join("mode"), "").unwrap();
                fs::create_dir(real.join("empty")).unwrap();
                make_fifo(&real.join("old-fifo"));
            },
            |real| {
                set_mode(&real.join("mode"), 0o615);
                rustix::fs::setxattr(real.join("mode"), "user.note", b"x", rustix::fs::XattrFlags::empty()).unwrap();
                fs::remove_dir(real.join("empty")).unwrap();
                fs::create_dir(real.join("new")).unwrap();
                fs::remove_file(real.join("old-fifo")).unwrap();
                make_fifo(&real.join("new/fifo"));
                set_mode(real, 0o711);
                std::os::unix::net::UnixListener::bind(real.join("socket")).unwrap();
            },
        );
        assert_eq!(shortened(&patch), "");
        workspace.unmount();

        let other = workspace.another();
        let (real, copied) = (other.path(), beside(&other, "copy"));
        let names = [".gitignore", ".github/x", "x.git", ".git2", "git~2"];
        let before = tree(&real);
        assert!(before.is_empty());
        copy(&real, &copied);
        let mounted = other.mount(1);
        for name in names.iter().chain(&refused) {
            fs::create_dir_all(real.join(name).parent().unwrap()).unwrap();
            fs::write(real.join(name), "text\n").unwrap();
        }
        let patch = patch_of(&mounted, PLENTY).unwrap();
        apply(&patch, &copied, &[]);
        let paths: Vec<_> = tree(&copied).into_keys().map(|path| String::from_utf8(path).unwrap()).collect();
        let mut expected = names.to_vec();
        expected.sort_unstable();
        assert_eq!(paths, expected);
    });
}

#[test]
fn a_patch_applies_in_a_repository() {
    in_namespaces("a_patch_applies_in_a_repository", |workspace| {
        let real = workspace.path();
        let git = |directory: &Path, arguments: &[&str], input: &[u8]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(arguments).current_dir(directory);
            git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            git.stdin.take().unwrap().write_all(input).unwrap();
            let output = git.wait_with_output().unwrap();
            assert!(output.status.success(), "{arguments:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        git(&real, &["init", "--quiet"], b"");
        fs::write(real.join("text"), "a\nb\n").unwrap();
        fs::write(real.join("binary"), "a\0b").unwrap();
        git(&real, &["add", "."], b"");
        git(&real, &["commit", "--quiet", "-m", "first"], b"");
        let copied = beside(&workspace, "copy");
        copy(&real, &copied);
        git(&copied, &["update-index", "--refresh"], b"");
        let mounted = workspace.mount(1);
        fs::write(real.join("text"), "a\nc\n").unwrap();
        fs::write(real.join("binary"), "a\0c").unwrap();
        symlink("text", real.join("link")).unwrap();
        git(&real, &["add", "."], b"");
        let tree = git(&real, &["write-tree"], b"");
        git(&copied, &["apply", "--index", "-"], &patch_of(&mounted, PLENTY).unwrap());
        assert_eq!(git(&copied, &["write-tree"], b""), tree);
    });
}

#[test]
fn a_patch_has_a_limit() {
    in_namespaces("a_patch_has_a_limit", |workspace| {
        let real = workspace.path();
        fs::write(real.join("text"), "a\n").unwrap();
        fs::write(real.join("binary"), "\0").unwrap();
        let mounted = workspace.mount(1);
        fs::write(real.join("text"), "b\n".repeat(100)).unwrap();
        fs::write(real.join("binary"), "\0\0").unwrap();
        set_mode(&real.join("text"), 0o755);
        let size = patch_of(&mounted, PLENTY).unwrap().len() as u64;
        assert_eq!(patch_of(&mounted, size).unwrap().len() as u64, size);
        for limit in 0..size {
            match patch_of(&mounted, limit) {
                Err(Failure::TooLarge(text)) => assert_eq!(text, format!("it has more than {limit} bytes")),
                other => panic!("{limit} of {size}: {other:?}"),
            }
        }
    });
}

#[test]
fn large_files_take_little_memory() {
    in_namespaces("large_files_take_little_memory", |workspace| {
        const MIB: u64 = 1024 * 1024;
        let sparse = |path: &Path, size: u64| {
            let file = File::create(path).unwrap();
            file.set_len(size).unwrap();
            file.write_all_at(b"text", size / 2).unwrap();
        };
        let peak = peak_kib();
        let patch = applied_without_reading(&workspace, |real| sparse(&real.join("large"), 70 * MIB));
        assert!(patch.len() < 200_000, "{}", patch.len());
        // Two versions in memory would take 64 MiB.
        assert!(peak_kib() - peak < 24 * 1024, "{} KiB", peak_kib() - peak);
        let mounted = workspace.another();
        let (real, mounted) = (mounted.path(), mounted.mount(1));
        let start = Instant::now();
        sparse(&real.join("huge"), 4 * 1024 * 1024 * MIB);
        match patch_of(&mounted, PLENTY) {
            Err(Failure::TooLarge(text)) => assert_eq!(text, "huge has more than 512 MiB"),
            other => panic!("{other:?}"),
        }
        assert!(start.elapsed() < Duration::from_secs(5));
    });
}

/// As [`applied`], for a file that is created. It is compared by another program.
fn applied_without_reading(workspace: &Workspace, create: impl FnOnce(&Path)) -> Vec<u8> {
    let (real, copied) = (workspace.path(), beside(workspace, "copy"));
    copy(&real, &copied);
    let mounted = workspace.mount(1);
    create(&real);
    let patch = patch_of(&mounted, PLENTY).unwrap();
    apply(&patch, &copied, &[]);
    let compared = Command::new("diff").arg("-r").args([&real, &copied]).output().unwrap();
    assert!(compared.status.success(), "{compared:?}");
    patch
}

#[test]
fn files_may_change_while_they_are_read() {
    in_namespaces("files_may_change_while_they_are_read", |workspace| {
        let real = workspace.path();
        fs::create_dir(real.join("d")).unwrap();
        fs::write(real.join("d/x"), "text\n").unwrap();
        let mounted = workspace.mount(1);
        let (path, spare) = (real.join("d/x"), real.join("d/spare"));
        let is_over = AtomicBool::new(false);
        let mut outcomes = [0; 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    fs::write(&spare, "y\n".repeat(200_000)).unwrap();
                    fs::rename(&spare, &path).unwrap();
                    File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
                    fs::remove_file(&path).unwrap();
                    symlink("/etc/passwd", &path).unwrap();
                    fs::remove_file(&path).unwrap();
                    make_fifo(&path);
                    fs::remove_file(&path).unwrap();
                    fs::create_dir(&path).unwrap();
                    fs::remove_dir(&path).unwrap();
                }
            });
            let end = Instant::now() + Duration::from_secs(1);
            let changes = mounted.compare(|sides| sides.changes(&Selection::all()));
            // The list itself may fail: the patch takes one of its own.
            drop(changes);
            let change = |path: &[u8]| WorkspaceChange {
                path: path.to_vec(),
                difference: nacre_protocol::workspace::Difference::Modified,
                now: None,
                before: None,
            };
            let changes = [change(b"d/spare"), change(b"d/x")];
            while Instant::now() < end {
                let outcome = mounted.compare(|sides| {
                    let mut patch = Vec::new();
                    write(sides.merged, sides.base, &changes, PLENTY, sides.interrupt, &mut patch).map(|()| patch)
                });
                match outcome {
                    Ok(patch) => {
                        assert!(!patch.windows(5).any(|bytes| bytes == b"root:"), "a link was followed");
                        outcomes[0] += 1;
                    }
                    Err(Failure::System(Errno::AGAIN, _)) => outcomes[1] += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        println!("{outcomes:?}");
        assert!(outcomes[0] > 0, "{outcomes:?}");
    });
}

/// A generator of numbers: xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len() as u64) as usize]
    }

    fn line(&mut self) -> Vec<u8> {
        let words: [&[u8]; 8] = [b"", b"}", b"    return", b"\tx = 1", b"-- y", b"\xe9", b" ", b"a longer line"];
        let ends: [&[u8]; 8] = [b"\n", b"\n", b"\n", b"\n", b"\n", b"\r\n", b"!\n", b"?\n"];
        [*self.pick(&words), *self.pick(&ends)].concat()
    }

    fn content(&mut self) -> Vec<u8> {
        let mut bytes: Vec<u8> = match self.below(8) {
            0 => Vec::new(),
            1 => (0..self.below(300)).map(|_| self.below(256) as u8).collect(),
            2 => (0..self.below(4000)).flat_map(|_| self.line()).collect(),
            _ => (0..self.below(40)).flat_map(|_| self.line()).collect(),
        };
        if self.below(4) == 0 {
            bytes.pop();
        }
        bytes
    }

    /// Replaces some lines.
    fn edited(&mut self, content: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..=self.below(6) {
            let at = self.below(lines.len() as u64 + 1) as usize;
            let end = (at + self.below(4) as usize).min(lines.len());
            let new: Vec<_> = (0..self.below(4)).map(|_| self.line()).collect();
            lines.splice(at..end, new);
        }
        lines.concat()
    }

    fn name(&mut self) -> &'static OsStr {
        let names: [&[u8]; 10] =
            [b"a", b"b", b"c d", b"\xff", b"\"q\"", b"new\nline", b"x.git", b"-", b"\\t", b"\xc3\xbc "];
        OsStr::from_bytes(names[self.below(names.len() as u64) as usize])
    }

    /// Fills a directory. Git has no form for an empty one, so each gets a file.
    fn fill(&mut self, directory: &Path, depth: u64) {
        for _ in 0..=self.below(5) {
            let path = directory.join(self.name());
            if fs::symlink_metadata(&path).is_err() {
                self.make(&path, depth);
            }
        }
    }

    fn make(&mut self, path: &Path, depth: u64) {
        match self.below(6) {
            // They lead nowhere: git follows some links that the patch removes, and refuses what it finds there.
            0 => {
                symlink(self.pick(&["nowhere", "../nowhere", "/proc/nowhere", "two\nlines\n", "\u{fc}"]), path).unwrap()
            }
            1 | 2 if depth > 0 => {
                fs::create_dir(path).unwrap();
                self.fill(path, depth - 1);
            }
            _ => {
                fs::write(path, self.content()).unwrap();
                set_mode(path, *self.pick(&[0o644, 0o755, 0o600, 0o711]));
            }
        }
    }

    /// Changes something below a directory.
    fn change(&mut self, root: &Path) {
        let mut path = root.to_path_buf();
        loop {
            path.push(self.name());
            if !fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir()) || self.below(4) == 0 {
                break;
            }
        }
        let Ok(about) = fs::symlink_metadata(&path) else { return self.make(&path, 2) };
        match self.below(5) {
            0 => remove(&path),
            1 => {
                remove(&path);
                self.make(&path, 2);
            }
            2 if about.is_file() => set_mode(&path, *self.pick(&[0o644, 0o755, 0o600])),
            3 => {
                let target = root.join(self.name());
                if fs::symlink_metadata(&target).is_err() && !target.starts_with(&path) {
                    assert!(Command::new("mv").args(["-T", "--"]).args([path, target]).status().unwrap().success());
                }
            }
            _ if about.is_file() => {
                let content = fs::read(&path).unwrap();
                fs::write(&path, self.edited(&content)).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn random_changes_apply() {
    in_namespaces("random_changes_apply", |first| {
        let mut bytes = 0;
        for seed in 1..=SEEDS {
            println!("seed {seed}");
            let workspace = first.another();
            let random = std::cell::RefCell::new(Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            let patch = applied(
                &workspace,
                |real| {
                    for _ in 0..4 {
                        random.borrow_mut().fill(real, 3);
                    }
                },
                |real| {
                    let count = random.borrow_mut().below(40) + 1;
                    for _ in 0..count {
                        random.borrow_mut().change(real);
                    }
                },
            );
            bytes += patch.len();
        }
        assert!(bytes > 100_000, "{bytes}");
    });
}
