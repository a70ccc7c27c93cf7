//! Converts the dump of a shell's state to the script that restores it in a new shell, in plain mode.
//!
//! Pure: bytes in, bytes out. Each item is a statement that is evaluated by itself, so that one that fails loses no
//! other item. Its name is then added to an array, for the report.
//!
//! The script is ordered by dependency. Variables and arguments precede functions, because a function called `builtin`
//! would make every `declare` and `set --` local to itself. `expand_aliases` and posix mode, which change how functions
//! are parsed, follow them. Options such as `errexit`, `nounset` and `noglob` would change how the script runs, and
//! traps would fire for it, so they come last.

use super::declaration::Declaration;
use super::quote::quote;
use super::statements::{is_literal, split_last_word, statements, unquote, words};

/// Number of sections, each terminated by NUL. Names and definitions of functions follow, and then `END`.
pub(super) const SECTIONS: usize = 15;
/// Ends the list of what could not be restored, which precedes the sections.
const BEGIN: &[u8] = b"BEGIN";
/// The array of what could not be restored: kind and name of each.
pub const LOST: &str = "__nacre_lost";

/// The sections of a dump, in order.
#[derive(Clone, Copy)]
pub(super) enum Section {
    /// `enable -n`
    Disabled,
    /// `trap -p`
    Traps,
    /// `set +o`
    Options,
    /// `shopt -p`
    Shopt,
    /// `pwd`
    Cwd,
    /// `umask -p`
    Umask,
    /// `declare -p`
    Variables,
    /// The names of variables that belong to a running function.
    Locals,
    /// `declare -F`
    FunctionAttributes,
    /// `alias -p`
    Aliases,
    /// `$0`, `$#` and `"$@"`, quoted
    Arguments,
    /// `"${DIRSTACK[@]}"`, quoted
    Directories,
    /// `complete -p`
    Completions,
    /// `hash -l`
    Hashes,
    /// How the command ended.
    Flags,
}

/// Variables that bash maintains itself.
const SPECIAL: [&str; 37] = [
    "BASH",
    "BASHOPTS",
    "BASHPID",
    "BASH_ALIASES",
    "BASH_ARGC",
    "BASH_ARGV",
    "BASH_ARGV0",
    "BASH_CMDS",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_LINENO",
    "BASH_MONOSECONDS",
    "BASH_SOURCE",
    "BASH_SUBSHELL",
    "BASH_TRAPSIG",
    "BASH_VERSINFO",
    "BASH_VERSION",
    "COMP_CWORD",
    "COMP_KEY",
    "COMP_LINE",
    "COMP_POINT",
    "COMP_TYPE",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "FUNCNAME",
    "GROUPS",
    "HISTCMD",
    "LINENO",
    "PIPESTATUS",
    "PPID",
    "RANDOM",
    "SHELLOPTS",
    "SRANDOM",
    "UID",
    "_",
];

/// Variables that bash sets by itself. If one is not in the dump, the user had unset it.
const DEFAULTS: [&str; 13] = [
    "HOSTNAME", "HOSTTYPE", "IFS", "MACHTYPE", "OLDPWD", "OPTERR", "OSTYPE", "PATH", "PS4", "PWD", "SHELL", "SHLVL",
    "TERM",
];

/// Variables of a new bash that would evaluate a text as a number. If they are missing, or a text, the user had unset them.
const INTEGERS: [&str; 3] = ["OPTIND", "RANDOM", "SECONDS"];

/// Variables that are restored last. Two change how bash parses functions. The third names a file that bash cuts when
/// HISTFILESIZE is assigned.
const LATE: [&str; 3] = ["BASH_COMPAT", "HISTFILE", "POSIXLY_CORRECT"];

/// A complete saved state.
pub(super) struct Dump<'a> {
    /// Kind and name of what the shell could not restore before the command.
    pub(super) lost: Vec<&'a [u8]>,
    pub(super) sections: Vec<&'a [u8]>,
    /// Names and definitions.
    pub(super) functions: Vec<&'a [u8]>,
}

