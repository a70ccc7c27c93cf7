use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

/// A machine's config and a session's copy of it.
struct Pair {
    place: tempfile::TempDir,
    configs: GitConfigs,
}

impl Pair {
    fn new(text: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("copies/0")).unwrap();
        fs::create_dir(root.join("git")).unwrap();
        fs::write(root.join("copies/0/config"), text).unwrap();
        fs::write(root.join("git/config"), text).unwrap();
        let stamp = nix::sys::stat::lstat(&root.join("copies/0/config")).ok().as_ref().map(stamp_of);
        let made = vec![Made { path: root.join("git/config"), text: text.into(), stamp }];
        fs::write(root.join("list"), message::encode(&made).unwrap()).unwrap();
        let (ours, theirs) = nacre_protocol::socket::pair().unwrap();
        let open = |name: &str| File::open(root.join(name)).unwrap().into();
        let mut descriptors = vec![ours, open("copies"), theirs, open("list")];
        let configs = GitConfigs::take(&mut descriptors).unwrap();
        assert_eq!(descriptors.len(), 2, "sockets are for others");
        Self { place, configs }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    fn copy(&self) -> PathBuf {
        self.at("copies/0/config")
    }

    fn real(&self) -> String {
        fs::read_to_string(self.at("git/config")).unwrap()
    }

    /// What is withheld of another text of the copy.
    fn writes(&self, text: &str) -> Vec<String> {
        fs::write(self.copy(), text).unwrap();
        assert!(self.configs.have_changed());
        self.configs.write_back()
    }

    fn git(&self, args: &[&str]) {
        let status = std::process::Command::new("git").args(["config", "--file"]).arg(self.copy()).args(args).status();
        assert!(status.unwrap().success(), "{args:?}");
    }
}

const TEXT: &str = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.com/x\n";

#[test]
fn what_git_writes_every_day_reaches_the_machine_and_nothing_else_does() {
    let pair = Pair::new(TEXT);
    assert!(!pair.configs.have_changed());
    let inode = std::os::unix::fs::MetadataExt::ino(&pair.at("git/config").metadata().unwrap());
    pair.git(&["remote.here.url", "../here.git"]);
    pair.git(&["remote.here.fetch", "+refs/heads/*:refs/remotes/here/*"]);
    pair.git(&["branch.main.remote", "here"]);
    pair.git(&["branch.main.merge", "refs/heads/main"]);
    pair.git(&["core.fsmonitor", "touch /x"]);
    pair.git(&["alias.x", "!touch /x"]);
    assert!(pair.configs.have_changed());
    assert_eq!(pair.configs.write_back(), ["alias.x", "core.fsmonitor"]);
    let written = "[remote \"here\"]\n\tfetch = +refs/heads/*:refs/remotes/here/*\n\turl = ../here.git\n[branch \"main\"]\n\tmerge = refs/heads/main\n\tremote = here\n";
    let sections: Vec<&str> = written.split_inclusive("main\"]").collect();
    assert!(sections.len() == 2 && pair.real().starts_with(TEXT) && !pair.real().contains("touch"));
    let (real, wanted) = (values(pair.real().as_bytes()), values(format!("{TEXT}{written}").as_bytes()));
    assert_eq!(real, wanted);
    assert!(!pair.configs.have_changed() && pair.configs.write_back().is_empty(), "each change counts once");
    assert!(!pair.at("git/config.lock").exists());
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&pair.at("git/config").metadata().unwrap()), inode);
    // The other way round.
    pair.git(&["--remove-section", "remote.here"]);
    pair.git(&["--remove-section", "branch.main"]);
    pair.git(&["--unset", "core.fsmonitor"]);
    pair.git(&["--unset", "core.bare"]);
    assert_eq!(pair.configs.write_back(), ["core.bare"]);
    assert_eq!(pair.real(), TEXT);
}

