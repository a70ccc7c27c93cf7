use super::*;
use nacre_protocol::confinement::Mount;

fn offer(namespaces: bool, landlock: i32) -> Offer {
    let made = |made: bool| if made { Ok(()) } else { Err("Operation not permitted".to_string()) };
    Offer {
        needs_user: false,
        mounts: made(namespaces),
        processes: made(namespaces),
        network: made(namespaces),
        landlock,
        seccomp: true,
        broker: Ok(()),
        redirects: Ok(()),
        reads_undumpable: true,
    }
}

fn places() -> Places {
    let private = ["/state", "/w/jobs", "/"].map(PathBuf::from).to_vec();
    Places {
        cwd: "/w".into(),
        shell: "/bin/bash".into(),
        temporary: "/state/tmp".into(),
        private,
        mounts: MountTable::default(),
        project: ProjectFiles::default(),
    }
}

fn strict() -> Rules {
    let filesystem = Filesystem { write: vec!["/w".into()], hide: vec!["/secret".into()], ..Filesystem::default() };
    Rules { filesystem, network: Network::Closed, own_processes: true, ..Rules::default() }
}

#[test]
fn namespaces_enforce_everything_and_landlock_is_added() {
    let found = decide(&strict(), &offer(true, 7), places()).unwrap();
    assert_eq!(found.namespaces, Some(Namespaces { user: false, ipc: true, network: true, processes: true }));
    assert!(found.landlock.unwrap().filesystem && found.landlock.unwrap().signals);
    assert_eq!((found.sockets, found.temporary), (Sockets::Internet, PathBuf::from("/tmp")));
    assert!(!found.refuses_ptrace);
}

#[test]
fn the_engines_directories_are_hidden_unless_they_contain_what_the_rules_name() {
    let found = decide(&strict(), &offer(true, 7), places()).unwrap();
    assert_eq!(found.private, [PathBuf::from("/state"), PathBuf::from("/w/jobs")]);
}

#[test]
fn landlock_and_the_filter_enforce_what_they_can() {
    let found = decide(&strict(), &offer(false, 7), places()).unwrap();
    assert_eq!((found.namespaces, found.sockets), (None, Sockets::None));
    assert_eq!(found.temporary, PathBuf::from("/state/tmp"));
    let proxied = Rules { network: Network::Proxy, ..strict() };
    let found = decide(&proxied, &offer(false, 7), places()).unwrap();
    assert!(found.landlock.unwrap().tcp && found.sockets == Sockets::Tcp && !found.redirects);
    assert!(decide(&proxied, &offer(true, 7), places()).unwrap().redirects);
    let old = Offer { redirects: Err("none".into()), ..offer(true, 7) };
    assert!(!decide(&proxied, &old, places()).unwrap().redirects);
}

#[test]
fn programs_stay_dumpable_only_where_the_broker_could_not_read_them() {
    let ordinary = |namespaces| Offer { needs_user: true, reads_undumpable: false, ..offer(namespaces, 7) };
    let alone = decide(&strict(), &ordinary(false), places()).unwrap();
    assert!(alone.keeps_dumpable && alone.refuses_ptrace);
    let unbrokered = Offer { broker: Err("none".into()), ..ordinary(false) };
    for offer in [ordinary(true), offer(false, 7), unbrokered] {
        assert!(!decide(&strict(), &offer, places()).unwrap().keeps_dumpable);
    }
}

#[test]
fn what_cannot_be_enforced_names_its_rule_or_is_dropped() {
    let mut protects = strict();
    protects.filesystem.protect = vec!["/w/.git".into()];
    let mut hides = strict();
    hides.filesystem.hide = vec!["/w/secret".into()];
    let proxied = Rules { network: Network::Proxy, ..strict() };
    for (rules, version, rule) in [
        (&strict(), 0, "isolation.filesystem"),
        (&protects, 7, "isolation.filesystem.protect"),
        (&hides, 7, "isolation.filesystem.hide"),
        (&proxied, 3, "isolation.network"),
        (&strict(), 5, "isolation.processes"),
    ] {
        assert_eq!(decide(rules, &offer(false, version), places()).unwrap_err().rule, rule);
        let lenient = Rules { best_effort: true, ..rules.clone() };
        decide(&lenient, &offer(false, version), places()).unwrap();
    }
}

