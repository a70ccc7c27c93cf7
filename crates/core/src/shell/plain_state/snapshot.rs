//! A session's state between two commands of plain mode: the dump of the last command's shell, without the settings of
//! that command only.

use super::declaration::Declaration;
use super::dump::{Dump, SECTIONS, Section};
use super::quote::quote;
use super::statements::{parse_traps, statements, value_of, words};
use nacre_protocol::shell::portable::{self, Move, Variables, moved_path};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Changes of variables; `None` unsets.
pub type EnvChanges = [(String, Option<String>)];

/// The prefix of the engine's own variables, and of its EXIT trap.
pub const OWN: &str = "__nacre_";

/// In the name of the directory that stands for one that is gone.
pub const NOWHERE: &str = "/nacre-nowhere.";

/// The name of a variable that is read-only in the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable {0} is read-only in the session and cannot be changed")]
pub struct ReadOnly(pub String);

/// Options that bash changes when a variable is set. They belong to the command that had the variable.
const CHANGED_OPTIONS: [(&str, &[&str]); 4] = [
    (
        "POSIXLY_CORRECT",
        &["posix", "expand_aliases", "inherit_errexit", "interactive_comments", "shift_verbose", "sourcepath"],
    ),
    ("GLOBIGNORE", &["dotglob"]),
    ("IGNOREEOF", &["ignoreeof"]),
    ("ignoreeof", &["ignoreeof"]),
];

/// Settings that applied to one command only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Variables that had separate values for the command.
    pub names: Vec<String>,
    /// Whether the command had a separate directory.
    pub cwd: bool,
}

/// The state that a shell wrote after its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    sections: Vec<Vec<u8>>,
    /// Names and definitions.
    functions: Vec<Vec<u8>>,
    /// Kind and name of each item that the shell could not restore.
    pub lost: Vec<(String, String)>,
    traps: Vec<(Vec<u8>, String)>,
    /// Whether the command ended the shell.
    pub exited: bool,
    in_function: bool,
    /// The text could not be parsed, so nothing ran.
    pub unparsed: bool,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    sections: Vec<Vec<u8>>,
    /// Names and definitions.
    functions: Vec<Vec<u8>>,
    /// Text and signal of each trap except EXIT.
    traps: Vec<(Vec<u8>, String)>,
    exit_trap: Option<Vec<u8>>,
}

impl Report {
    /// Parses a dump; `None` if the shell died before the end of it.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let dump = Dump::parse(bytes)?;
        let flags = dump.section(Section::Flags);
        let has = |flag: &[u8]| flags.split(|byte| *byte == b' ').any(|word| word == flag);
        Some(Self {
            traps: parse_traps(dump.section(Section::Traps)),
            exited: has(b"exit") && !has(b"unparsed"),
            in_function: has(b"function"),
            unparsed: has(b"unparsed"),
            lost: dump.lost.chunks_exact(2).map(|item| (text(item[0]), text(item[1]))).collect(),
            sections: owned(&dump.sections),
            functions: owned(&dump.functions),
        })
    }

    /// The variables that belong to a running function.
    fn locals(&self) -> impl Iterator<Item = &str> {
        let names = self.sections[Section::Locals as usize].split(|byte| *byte == b'\n');
        names.filter_map(|name| std::str::from_utf8(name).ok()).filter(|name| !name.is_empty())
    }
}

