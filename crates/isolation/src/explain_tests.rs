use super::*;
use nacre_protocol::confinement::{Namespaces, ProjectFiles};
use std::fs;

struct Place {
    _directory: tempfile::TempDir,
    root: PathBuf,
    confinement: Confinement,
}

impl Place {
    /// A writable project with a protected and a guarded tree, beside a hidden tree and another one.
    fn new(namespaces: bool) -> Self {
        let directory = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let root = directory.path().canonicalize().unwrap();
        for tree in ["project/kept", "project/.git/hooks", "keys", "other"] {
            fs::create_dir_all(root.join(tree)).unwrap();
        }
        fs::write(root.join("keys/id"), "").unwrap();
        fs::write(root.join("other/file"), "").unwrap();
        let all = Namespaces { user: true, ipc: true, network: true, processes: true };
        let mut confinement = Confinement::open(all, root.join("project"), "/bin/bash".into());
        confinement.namespaces = namespaces.then_some(all);
        let guarded = root.join("project/.git/hooks");
        confinement.filesystem = Some(Filesystem {
            write: vec![root.join("project")],
            protect: vec![root.join("project/kept"), guarded.clone()],
            hide: vec![root.join("keys")],
            project: ProjectFiles { protect: vec![guarded], ..ProjectFiles::default() },
            ..Filesystem::default()
        });
        Self { _directory: directory, root, confinement }
    }

    fn explain(&self, stderr: &str) -> Vec<(String, Rule, String)> {
        let stderr = stderr.replace("ROOT", self.root.to_str().unwrap());
        let project = self.root.join("project");
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let command = self.root.join("other").display().to_string();
        let ran = Ran { directories: directories([project.clone(), project], &command), user, groups: &[group] };
        assert!(may_explain(stderr.as_bytes()));
        let shown = |path: &Path| path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        let refused = explain(stderr.as_bytes(), &self.confinement, &ran);
        refused.iter().map(|found| (shown(&found.path), found.rule, shown(&found.tree))).collect()
    }
}

fn refused(path: &str, rule: Rule, tree: &str) -> Vec<(String, Rule, String)> {
    vec![(path.into(), rule, tree.into())]
}

#[test]
fn a_stack_trace_names_no_refused_file() {
    let place = Place::new(true);
    let text =
        "  File \"ROOT/other/shutil.py\", line 681, in rmtree\nOSError: [Errno 30] Read-only file system: 'kept/none'";
    assert_eq!(place.explain(text), refused("project/kept/none", Rule::Protect, "project/kept"));
    let text = "Error: EROFS: read-only file system, open 'kept/none'\n    at open (ROOT/other/a.js:1:2)";
    assert_eq!(place.explain(text), refused("project/kept/none", Rule::Protect, "project/kept"));
}

#[test]
fn paths_are_found_in_the_words_of_many_programs() {
    let place = Place::new(true);
    for text in [
        "touch: cannot touch 'ROOT/other/new': Read-only file system",
        "touch: cannot touch '../other/new': Read-only file system",
        "touch: cannot touch \u{2018}../other/new\u{2019}: Read-only file system",
        "bash: line 1: ROOT/other/new: Read-only file system",
        // In a directory that the command names.
        "patch: **** Can't create temporary file ./new : Read-only file system",
        "Error: unable to open database \"ROOT/other/new\": unable to open database file",
        "bash: line 1: ../other/new: Read-only file system",
        "sh: 1: cannot create ../other/new: Read-only file system",
        "Error: EROFS: read-only file system, open 'ROOT/other/new'",
        "OSError: [Errno 30] Read-only file system: 'ROOT/other/new'",
        "open ROOT/other/new: read-only file system",
        "npm error code EROFS\nnpm error syscall mkdir\nnpm error path ROOT/other/new\nnpm error errno EROFS",
        "error: could not create file `ROOT/other/new`\n\nCaused by:\n  Read-only file system (os error 30)",
        "java.io.FileNotFoundException: ROOT/other/new (Read-only file system)",
        "Read-only file system @ rb_sysopen - ROOT/other/new (Errno::EROFS)",
        "Could not create directory 'ROOT/other/new' (Read-only file system).",
        "fatal: cannot copy '/usr/share/git-core/x' to 'ROOT/other/new': Read-only file system",
        "\x1b[31merror\x1b[0m: failed to write \"ROOT/other/new\": Read-only file system",
        "file:ROOT/x: EROFS: ROOT/other/new:12:3",
    ] {
        assert_eq!(place.explain(text), refused("other/new", Rule::Write, "other"), "{text}");
    }
}