#[test]
fn without_a_broker_no_list_of_hosts_is_enforced_by_landlock_alone() {
    let proxied = Rules { network: Network::Proxy, ..strict() };
    let offer = Offer { broker: Err("Operation not permitted".into()), ..offer(false, 7) };
    let refused = decide(&proxied, &offer, places()).unwrap_err();
    assert_eq!(refused.rule, "isolation.network");
    assert!(refused.reason.contains("Operation not permitted"), "{}", refused.reason);
}

#[test]
fn landlock_alone_does_not_open_what_lies_in_a_closed_tree() {
    let mut rules = strict();
    rules.filesystem.write = ["/w/a", "/x", "/p/b", "/v"].map(PathBuf::from).to_vec();
    rules.filesystem.hide = ["/w", "/x"].map(PathBuf::from).to_vec();
    rules.filesystem.protect = vec!["/p".into()];
    let found = decide(&rules, &offer(false, 7), places()).unwrap();
    assert_eq!(found.filesystem.unwrap().write, [PathBuf::from("/v")]);
}

#[test]
fn mounts_are_never_dropped_and_do_not_cover_the_shell() {
    let mount = |target: &str| Mount { source: "/srv/own".into(), target: target.into() };
    let mut rules = Rules { best_effort: true, ..strict() };
    rules.filesystem.mounts = vec![mount("/home/user")];
    assert_eq!(decide(&rules, &offer(true, 7), places()).unwrap().filesystem.unwrap().mounts, [mount("/home/user")]);
    let refused = decide(&rules, &offer(false, 7), places()).unwrap_err().to_string();
    for part in ["isolation.filesystem.mounts cannot", "Operation not permitted", "user namespaces", "omit the mounts"]
    {
        assert!(refused.contains(part), "{refused}");
    }
    rules.filesystem.mounts = vec![mount("/bin")];
    let refused = decide(&rules, &offer(true, 7), places()).unwrap_err().to_string();
    assert!(refused.contains("covers the shell, /bin/bash. Choose another"), "{refused}");
}

#[test]
fn a_rule_about_what_a_mount_covers_does_not_make_the_engines_directories_visible() {
    let mut rules = strict();
    rules.filesystem.write.push("/state/sub".into());
    assert_eq!(decide(&rules, &offer(true, 7), places()).unwrap().private, [PathBuf::from("/w/jobs")]);
    rules.filesystem.mounts = vec![Mount { source: "/srv/own".into(), target: "/state".into() }];
    let private = decide(&rules, &offer(true, 7), places()).unwrap().private;
    assert_eq!(private, [PathBuf::from("/state"), PathBuf::from("/w/jobs")]);
}

#[test]
fn observed_rules_are_enforced_unless_the_session_learns() {
    let explaining = Rules { explains: true, ..strict() };
    let found = decide(&explaining, &offer(true, 7), places()).unwrap();
    let observed = found.observed.clone().unwrap();
    assert_eq!((Some(observed.filesystem), observed.learns), (found.filesystem, false));
    let learning = Rules { learns: true, ..strict() };
    for namespaces in [true, false] {
        let found = decide(&learning, &offer(namespaces, 7), places()).unwrap();
        assert_eq!(found.judged().unwrap().hide, [PathBuf::from("/secret")]);
        let enforced = found.filesystem.unwrap();
        assert_eq!((enforced.write, enforced.hide, enforced.read), (vec![PathBuf::from("/")], vec![], None));
        // No host is out of reach.
        assert_eq!(found.network, Network::Proxy);
    }
}

#[test]
fn without_a_broker_nothing_is_observed_and_nothing_learns() {
    let lacking = Offer { broker: Err("no ptrace".into()), ..offer(true, 7) };
    let explaining = Rules { explains: true, ..strict() };
    assert_eq!(decide(&explaining, &lacking, places()).unwrap_err().rule, "isolation.explain");
    let lenient = Rules { best_effort: true, ..explaining };
    let found = decide(&lenient, &lacking, places()).unwrap();
    assert_eq!((found.observed, found.filesystem.is_some()), (None, true));
    // It would enforce the rules, or none without a report.
    for offer in [lacking, offer(false, 0)] {
        let learning = Rules { learns: true, best_effort: true, ..strict() };
        assert_eq!(decide(&learning, &offer, places()).unwrap_err().rule, "isolation.learn");
    }
}
