//! The start of a client in a container: in namespaces of its own, with a runtime that shows what it is given.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_nacre-supervisor");
/// Against hanging.
const LIMIT: &str = "60";

/// A container with the files of nacre, and a directory of hostile programs in front of its search path.
struct Container {
    place: TempDir,
}

impl Container {
    fn new() -> Self {
        let container = Self { place: tempfile::tempdir().unwrap() };
        for directory in ["nacre/gnu", "nacre/musl", "project", "hostile", "home"] {
            fs::create_dir_all(container.path(directory)).unwrap();
        }
        fs::copy(SUPERVISOR, container.path("nacre/nacre-supervisor")).unwrap();
        for libc in ["gnu", "musl"] {
            container.program(&format!("nacre/bun-{libc}"), "pwd; echo $*; env | grep -v ^_= | sort");
        }
        let ran = container.path("ran");
        for name in ["bash", "sh", "node", "ls", "cut", "stat", "chown", "mkdir", "env"] {
            container.program(&format!("hostile/{name}"), &format!("echo {name} >>{}", ran.display()));
        }
        fs::set_permissions(container.path("hostile"), fs::Permissions::from_mode(0o1777)).unwrap();
        container
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        fs::write(self.path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Enters with a user database and home directories of its own.
    fn enter(&self, accounts: &str, words: &[&str]) -> Output {
        fs::write(self.path("passwd"), accounts).unwrap();
        let mut command = Command::new("timeout");
        command.args([LIMIT, "unshare"]);
        if !nix::unistd::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let script = r#"
            mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/home" /home || exit 99
            search=$1/hostile:$1/image supervisor=$1/nacre/nacre-supervisor
            shift
            exec env -i PATH="$search" BASH_ENV=/x NODE_OPTIONS=y NACRE_INSIDE='{}' "$supervisor" --enter "$@"
        "#;
        command.args(["--pid", "--fork", "--mount", "--mount-proc", "bash", "-c", script, "bash"]);
        command.arg(self.place.path()).args(words).output().unwrap()
    }

    /// What the runtime was given.
    #[track_caller]
    fn server(&self, accounts: &str, words: &[&str]) -> Vec<String> {
        let output = self.enter(accounts, words);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!self.path("ran").exists(), "ran: {}", fs::read_to_string(self.path("ran")).unwrap());
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect()
    }

    #[track_caller]
    fn refused(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.enter("", words);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    fn accounts(&self) -> String {
        fs::read_to_string(self.path("passwd")).unwrap()
    }
}

fn value<'a>(lines: &'a [String], name: &str) -> Option<&'a str> {
    lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn runs_no_program_that_commands_can_write_and_gives_the_runtime_no_variable_of_the_image() {
    let container = Container::new();
    // This one also has a good version.
    container.program("hostile/node", "echo hostile; echo v24.0.0");
    let lines = container.server("root:x:0:0::/root:/bin/sh\n", &["501", "20", "me"]);
    let files = container.path("nacre");
    assert_eq!(lines[..2], ["/".to_string(), files.join("inside.mjs").display().to_string()]);
    let names: Vec<_> = lines[2..].iter().map(|line| line.split('=').next().unwrap()).collect();
    let own =
        ["BUN_RUNTIME_TRANSPILER_CACHE_PATH", "HOME", "NACRE_ENV_BASH_ENV", "NACRE_ENV_NODE_OPTIONS", "NACRE_ENV_PATH"];
    assert_eq!(names[..5], own);
    assert_eq!(names[5..], ["NACRE_HOME", "NACRE_INSIDE", "NACRE_NATIVE_PATH", "PATH", "PWD"]);
    assert_eq!(value(&lines, "HOME"), files.to_str());
    assert_eq!(value(&lines, "PATH"), Some("/usr/sbin:/usr/bin:/sbin:/bin"));
    assert!(value(&lines, "NACRE_ENV_PATH").unwrap().starts_with(container.path("hostile").to_str().unwrap()));
}

#[test]
fn adds_an_account_with_a_home_once() {
    let container = Container::new();
    let first = container.server("root:x:0:0::/root:/bin/sh\nme:x:7:7::/home/other:/bin/sh", &["501", "20", "me"]);
    let home = container.path("home/me-501");
    assert_eq!(value(&first, "NACRE_HOME"), Some("/home/me-501"));
    let accounts = container.accounts();
    assert!(accounts.contains("/bin/sh\nme-501:x:501:20::/home/me-501:/"), "{accounts}");
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::fs::MetadataExt;
        let found = home.metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (501, 20, 0o755));
    }
    assert!(home.is_dir());
    let second = container.server(&accounts, &["501", "20", "other"]);
    assert_eq!((value(&second, "NACRE_HOME"), container.accounts()), (Some("/home/me-501"), accounts));
    let root = container.server("", &["0", "0", "me"]);
    assert_eq!((value(&root, "NACRE_HOME"), container.accounts()), (Some("/root"), String::new()));
}