impl Snapshot {
    /// The state after a command; `previous` is the state before it.
    pub fn after(report: Report, previous: Option<&Self>, scope: &Scope) -> Self {
        let mut kept: Vec<&str> = scope.names.iter().map(String::as_str).collect();
        if scope.cwd {
            kept.extend(["PWD", "OLDPWD"]);
        }
        // Bash cannot report whether a nameref is local, so it counts as global.
        let testable = |name: &str| report.find(name).is_some_and(|one| !one.has(b'n'));
        kept.extend(report.locals().filter(|name| testable(name)));
        let mut sections = report.sections.clone();
        sections[Section::Variables as usize] = report.variables_with(&kept, previous);
        sections[Section::Locals as usize].clear();
        sections[Section::Flags as usize].clear();
        let cwd = &mut sections[Section::Cwd as usize];
        if cwd.ends_with(b"\n") {
            cwd.pop();
        }
        // It was somewhere else, because its own directory was gone.
        let was_nowhere = cwd.is_empty() || cwd.windows(NOWHERE.len()).any(|part| part == NOWHERE.as_bytes());
        if let Some(previous) = previous {
            for (name, options) in CHANGED_OPTIONS {
                if scope.names.iter().any(|one| one == name) {
                    for section in [Section::Options, Section::Shopt] {
                        let section = section as usize;
                        sections[section] = options_with(&sections[section], options, &previous.sections[section]);
                    }
                }
            }
            let mut keep = |section| sections[section as usize].clone_from(&previous.sections[section as usize]);
            if scope.cwd || was_nowhere {
                keep(Section::Cwd);
            }
            if report.in_function {
                keep(Section::Arguments);
            }
        }
        let (exits, mut traps): (Vec<_>, Vec<_>) = report.traps.into_iter().partition(|(_, signal)| signal == "EXIT");
        if report.in_function {
            // A function does not inherit these traps, and does not list them.
            let hidden = |signal: &str| ["DEBUG", "ERR", "RETURN"].contains(&signal);
            let before = previous.into_iter().flat_map(|previous| previous.traps.iter());
            for trap in before.filter(|(_, signal)| hidden(signal)) {
                if !traps.iter().any(|(_, signal)| *signal == trap.1) {
                    traps.push(trap.clone());
                }
            }
        }
        let own = |text: &[u8]| text.starts_with(OWN.as_bytes());
        let before = || previous.and_then(|previous| previous.exit_trap.clone());
        let exit_trap = match exits.into_iter().next() {
            // While the EXIT trap runs, it is not listed.
            None if report.exited => before(),
            None => None,
            Some((text, _)) if own(&text) => before(),
            Some((text, _)) => Some(text),
        };
        Self { sections, functions: report.functions, traps, exit_trap }
    }

    /// The state after changing exported variables.
    ///
    /// # Errors
    /// Returns the first read-only variable.
    pub fn with_env(&self, changes: &EnvChanges) -> Result<Self, ReadOnly> {
        let read_only = |name: &str| find(self.variables(), name).is_some_and(|variable| variable.has(b'r'));
        if let Some((name, _)) = changes.iter().find(|(name, _)| read_only(name)) {
            return Err(ReadOnly(name.clone()));
        }
        let names: Vec<&str> = changes.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = without(self.variables(), &names);
        for (at, (name, value)) in changes.iter().enumerate() {
            let is_last = changes[at + 1..].iter().all(|(later, _)| later != name);
            if let Some(value) = value.as_ref().filter(|_| is_last) {
                text.extend([b"declare -x ", name.as_bytes(), b"=", &quote(value.as_bytes()), b"\n"].concat());
            }
        }
        let mut changed = self.clone();
        changed.sections[Section::Variables as usize] = text;
        Ok(changed)
    }

    /// Whether it has everything that a shell begins with. It may come from another machine.
    pub fn is_whole(&self) -> bool {
        self.sections.len() == SECTIONS && self.functions.len().is_multiple_of(2)
    }

    /// The state without the variables that are as in this environment, and the names in it for which the state has something else,
    /// or nothing.
    pub fn without_inherited(mut self, env: &Variables) -> (Self, Vec<Vec<u8>>) {
        let inherited: BTreeMap<&[u8], &OsStr> = portable::inherited(env).collect();
        let mut own: BTreeSet<Vec<u8>> = inherited.keys().map(|name| name.to_vec()).collect();
        let mut text = Vec::new();
        for statement in statements(self.variables()) {
            let same = Declaration::parse(statement).filter(|one| {
                let value = one.value.map(value_of);
                one.flags == b"-x" && inherited.get(one.name).map(|value| value.as_bytes()) == value.as_deref()
            });
            match same {
                Some(one) => drop(own.remove(one.name)),
                None => text.extend([statement, b"\n"].concat()),
            }
        }
        self.sections[Section::Variables as usize] = text;
        // Programs have other paths elsewhere.
        self.sections[Section::Hashes as usize].clear();
        (self, own.into_iter().collect())
    }

    /// The state with the variables of an environment, except for the names in `own`.
    pub fn with_inherited(mut self, env: &Variables, own: &[Vec<u8>]) -> Self {
        let mut known: BTreeSet<Vec<u8>> = own.iter().cloned().collect();
        known.extend(
            statements(self.variables()).into_iter().filter_map(|one| Some(Declaration::parse(one)?.name.to_vec())),
        );
        let mut text = Vec::new();
        for (name, value) in portable::inherited(env).filter(|(name, _)| !known.contains(*name)) {
            text.extend([b"declare -x ", name, b"=", &quote(value.as_bytes()), b"\n"].concat());
        }
        text.extend_from_slice(self.variables());
        self.sections[Section::Variables as usize] = text;
        self
    }