impl<'a> Dump<'a> {
    /// Parses a dump; `None` if the shell died while saving.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut parts: Vec<&[u8]> = bytes.strip_suffix(b"\0END\0")?.split(|&byte| byte == 0).collect();
        // A name can be the same word.
        let begin = parts.iter().step_by(2).position(|part| *part == BEGIN)? * 2;
        let sections = parts.split_off(begin + 1);
        parts.pop();
        let (sections, functions) = sections.split_at_checked(SECTIONS)?;
        Some(Self { lost: parts, sections: sections.to_vec(), functions: functions.to_vec() })
    }

    pub(super) fn section(&self, section: Section) -> &'a [u8] {
        self.sections[section as usize]
    }

    /// Text that restores everything but options and traps, and enters no directory.
    pub(super) fn restore(&self) -> Vec<u8> {
        let mut out = Script::default();
        let declared: Vec<Declaration<'_>> =
            statements(self.section(Section::Variables)).into_iter().filter_map(Declaration::parse).collect();
        let variables: Vec<&Declaration<'_>> = declared.iter().filter(|variable| !is_special(variable)).collect();
        // The environment can set options, with SHELLOPTS.
        out.line(b"\\builtin set +aefku");
        // It would read the file that HISTFILE names.
        statements(self.section(Section::Options)).into_iter().filter(is_history).for_each(|line| out.builtin(line));
        out.line(b"\\builtin unset -v OLDPWD HISTFILE");
        let is_computed = |name: &str| {
            let own = declared.iter().find(|variable| variable.name == name.as_bytes());
            own.is_some_and(|own| own.has(b'i') || own.value.is_none_or(is_number))
        };
        for name in INTEGERS.iter().filter(|name| !is_computed(name)) {
            out.words(["\\builtin", "unset", "-v", name].into_iter());
        }
        let missing = DEFAULTS.iter().filter(|name| !variables.iter().any(|variable| variable.name == name.as_bytes()));
        out.words(["\\builtin", "unset", "-v", "BASH_EXECUTION_STRING"].into_iter().chain(missing.copied()));
        let is_late = |variable: &&Declaration<'_>| LATE.iter().any(|late| late.as_bytes() == variable.name);
        let (late, early): (Vec<_>, Vec<_>) = variables.into_iter().partition(is_late);
        // A nameref follows its target, because declaring the nameref would otherwise declare the target.
        let (references, plain): (Vec<_>, Vec<_>) =
            early.into_iter().partition(|variable: &&Declaration<'_>| variable.has(b'n'));
        let restored = |out: &mut Script, variable: &Declaration<'_>| {
            out.item("variable", variable.name, &[&variable.restore()]);
        };
        plain.into_iter().chain(references).for_each(|variable| restored(&mut out, variable));
        self.aliases(&mut out);
        for (kind, section) in
            [("completion", Section::Completions), ("umask", Section::Umask), ("program", Section::Hashes)]
        {
            for line in statements(self.section(section)).into_iter().filter(|line| !line.starts_with(b"hash: ")) {
                let line = line.strip_prefix(b"builtin ").unwrap_or(line);
                let (before, name) = split_last_word(line);
                // Bash prints the name of a command without the `--` that it needs.
                let is_option = matches!(name, b"-D" | b"-E" | b"-I");
                let end: &[u8] = if kind == "completion" && !is_option { b"-- " } else { b"" };
                if is_literal(line) {
                    out.evaluated(kind, name, &[b"\\builtin ", before, end, name], "");
                } else {
                    out.item(kind, name, &[b"[[ '' ]]"]);
                }
            }
        }
        self.directories_and_arguments(&mut out);
        self.functions(&mut out);
        late.into_iter().for_each(|variable| restored(&mut out, variable));
        // Posix mode changes some options of `shopt`.
        statements(self.section(Section::Options)).into_iter().filter(is_posix).for_each(|line| out.builtin(line));
        // `shopt -s compat42` would overwrite a restored value with its own form.
        let compat = |line: &&[u8]| !line.windows(7).any(|part| part == b" compat");
        statements(self.section(Section::Shopt)).into_iter().filter(compat).for_each(|line| out.builtin(line));
        out.line(b"\\builtin unset -v __nacre_item");
        out.0
    }

    /// Bash prints a name as it is, also one that it would not read back.
    fn aliases(&self, out: &mut Script) {
        for line in statements(self.section(Section::Aliases)) {
            let Some(alias) = line.strip_prefix(b"alias ") else { continue };
            let alias = alias.strip_prefix(b"-- ").unwrap_or(alias);
            let end = alias.iter().position(|byte| *byte == b'=').unwrap_or(alias.len());
            let (name, value) = (&alias[..end], unquote(alias.get(end + 1..).unwrap_or_default()));
            let word = quote(&[name, b"=", &value].concat());
            out.item("alias", name, &[b"\\builtin alias -- ", &word]);
        }
    }

    /// Patterns like `!(x)` usually occur in functions that were defined with `extglob`. The word `function` allows
    /// every name.
    fn functions(&self, out: &mut Script) {
        if self.functions.is_empty() {
            return;
        }
        out.line(b"\\builtin shopt -s extglob");
        for function in self.functions.chunks_exact(2) {
            let (name, text) = (function[0], function[1]);
            let text = text.strip_prefix(b"function ").unwrap_or(text);
            let otherwise = "{ \\builtin shopt -u extglob; \\builtin eval \"$__nacre_item\"; } || ";
            out.evaluated("function", name, &[b"function ", text], otherwise);
            out.line(b"\\builtin shopt -s extglob");
        }
        for line in statements(self.section(Section::FunctionAttributes)) {
            if !line.starts_with(b"declare -f ") {
                out.builtin(line);
            }
        }
    }

    /// `set` lines. `onecmd` would end the shell after the next line, and under `noexec` nothing would run any more.
    pub(super) fn options(&self) -> Vec<u8> {
        let mut out = Script::default();
        let harmless = |line: &&[u8]| {
            !is_posix(line) && !is_history(line) && !line.ends_with(b" onecmd") && !line.ends_with(b" noexec")
        };
        statements(self.section(Section::Options)).into_iter().filter(harmless).for_each(|line| out.builtin(line));
        out.0
    }

    /// The disabled builtins, each after a blank.
    pub(super) fn disabled(&self) -> Vec<u8> {
        let lines = statements(self.section(Section::Disabled)).into_iter();
        lines.filter_map(|line| line.strip_prefix(b"enable -n")).collect::<Vec<_>>().concat()
    }

    fn directories_and_arguments(&self, out: &mut Script) {
        let mut directories = words(self.section(Section::Directories));
        // The first one is the current directory.
        for directory in directories.drain(..).skip(1).rev() {
            out.item("'pushed directory'", directory, &[b"\\builtin pushd -n -- ", directory, b" >/dev/null"]);
        }
        let arguments = words(self.section(Section::Arguments));
        let Some((zero, [_, own @ ..])) = arguments.split_first() else { return };
        if *zero != b"bash" {
            // A custom name of the shell (bash 5.0), which `BASH_ARGV0` assigns. `BASH_ARGV0` itself is not kept.
            out.line(&[b"BASH_ARGV0=", *zero].concat());
        }
        // `printf %q` prints an empty word if there are none.
        let count = arguments.get(1).copied().unwrap_or_default();
        let own = if count == b"0" { Vec::new() } else { own.join(&b' ') };
        out.line(&[b"\\builtin set -- ".as_slice(), &own].concat());
    }
}