#[test]
fn the_home_has_nothing_that_the_machine_shares() {
    let container = Container::new();
    let project = container.path("project");
    let accounts = format!("node:x:1000:1000::{}:/bin/sh\n", container.place.path().display());
    let lines = container.server(&accounts, &["1000", "1000", "me", "has=", project.to_str().unwrap()]);
    assert_eq!((value(&lines, "NACRE_HOME"), container.accounts()), (Some("/var/lib/nacre/homes/1000"), accounts));
}

#[test]
fn gives_new_directories_of_the_container_to_the_user_once() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    use std::os::unix::fs::{MetadataExt, chown};
    let container = Container::new();
    let [new, others, target] = ["new", "others", "target"].map(|name| container.path(name));
    for directory in [&new, &others, &target] {
        fs::create_dir(directory).unwrap();
    }
    chown(&others, Some(7), Some(7)).unwrap();
    let link = container.path("link");
    symlink(&target, &link).unwrap();
    let paths = [&new, &others, &link].map(|path| path.to_str().unwrap());
    let own: Vec<_> = paths.iter().flat_map(|path| ["own", *path]).collect();
    for (uid, expected) in [("0", 0), ("501", 501), ("0", 501), ("502", 501)] {
        container.server("", &[&[uid, "20", "me"], &own[..]].concat());
        let owner = |path: &Path| path.metadata().unwrap().uid();
        assert_eq!((owner(&new), owner(&others), owner(&target)), (expected, 7, 0), "as {uid}");
    }
}

#[test]
fn names_what_is_missing() {
    let container = Container::new();
    let project = container.path("project");
    let project = project.to_str().unwrap();
    let other = (Some(71), format!("{project}\n"));
    assert_eq!(container.refused(&["501", "20", "me", "has=.nacre-1", project]), other);
    assert_eq!(container.refused(&["501", "20", "me", "names=0", project]), other);
    for words in [&["x", "20", "me"][..], &["501", "20"], &["501", "20", "me", "own"]] {
        assert_eq!(container.refused(words).0, Some(2));
    }
    for libc in ["gnu", "musl"] {
        fs::remove_file(container.path(&format!("nacre/bun-{libc}"))).unwrap();
    }
    let (code, text) = container.refused(&["501", "20", "me"]);
    assert!(code == Some(73) && ["gnu\n", "musl\n"].contains(&&*text), "{code:?} {text}");
    for libc in ["gnu", "musl"] {
        fs::remove_dir(container.path(&format!("nacre/{libc}"))).unwrap();
    }
    assert_eq!(container.refused(&["501", "20", "me"]).0, Some(72));
    fs::remove_dir_all(container.path("hostile")).unwrap();
    assert_eq!(container.refused(&["501", "20", "me"]), (Some(70), "there is no bash\n".into()));
}