    /// The state with its directories where they are now.
    pub fn moved(mut self, moves: &[Move]) -> Self {
        let moved = |path: &[u8]| moved_path(path, moves);
        let cwd = &mut self.sections[Section::Cwd as usize];
        *cwd = moved(cwd).unwrap_or_else(|| std::mem::take(cwd));
        let pushed = &self.sections[Section::Directories as usize];
        let pushed =
            words(pushed).into_iter().map(|word| moved(&value_of(word)).map_or(word.to_vec(), |path| quote(&path)));
        let pushed = pushed.collect::<Vec<_>>().join(&b' ');
        self.sections[Section::Directories as usize] = pushed;
        let mut text = Vec::new();
        for statement in statements(self.variables()) {
            let directory = Declaration::parse(statement).filter(|one| matches!(one.name, b"PWD" | b"OLDPWD"));
            let place = directory.and_then(|one| Some((one, moved(&value_of(one.value?))?)));
            match place {
                Some((Declaration { flags, name, .. }, path)) => {
                    text.extend([b"declare ", flags, b" ", name, b"=", &quote(&path)].concat());
                }
                None => text.extend_from_slice(statement),
            }
            text.push(b'\n');
        }
        self.sections[Section::Variables as usize] = text;
        self
    }

    /// The session's directory.
    pub fn cwd(&self) -> &[u8] {
        &self.sections[Section::Cwd as usize]
    }

    /// The user's EXIT trap.
    pub fn exit_trap(&self) -> Option<&[u8]> {
        self.exit_trap.as_deref()
    }

    /// The other traps: text and signal.
    pub fn traps(&self) -> &[(Vec<u8>, String)] {
        &self.traps
    }

    /// Text that restores everything but options and traps.
    pub fn restore(&self) -> Vec<u8> {
        self.dump().restore()
    }

    /// Lines that restore the options of `set`.
    pub fn options(&self) -> Vec<Vec<u8>> {
        self.dump().options().split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    }

    /// The disabled builtins, each after a blank.
    pub fn disabled(&self) -> Vec<u8> {
        self.dump().disabled()
    }

    fn dump(&self) -> Dump<'_> {
        Dump { lost: Vec::new(), sections: slices(&self.sections), functions: slices(&self.functions) }
    }

    fn variables(&self) -> &[u8] {
        &self.sections[Section::Variables as usize]
    }
}

impl Report {
    fn find(&self, name: &str) -> Option<Declaration<'_>> {
        find(&self.sections[Section::Variables as usize], name)
    }

    /// The variables, where those in `kept` have their previous values.
    fn variables_with(&self, kept: &[&str], previous: Option<&Snapshot>) -> Vec<u8> {
        let mut text = without(&self.sections[Section::Variables as usize], kept);
        let before = previous.map(Snapshot::variables).unwrap_or_default();
        for statement in statements(before) {
            if name_of(statement).is_some_and(|name| kept.contains(&name)) {
                text.extend([statement, b"\n"].concat());
            }
        }
        text
    }
}

fn owned(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

fn slices(parts: &[Vec<u8>]) -> Vec<&[u8]> {
    parts.iter().map(Vec::as_slice).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of `set +o` or `shopt -p`, where these options have their previous values.
fn options_with(lines: &[u8], options: &[&str], previous: &[u8]) -> Vec<u8> {
    let is_one =
        |line: &&[u8]| options.iter().any(|option| line.rsplit(|byte| *byte == b' ').next() == Some(option.as_bytes()));
    let kept = statements(lines).into_iter().filter(|line| !is_one(line));
    kept.chain(statements(previous).into_iter().filter(is_one)).flat_map(|line| [line, b"\n"].concat()).collect()
}

fn name_of(statement: &[u8]) -> Option<&str> {
    std::str::from_utf8(Declaration::parse(statement)?.name).ok()
}

fn find<'a>(variables: &'a [u8], name: &str) -> Option<Declaration<'a>> {
    let mut declared = statements(variables).into_iter().filter_map(Declaration::parse);
    declared.find(|variable| variable.name == name.as_bytes())
}