#[test]
fn hostile_forms_do_not_arrive() {
    let forms = [
        "[core]\n\tfsmonitor = touch x\n",
        "[CORE]fsMonitor=touch x\n",
        "[core]\n\thooksPath = x\n\tsshCommand = x\n\tpager = x\n\teditor = x\n\tworktree = /\n",
        "[alias]\n\tx = !touch x\n",
        "[remote \"x\"]\n\turl = ext::sh -c touch% x\n",
        "[remote \"x\"] URL = ext::sh\n",
        "[REMOTE.x]\n\tUrl = ext::sh\n",
        "[remote \"x\"]\n\turl = \"https://a/\\next::sh\"\n",
        "[remote \"x\"]\n\turl = https://a/x\\\n::y\n",
        "[remote \"x\"]\n\turl = \"https://a/x\\\"\\n[core]\\nfsmonitor=x\"\n",
        "[remote \"x\\\"]\\\\\"]\n\turl = https://a/x\n",
        "[remote \"x\"]\n\tuploadpack = touch x\n\treceivepack = touch x\n\tvcs = x\n\tproxy = x\n",
        "[branch \"main\"]\n\tremote = ext::sh\n",
        "[branch \"main\"]\n\tremote = ./planted.git\n",
        "[include]\n\tpath = planted\n",
        "[includeIf \"gitdir:/\"]\n\tpath = planted\n",
        "[url \"ext::sh -c x\"]\n\tinsteadOf = https://\n",
        "[filter \"x\"]\n\tclean = touch x\n\tsmudge = touch x\n",
        "[diff \"x\"]\n\ttextconv = touch x\n[merge \"x\"]\n\tdriver = touch x\n",
        "[credential]\n\thelper = !touch x\n[gpg]\n\tprogram = x\n[user]\n\tname = x\n",
        "[submodule \"x\"]\n\tupdate = !touch x\n\turl = ext::sh\n",
        "[submodule \"../../x\"]\n\turl = https://a/x\n",
        "[extensions]\n\tworktreeConfig = true\n",
        "[remote \"origin\"]\n\turl = ./planted.git\n",
    ];
    for form in forms {
        let pair = Pair::new(TEXT);
        let withheld = pair.writes(&format!("{TEXT}{form}"));
        assert!(!withheld.is_empty(), "{form}");
        assert_eq!(pair.real(), TEXT, "{form}");
    }
    // The first line of a value is its end.
    let pair = Pair::new(TEXT);
    assert_eq!(pair.writes(&format!("{TEXT}[core]\n\tx = 1\n[remote \"x\"]\n\turl = https://a/x ; ::\n")), ["core.x"]);
    assert_eq!(pair.real(), format!("{TEXT}[remote \"x\"]\n\turl = https://a/x\n"));
}

/// Its name, and what a program does to the copy.
type Form<'a> = (&'a str, &'a dyn Fn(&Pair));

#[test]
fn a_copy_that_is_no_config_is_withheld_as_a_whole() {
    let good = format!("{TEXT}[branch \"x\"]\n\trebase = true\n");
    let forms: [Form<'_>; 8] = [
        ("a link", &|pair| {
            fs::write(pair.at("elsewhere"), &good).unwrap();
            symlink(pair.at("elsewhere"), pair.copy()).unwrap();
        }),
        ("a link in the place of the directory", &|pair| {
            fs::rename(pair.at("copies/0"), pair.at("0")).unwrap();
            fs::write(pair.at("0/config"), &good).unwrap();
            symlink(pair.at("0"), pair.at("copies/0")).unwrap();
        }),
        ("a pipe", &|pair| nix::unistd::mkfifo(&pair.copy(), Mode::S_IRWXU).unwrap()),
        ("a directory", &|pair| fs::create_dir(pair.copy()).unwrap()),
        ("nothing", &|_| ()),
        ("a gigabyte", &|pair| {
            fs::write(pair.copy(), &good).unwrap();
            File::options().write(true).open(pair.copy()).unwrap().set_len(1 << 30).unwrap();
        }),
        ("no text", &|pair| fs::write(pair.copy(), [good.as_bytes(), b"[a]\n\tb = \xff\n"].concat()).unwrap()),
        ("a mistake", &|pair| fs::write(pair.copy(), format!("{good}[a")).unwrap()),
    ];
    for (name, make) in forms {
        let pair = Pair::new(TEXT);
        fs::remove_file(pair.copy()).unwrap();
        make(&pair);
        assert!(pair.configs.have_changed(), "{name}");
        assert_eq!(pair.configs.write_back(), ["*"], "{name}");
        assert!(!pair.configs.have_changed() && pair.configs.write_back().is_empty(), "{name}");
        assert_eq!(pair.real(), TEXT, "{name}");
    }
}

