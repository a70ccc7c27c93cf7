//! Converts the dump of a shell's state to the script that restores it in a new shell.
//!
//! Pure: bytes in, bytes out. The script is ordered by dependency. Variables and arguments precede functions, because a
//! function called `builtin` would make every `declare` and `set --` local to itself. `extglob` precedes functions,
//! because it changes how they are parsed; `expand_aliases` follows them for the same reason. Options such as
//! `errexit`, `nounset`, `noglob` and `posix` would change how the script runs, and traps would fire for it, so they
//! come last.

use super::declaration::Declaration;
use super::quote::quote;
use super::statements::{parse_traps, split_word, statements};

/// Number of sections, each terminated by NUL, before `END` and NUL.
pub(super) const SECTIONS: usize = 16;

/// The sections of a dump, in the order in which the C code writes them.
#[derive(Clone, Copy)]
pub(super) enum Section {
    /// `trap -p`
    Traps,
    /// `set +o`
    Options,
    /// `shopt -p`
    Shopt,
    /// `$PWD`
    Cwd,
    /// `umask -p`
    Umask,
    /// `declare -p`
    Variables,
    /// Empty.
    Locals,
    /// `declare -f`
    Functions,
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
    /// `enable -n`
    Disabled,
    /// Empty.
    InFunction,
}

/// The script that restores a dumped state; `None` if the dump is incomplete.
pub fn restore_text(dump: &[u8]) -> Option<Vec<u8>> {
    let dump = Dump::parse(dump)?;
    Some([dump.restore(), dump.options(), dump.traps()].concat())
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

/// A complete saved state.
pub(super) struct Dump<'a> {
    pub(super) sections: Vec<&'a [u8]>,
}