/// Declarations except those of `names` and the engine's own variables.
fn without(variables: &[u8], names: &[&str]) -> Vec<u8> {
    let mut text = Vec::with_capacity(variables.len());
    for statement in statements(variables) {
        if name_of(statement).is_none_or(|name| !names.contains(&name) && !name.starts_with(OWN)) {
            text.extend_from_slice(statement);
            text.push(b'\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(variables: &str, traps: &str, locals: &str, flags: &str) -> Report {
        let mut sections = [""; SECTIONS];
        sections[Section::Variables as usize] = variables;
        sections[Section::Traps as usize] = traps;
        sections[Section::Locals as usize] = locals;
        sections[Section::Flags as usize] = flags;
        sections[Section::Cwd as usize] = "/tmp\n";
        Report::parse(format!("BEGIN\0{}\0END\0", sections.join("\0")).as_bytes()).unwrap()
    }

    fn variables(snapshot: &Snapshot) -> &str {
        std::str::from_utf8(snapshot.variables()).unwrap()
    }

    #[test]
    fn a_scope_ends_with_its_command() {
        let before = Snapshot::after(report("declare -- a=\"1\"\n", "", "", ""), None, &Scope::default());
        let scope = Scope { names: vec!["a".into(), "new".into()], cwd: false };
        let text = "declare -x a=\"2\"\ndeclare -x new=\"3\"\ndeclare -- b=\"4\"\ndeclare -- __nacre_status=\"0\"\n";
        let after = Snapshot::after(report(text, "", "", ""), Some(&before), &scope);
        assert_eq!(variables(&after), "declare -- b=\"4\"\ndeclare -- a=\"1\"\n");
        assert_eq!(after.cwd(), b"/tmp");
    }

    #[test]
    fn local_variables_of_a_function_that_exits_are_dropped() {
        let before = Snapshot::after(report("declare -- a=\"1\"\n", "", "", ""), None, &Scope::default());
        let text = "declare -- a=\"local\"\ndeclare -- l=\"local\"\ndeclare -- g=\"global\"\n";
        let after = Snapshot::after(report(text, "", "a\nl\n", "exit function"), Some(&before), &Scope::default());
        assert_eq!(variables(&after), "declare -- g=\"global\"\ndeclare -- a=\"1\"\n");
    }

    #[test]
    fn the_engines_exit_trap_stands_for_the_users() {
        let scope = Scope::default();
        let set = Snapshot::after(report("", "trap -- 'echo bye' EXIT\ntrap -- 'x' SIGHUP\n", "", ""), None, &scope);
        assert_eq!((set.exit_trap(), set.traps().len()), (Some(&b"echo bye"[..]), 1));
        let own = "trap -- '__nacre_status=$?' EXIT\n";
        for (traps, flags, kept) in [(own, "", true), ("", "exit", true), ("", "", false)] {
            let after = Snapshot::after(report("", traps, "", flags), Some(&set), &scope);
            assert_eq!(after.exit_trap().is_some(), kept, "{traps} {flags}");
        }
    }

    #[test]
    fn environment_changes_replace_whatever_was_there() {
        let text = "declare -ai a=([0]=\"1\")\ndeclare -r fixed=\"1\"\ndeclare -- gone=\"1\"\n";
        let state = Snapshot::after(report(text, "", "", ""), None, &Scope::default());
        let changed = state.with_env(&[("a".into(), Some("it's".into())), ("gone".into(), None)]).unwrap();
        assert_eq!(variables(&changed), "declare -r fixed=\"1\"\ndeclare -x a='it'\\''s'\n");
        assert_eq!(state.with_env(&[("fixed".into(), None)]), Err(ReadOnly("fixed".into())));
    }

    #[test]
    fn a_state_takes_the_environment_of_its_new_place() {
        let env = |variables: &[(&str, &str)]| {
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>()
        };
        let text = "declare -x A=\"a \\\"\\$b\"\ndeclare -x N=$'x\\ny'\ndeclare -x C=\"c\"\ndeclare -- D=\"d\"\ndeclare -x PWD=\"/old/x\"\n";
        let state = Snapshot::after(report(text, "", "", ""), None, &Scope::default());
        let before = env(&[("A", "a \"$b"), ("N", "x\ny"), ("C", "other"), ("D", "d"), ("GONE", "1")]);
        let (carried, own) = state.without_inherited(&before);
        assert_eq!(variables(&carried), "declare -x C=\"c\"\ndeclare -- D=\"d\"\ndeclare -x PWD=\"/old/x\"\n");
        assert_eq!(own, [&b"C"[..], b"D", b"GONE"]);
        let here = carried
            .moved(&[(b"/old".to_vec(), b"/new".to_vec())])
            .with_inherited(&env(&[("A", "it's"), ("C", "3"), ("GONE", "4")]), &own);
        assert_eq!(
            variables(&here),
            "declare -x A='it'\\''s'\ndeclare -x C=\"c\"\ndeclare -- D=\"d\"\ndeclare -x PWD='/new/x'\n"
        );
        assert!(here.is_whole());
    }
}