#[test]
fn what_is_reported_is_bounded_and_harmless_on_a_terminal() {
    let pair = Pair::new(TEXT);
    let many: String = (0..5000).map(|number| format!("\tx{number} = y\n")).collect();
    let withheld = pair.writes(&format!("{TEXT}[\u{61} \"\u{1b}[2J{}\"]\n{many}", "z".repeat(1000)));
    assert_eq!(withheld.len(), MAX_REPORTED);
    assert!(withheld.iter().all(|key| key.chars().count() == MAX_SHOWN && !key.contains('\u{1b}')));
    let flood: String = (0..5000).map(|number| format!("[branch \"{number}\"]\n\trebase = true\n")).collect();
    assert_eq!(pair.writes(&format!("{TEXT}{flood}")).len(), MAX_REPORTED);
    assert_eq!(pair.real(), TEXT);
}

#[test]
fn what_the_machine_has_changed_meanwhile_stays() {
    let pair = Pair::new(TEXT);
    let mine = format!("{}[branch \"main\"]\n\trebase = false\n", TEXT.replace("com/x", "com/mine"));
    fs::write(pair.at("git/config"), &mine).unwrap();
    let theirs = format!(
        "{}[branch \"main\"]\n\trebase = true\n[branch \"x\"]\n\trebase = true\n",
        TEXT.replace("com/x", "org/y")
    );
    assert_eq!(pair.writes(&theirs), ["remote.origin.url", "branch.main.rebase"]);
    assert_eq!(pair.real(), format!("{mine}[branch \"x\"]\n\trebase = true\n"));
}

#[test]
fn a_file_that_git_has_locked_is_written_later() {
    let pair = Pair::new(TEXT);
    fs::write(pair.at("git/config.lock"), "theirs").unwrap();
    let text = format!("{TEXT}[branch \"x\"]\n\trebase = true\n");
    assert!(pair.writes(&text).is_empty());
    assert_eq!((pair.real(), fs::read_to_string(pair.at("git/config.lock")).unwrap()), (TEXT.into(), "theirs".into()));
    fs::remove_file(pair.at("git/config.lock")).unwrap();
    assert!(pair.configs.have_changed() && pair.configs.write_back().is_empty());
    assert_eq!(pair.real(), text);
}

#[test]
fn commands_of_git_and_a_copy_that_changes_all_the_time_lose_nothing() {
    let pair = Pair::new(TEXT);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let hostile = if number % 2 == 0 { "[core]\n\tfsmonitor = x\n" } else { "[alias]\n\tx = !x\n[a" };
                fs::write(pair.copy(), format!("{TEXT}[branch \"x\"]\n\trebase = true\n{hostile}")).unwrap();
            }
        });
        for number in 0..20 {
            let mine = pair.at("git/config");
            scope.spawn(move || {
                let git = || {
                    std::process::Command::new("git")
                        .args(["config", "--file"])
                        .arg(&mine)
                        .args([&format!("mine.x{number}"), "y"])
                        .output()
                        .unwrap()
                };
                while !git().status.success() {}
            });
            drop(pair.configs.write_back());
        }
        stop.store(true, Ordering::Relaxed);
    });
    pair.writes(&format!("{TEXT}[branch \"x\"]\n\trebase = true\n"));
    let real = values(pair.real().as_bytes()).unwrap();
    assert_eq!(real.keys().filter(|key| key.section == "mine").count(), 20);
    assert!(
        real.keys().any(|key| key.section == "branch")
            && !pair.real().contains("fsmonitor")
            && !pair.real().contains("alias")
    );
}