impl<'a> Dump<'a> {
    /// Parses a dump; `None` if the shell died while saving.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let sections: Vec<&[u8]> = bytes.split(|&byte| byte == 0).collect();
        let complete = sections.len() == SECTIONS + 2 && sections[SECTIONS] == b"END";
        complete.then_some(Self { sections })
    }

    pub(super) fn section(&self, section: Section) -> &'a [u8] {
        self.sections[section as usize]
    }

    /// Text that restores everything but options and traps.
    pub(super) fn restore(&self) -> Vec<u8> {
        let mut out = Script::default();
        let variables = self.variables();
        out.line(&[b"\\builtin cd -- ".as_slice(), &quote(self.section(Section::Cwd))].concat());
        out.line(b"\\builtin unset -v OLDPWD");
        let missing = DEFAULTS.iter().filter(|name| !variables.iter().any(|variable| variable.name == name.as_bytes()));
        out.words(["\\builtin", "unset", "-v", "BASH_EXECUTION_STRING"].into_iter().chain(missing.copied()));
        // A nameref follows its target, because declaring the nameref would otherwise declare the target.
        let (references, plain): (Vec<Declaration>, Vec<Declaration>) =
            variables.iter().partition(|variable| variable.has(b'n'));
        plain.into_iter().chain(references).for_each(|variable| out.0.extend_from_slice(&variable.restore()));
        for section in [Section::Aliases, Section::Completions, Section::Umask, Section::Hashes] {
            let lines = statements(self.section(section)).into_iter().filter(|line| !line.starts_with(b"hash: "));
            lines.for_each(|line| out.builtin(line.strip_prefix(b"builtin ").unwrap_or(line)));
        }
        self.directories_and_arguments(&mut out);
        let shopt = self.section(Section::Shopt);
        if statements(shopt).contains(&b"shopt -s extglob".as_slice()) {
            out.line(b"\\builtin shopt -s extglob");
        }
        out.line(self.section(Section::Functions));
        for line in statements(self.section(Section::FunctionAttributes)) {
            if !line.starts_with(b"declare -f ") {
                out.builtin(line);
            }
        }
        // `shopt -s compat42` would overwrite a restored value with its own form.
        let compat = |line: &&[u8]| !line.windows(7).any(|part| part == b" compat");
        statements(shopt).into_iter().filter(compat).for_each(|line| out.builtin(line));
        out.0
    }

    /// `set` lines and disabled builtins. `onecmd` would end the shell after the next line, and under `noexec`
    /// nothing would run any more.
    pub(super) fn options(&self) -> Vec<u8> {
        let mut out = Script::default();
        let harmless = |line: &&[u8]| !line.ends_with(b" onecmd") && !line.ends_with(b" noexec");
        statements(self.section(Section::Options)).into_iter().filter(harmless).for_each(|line| out.builtin(line));
        statements(self.section(Section::Disabled)).into_iter().for_each(|line| out.builtin(line));
        out.0
    }

    /// The traps. A DEBUG trap fires for every line after it.
    fn traps(&self) -> Vec<u8> {
        let mut out = Script::default();
        let (debug, others): (Vec<_>, Vec<_>) =
            parse_traps(self.section(Section::Traps)).into_iter().partition(|(_, signal)| signal == "DEBUG");
        for (text, signal) in others.iter().chain(&debug) {
            out.line(&[b"\\builtin trap -- ".as_slice(), &quote(text), b" ", signal.as_bytes()].concat());
        }
        out.0
    }

    fn variables(&self) -> Vec<Declaration<'a>> {
        let declarations = |section| statements(self.section(section)).into_iter().filter_map(Declaration::parse);
        declarations(Section::Variables)
            .filter(|variable| !SPECIAL.iter().any(|special| special.as_bytes() == variable.name))
            .collect()
    }

    fn directories_and_arguments(&self, out: &mut Script) {
        let directories = self.section(Section::Directories);
        if split_word(directories).1.iter().any(|byte| *byte != b' ') {
            out.line(&[b"\\builtin set -- ".as_slice(), directories].concat());
            out.line(b"while (( $# > 1 )); do \\builtin pushd -n -- \"${!#}\" >/dev/null; \\builtin set -- \"${@:1:$#-1}\"; done");
        }
        let (zero, rest) = split_word(self.section(Section::Arguments));
        let (count, own) = split_word(rest);
        if zero != b"bash" {
            // A custom name of the shell (bash 5.0), which `BASH_ARGV0` assigns. `BASH_ARGV0` itself is not kept.
            out.line(&[b"BASH_ARGV0=", zero].concat());
        }
        let arguments = if count == b"0" { b"".as_slice() } else { own };
        out.line(&[b"\\builtin set -- ".as_slice(), arguments].concat());
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(change: impl Fn(Section) -> &'static str) -> Vec<u8> {
        use Section::*;
        let order = [
            Traps,
            Options,
            Shopt,
            Cwd,
            Umask,
            Variables,
            Locals,
            Functions,
            FunctionAttributes,
            Aliases,
            Arguments,
            Directories,
            Completions,
            Hashes,
            Disabled,
            InFunction,
        ];
        let mut bytes: Vec<u8> =
            order.iter().flat_map(|section| [change(*section).as_bytes(), b"\0"].concat()).collect();
        bytes.extend_from_slice(b"END\0");
        bytes
    }

    #[test]
    fn an_unfinished_dump_is_refused() {
        let bytes = sections(|_| "");
        assert!(Dump::parse(&bytes).is_some());
        assert!(Dump::parse(&bytes[..bytes.len() - 1]).is_none());
        assert!(Dump::parse(b"").is_none());
    }

    #[test]
    fn keeps_user_variables_and_drops_special_ones() {
        let bytes = sections(|section| match section {
            Section::Variables => {
                "declare -n ref=\"x\"\ndeclare -- x=\"1\"\ndeclare -ir UID=\"0\"\ndeclare -x BASH_ENV=\"/e\"\n"
            }
            Section::Traps => "trap -- 'd' DEBUG\ntrap -- 'mine' SIGHUP\ntrap -- 'x' EXIT\n",
            Section::Options => "set -o errexit\nset -o noexec\n",
            _ => "",
        });
        let text = String::from_utf8(restore_text(&bytes).unwrap()).unwrap();
        assert!(text.find("declare -- x").unwrap() < text.find("declare -n ref").unwrap());
        assert!(text.contains("declare -x BASH_ENV") && !text.contains("UID="));
        assert!(text.contains("errexit") && !text.contains("noexec"));
        assert!(text.contains("trap -- 'x' EXIT") && text.ends_with("trap -- 'd' DEBUG\n"));
    }
}
