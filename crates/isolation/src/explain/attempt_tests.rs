use super::*;
use nacre_protocol::confinement::{Filesystem, Namespaces};
use nacre_protocol::standing::RunAs;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

struct Place {
    _directory: tempfile::TempDir,
    root: PathBuf,
    confinement: Confinement,
}

impl Place {
    /// A writable project with a protected tree, beside a hidden tree and another one.
    fn new(read: Option<&[&str]>, learns: bool) -> Self {
        let directory = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
        let root = directory.path().canonicalize().unwrap();
        for tree in ["project/kept", "keys", "other/closed"] {
            fs::create_dir_all(root.join(tree)).unwrap();
        }
        for file in ["keys/id", "other/file", "project/file", "project/kept/file", "other/closed/file"] {
            fs::write(root.join(file), "").unwrap();
        }
        symlink("../keys", root.join("project/link")).unwrap();
        fs::set_permissions(root.join("other/closed"), fs::Permissions::from_mode(0o555)).unwrap();
        let all = Namespaces { user: true, ipc: true, network: true, processes: true };
        let mut confinement = Confinement::open(all, root.join("project"), "/bin/bash".into());
        let filesystem = Filesystem {
            read: read.map(|trees| trees.iter().map(|tree| root.join(tree)).collect()),
            write: vec![root.join("project")],
            protect: vec![root.join("project/kept")],
            hide: vec![root.join("keys")],
            ..Filesystem::default()
        };
        confinement.observed = Some(Observed { filesystem, learns });
        Self { _directory: directory, root, confinement }
    }

    /// The rule and its tree.
    fn judge(&self, path: &str, wanted: Use) -> Option<(Rule, String)> {
        let own = RunAs::own();
        let ran = Ran::as_user(&own);
        let observed = self.confinement.observed.as_ref().unwrap();
        let refused = AttemptJudge::new(&self.confinement, observed, &ran).judge(&self.root.join(path), wanted)?;
        let tree = refused.refusal.tree;
        Some((refused.refusal.rule, tree.strip_prefix(&self.root).unwrap_or(&tree).display().to_string()))
    }
}

const EVERY: [Use; 8] =
    [Use::Read, Use::Change, Use::Write, Use::Ensure, Use::Create, Use::Remove, Use::Mark, Use::Replace];

#[test]
fn only_what_would_work_without_the_rules_is_refused() {
    let place = Place::new(None, false);
    let refused: Vec<(&str, Use)> = ["other/file", "other/none", "other/none/new", "other/closed", "project/file"]
        .into_iter()
        .flat_map(|path| EVERY.map(|wanted| (path, wanted)))
        .filter(|(path, wanted)| place.judge(path, *wanted).is_some())
        .collect();
    let expected = [
        ("other/file", Use::Change),
        ("other/file", Use::Write),
        ("other/file", Use::Remove),
        ("other/file", Use::Mark),
        ("other/file", Use::Replace),
        ("other/none", Use::Write),
        ("other/none", Use::Ensure),
        ("other/none", Use::Create),
        ("other/none", Use::Replace),
        ("other/closed", Use::Remove),
        ("other/closed", Use::Mark),
        ("other/closed", Use::Replace),
    ];
    assert_eq!(refused, expected);
    assert_eq!(place.judge("other/none", Use::Create), Some((Rule::Write, "other".into())));
    assert_eq!(place.judge("project/kept/new", Use::Write), Some((Rule::Protect, "project/kept".into())));
    assert_eq!(place.judge("project/kept/file", Use::Read), None);
    // Its mode refuses that.
    assert_eq!(place.judge("other/closed/new", Use::Write), None);
}

#[test]
fn a_hidden_path_is_refused_whether_it_exists_or_not_also_through_a_link() {
    let place = Place::new(None, false);
    for path in ["keys", "keys/id", "keys/none", "project/link/id", "project/link/none"] {
        assert_eq!(place.judge(path, Use::Read), Some((Rule::Hide, "keys".into())), "{path}");
    }
    // The link itself is the project's.
    assert_eq!(place.judge("project/link", Use::Remove), None);
}

#[test]
fn a_path_outside_of_the_listed_trees_is_refused() {
    let place = Place::new(Some(&["other/closed"]), false);
    assert_eq!(place.judge("other/file", Use::Read), Some((Rule::Read, "other/file".into())));
    assert_eq!(place.judge("other/none", Use::Write), Some((Rule::Write, "other".into())));
    assert_eq!(place.judge("other/closed/file", Use::Read), None);
    for (path, wanted) in [("/usr/bin/env", Use::Read), ("/tmp/new", Use::Write), ("/dev/null", Use::Write)] {
        assert_eq!(place.judge(path, wanted), None, "{path}");
    }
}

#[test]
fn what_learns_records_only_what_is_there() {
    let place = Place::new(Some(&[]), true);
    assert_eq!(place.judge("other/file", Use::Read), Some((Rule::Read, "other/file".into())));
    assert_eq!(place.judge("keys/id", Use::Read), Some((Rule::Hide, "keys".into())));
    for path in ["other/none", "keys/none"] {
        assert_eq!(place.judge(path, Use::Read), None, "{path}");
    }
    assert_eq!(place.judge("other/new", Use::Write), Some((Rule::Write, "other".into())));
    assert_eq!(place.judge("keys/new", Use::Write), Some((Rule::Hide, "keys".into())));
    assert_eq!(place.judge("project/file", Use::Execute), None);
}