#[test]
fn each_rule_is_named() {
    let place = Place::new(true);
    let hidden = place.explain("cat: ROOT/keys/id: No such file or directory");
    assert_eq!(hidden, refused("keys/id", Rule::Hide, "keys"));
    // A claim does not tell what the machine has there.
    let none = place.explain("cat: ROOT/keys/none: No such file or directory");
    assert_eq!(none, refused("keys/none", Rule::Hide, "keys"));
    std::os::unix::fs::symlink("../keys", place.root.join("project/link")).unwrap();
    let linked = place.explain("cat: link/id: No such file or directory");
    assert_eq!(linked, refused("project/link/id", Rule::Hide, "keys"));
    let kept = place.explain("rm: cannot remove 'kept/a': Read-only file system");
    assert_eq!(kept, refused("project/kept/a", Rule::Protect, "project/kept"));
    let hook = place.explain("cp: cannot create regular file '.git/hooks/pre-commit': Read-only file system");
    assert_eq!(hook, refused("project/.git/hooks/pre-commit", Rule::Project, "project/.git/hooks"));
    let mut narrow = Place::new(true);
    narrow.confinement.filesystem.as_mut().unwrap().read = Some(Vec::new());
    let unread = narrow.explain("cat: ROOT/other/file: No such file or directory");
    assert_eq!(unread, refused("other/file", Rule::Read, "other/file"));
}

#[test]
fn what_no_rule_explains_is_not_claimed() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new(true);
    fs::write(place.root.join("other/closed"), "").unwrap();
    fs::set_permissions(place.root.join("other/closed"), fs::Permissions::from_mode(0o0)).unwrap();
    for text in [
        "cat: ROOT/other/none: No such file or directory",
        "bash: line 1: ROOT/other/file: Permission denied",
        "cat: ROOT/other/closed: Permission denied",
        "touch: cannot touch 'ROOT/other/closed': Read-only file system",
        "touch: cannot touch 'ROOT/project/new': Read-only file system",
        "touch: cannot touch '/proc/new': Read-only file system",
        "touch: cannot touch '/tmp/new': Permission denied",
        "git@github.com: Permission denied (publickey).",
        "bash: ROOT: command not found",
        "Read-only file system",
    ] {
        assert_eq!(place.explain(text), [], "{text}");
    }
}

#[test]
fn landlock_gives_one_reason_for_all() {
    let place = Place::new(false);
    let new = place.explain("bash: line 1: ROOT/other/new: Permission denied");
    assert_eq!(new, refused("other/new", Rule::Write, "other"));
    let changed = place.explain("rm: cannot remove 'ROOT/other/file': Permission denied");
    assert_eq!(changed, refused("other/file", Rule::Write, "other"));
    let hidden = place.explain("cat: ROOT/keys/id: Permission denied");
    assert_eq!(hidden, refused("keys/id", Rule::Hide, "keys"));
    // Perhaps it was to run, and is no program.
    assert_eq!(place.explain("bash: ROOT/other/file: Permission denied"), []);
}

#[test]
fn hostile_output_is_bounded() {
    let place = Place::new(true);
    let many: String =
        (0..100_000).map(|at| format!("touch: '/etc/{at}/x' '/a/b' \"/c: Read-only file system\n")).collect();
    assert!(place.explain(&many).len() <= MAX_REFUSALS);
    let long = format!("{}: Read-only file system\n", "'/etc/".repeat(100_000));
    assert!(!may_explain(long.as_bytes()), "beyond a line's bound");
    for bytes in [&b"\0: EROFS '\0'"[..], b"'''''`\"EROFS", b"EROFS", b": EROFS", b"\xff\xfe/ EROFS \xff"] {
        let ran = Ran { directories: vec!["/".into()], user: 0, groups: &[] };
        explain(bytes, &place.confinement, &ran);
    }
}