/// True for a variable that bash maintains itself. A RANDOM that was unset is an ordinary one.
fn is_special(variable: &Declaration<'_>) -> bool {
    SPECIAL.iter().any(|special| special.as_bytes() == variable.name)
        && (variable.name != b"RANDOM" || variable.has(b'i'))
}

/// True for a number in double quotes.
fn is_number(value: &[u8]) -> bool {
    value.len() > 2 && value[1..value.len() - 1].iter().all(u8::is_ascii_digit)
}

fn is_history(line: &&[u8]) -> bool {
    *line == b"set -o history"
}

fn is_posix(line: &&[u8]) -> bool {
    line.ends_with(b" posix")
}

#[derive(Default)]
struct Script(Vec<u8>);

impl Script {
    fn line(&mut self, text: &[u8]) {
        self.0.extend_from_slice(text);
        self.0.push(b'\n');
    }

    fn builtin(&mut self, statement: &[u8]) {
        self.0.extend_from_slice(b"\\builtin ");
        self.line(statement);
    }

    fn words<'w>(&mut self, words: impl Iterator<Item = &'w str>) {
        let words: Vec<&str> = words.collect();
        self.line(words.join(" ").as_bytes());
    }

    /// A statement that restores an item, and notes its loss if it fails.
    fn item(&mut self, kind: &str, name: &[u8], statement: &[&[u8]]) {
        let lose = format!(" || {LOST}+=({kind} ");
        self.line(&[&statement.concat(), lose.as_bytes(), &quote(name), b")"].concat());
    }

    /// A statement that bash has printed and may not be able to parse, so it is evaluated by itself. If it fails,
    /// `otherwise` runs first.
    fn evaluated(&mut self, kind: &str, name: &[u8], statement: &[&[u8]], otherwise: &str) {
        self.line(&[b"__nacre_item=".as_slice(), &quote(&statement.concat())].concat());
        let attempt = format!("\\builtin eval \"$__nacre_item\" || {otherwise}{LOST}+=({kind} ");
        self.line(&[attempt.as_bytes(), &quote(name), b")"].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump_with(texts: &[(Section, &str)]) -> Vec<u8> {
        let mut sections = [""; SECTIONS];
        texts.iter().for_each(|(section, text)| sections[*section as usize] = text);
        format!("BEGIN\0{}\0END\0", sections.join("\0")).into_bytes()
    }

    #[test]
    fn an_unfinished_dump_is_refused() {
        let bytes = dump_with(&[]);
        assert!(Dump::parse(&bytes).is_some());
        assert!(Dump::parse(&bytes[..bytes.len() - 1]).is_none());
        assert!(Dump::parse(b"").is_none());
    }

    #[test]
    fn keeps_user_variables_and_drops_special_ones() {
        let variables = "declare -n ref=\"x\"\ndeclare -- x=\"1\"\ndeclare -ir UID=\"0\"\ndeclare -x BASH_ENV=\"/e\"\n";
        let options = "set -o errexit\nset -o noexec\n";
        let bytes = dump_with(&[(Section::Variables, variables), (Section::Options, options)]);
        let dump = Dump::parse(&bytes).unwrap();
        let text = String::from_utf8([dump.restore(), dump.options()].concat()).unwrap();
        assert!(text.find("declare -- x").unwrap() < text.find("declare -n ref").unwrap());
        assert!(text.contains("declare -x BASH_ENV") && !text.contains("UID="));
        assert!(text.contains("errexit") && !text.contains("noexec"));
    }
}
