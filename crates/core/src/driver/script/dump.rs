//! From the state that a shell has saved to the text that gives it to the next one.
//!
//! Pure: bytes in, bytes out. The order is the order of dependencies: a function called `builtin` would make every
//! `declare` and `set --` of this text local to itself, so variables and arguments come before the functions; `extglob`
//! changes how functions are parsed, so it comes before them; aliases would change it too, so `expand_aliases` comes
//! after them; options such as `errexit`, `nounset`, `noglob` and `posix` change how this text itself would run, so they
//! come last.

use super::declaration::Declaration;
use super::leaving::{DUMP_SECTIONS, Section};
use super::quote::quote;
use super::statements::{parse_traps, split_word, statements};
use super::traps::is_engines;

/// Variables that bash maintains itself, and one of the engine's.
const SPECIAL: [&str; 38] = [
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
    "__nacre_status",
];

/// Variables that a bash without environment sets by itself: those that are not in the dump had been unset.
const DEFAULTS: [&str; 13] = [
    "HOSTNAME", "HOSTTYPE", "IFS", "MACHTYPE", "OLDPWD", "OPTERR", "OSTYPE", "PATH", "PS4", "PWD", "SHELL", "SHLVL",
    "TERM",
];

/// What the host knows about the state that is not in the dump.
pub struct Remembered<'a> {
    /// The new image is in the same process, which stands in the right directory already.
    pub in_place: bool,
    /// Positional parameters after the last command, quoted.
    pub arguments: &'a [u8],
    /// ERR and RETURN traps after the last command.
    pub traps: &'a [(Vec<u8>, String)],
}

/// A saved state that is complete.
pub struct Dump<'a> {
    sections: Vec<&'a [u8]>,
}

impl<'a> Dump<'a> {
    /// `None` when the shell died while it was saving.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let sections: Vec<&[u8]> = bytes.split(|&byte| byte == 0).collect();
        let complete = sections.len() == DUMP_SECTIONS + 2 && sections[DUMP_SECTIONS] == b"END";
        complete.then_some(Self { sections })
    }

    fn section(&self, section: Section) -> &'a [u8] {
        self.sections[section as usize]
    }

    /// True when the shell ended in a function, where it can not see everything.
    fn in_function(&self) -> bool {
        !self.section(Section::InFunction).is_empty()
    }

    /// Signals that the user has trapped or ignored, without those that carry the engine's own trap.
    pub fn user_signals(&self) -> Vec<String> {
        self.user_traps().into_iter().map(|(_, signal)| signal).collect()
    }

    fn user_traps(&self) -> Vec<(Vec<u8>, String)> {
        let mut traps = parse_traps(self.section(Section::Traps));
        traps.retain(|(text, signal)| !is_engines(text, signal));
        traps
    }

    /// The text for the new shell, without the arming of the engine's own traps.
    pub fn restore(&self, remembered: &Remembered<'_>) -> Vec<u8> {
        let mut out = Script::default();
        let variables = self.variables();
        self.enter_directory(&mut out, remembered.in_place);
        let missing = DEFAULTS.iter().filter(|name| !variables.iter().any(|variable| variable.name == name.as_bytes()));
        out.words(["\\builtin", "unset", "-v", "BASH_EXECUTION_STRING"].into_iter().chain(missing.copied()));
        // A nameref comes after what it refers to, since declaring it would otherwise declare that.
        let (references, plain): (Vec<Declaration>, Vec<Declaration>) =
            variables.iter().partition(|variable| variable.has(b'n'));
        plain.into_iter().chain(references).for_each(|variable| out.0.extend_from_slice(&variable.restore()));
        for section in [Section::Aliases, Section::Completions, Section::Umask, Section::Hashes] {
            let lines = statements(self.section(section)).into_iter().filter(|line| !line.starts_with(b"hash: "));
            lines.for_each(|line| out.builtin(line.strip_prefix(b"builtin ").unwrap_or(line)));
        }
        self.directories_and_arguments(&mut out, remembered.arguments);
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
        let traps = self.user_traps();
        let unseen = remembered
            .traps
            .iter()
            .filter(|(_, signal)| self.in_function() && !traps.iter().any(|(_, seen)| seen == signal));
        for (text, signal) in traps.iter().chain(unseen) {
            out.line(&[b"\\builtin trap -- ".as_slice(), &quote(text), b" ", signal.as_bytes()].concat());
        }
        // `shopt -s compat42` would write its own form of a value that has been restored already.
        let compat = |line: &&[u8]| !line.windows(7).any(|part| part == b" compat");
        statements(shopt).into_iter().filter(compat).for_each(|line| out.builtin(line));
        out.0
    }

    /// `set` lines and disabled builtins: the very last thing to run. `onecmd` would end the shell after the next line.
    pub fn options(&self) -> Vec<u8> {
        let mut out = Script::default();
        let lines = statements(self.section(Section::Options));
        lines.into_iter().filter(|line| !line.ends_with(b" onecmd")).for_each(|line| out.builtin(line));
        statements(self.section(Section::Disabled)).into_iter().for_each(|line| out.builtin(line));
        out.0
    }

    /// A process that stands in the right directory already knows it by its physical name. Going there by the name the
    /// user knows it by must not lead somewhere else, if that name has come to mean another directory.
    fn enter_directory(&self, out: &mut Script, in_place: bool) {
        let cwd = quote(self.section(Section::Cwd));
        if in_place {
            out.line(&[b"[[ ".as_slice(), &cwd, b" -ef . ]] && \\builtin cd -- ", &cwd].concat());
        } else {
            out.line(&[b"\\builtin cd -- ".as_slice(), &cwd].concat());
        }
        out.line(b"\\builtin unset -v OLDPWD");
    }

    fn variables(&self) -> Vec<Declaration<'a>> {
        let declarations = |section| statements(self.section(section)).into_iter().filter_map(Declaration::parse);
        let locals: Vec<&[u8]> = declarations(Section::Locals).map(|local| local.name).collect();
        declarations(Section::Variables)
            .filter(|variable| !SPECIAL.iter().any(|special| special.as_bytes() == variable.name))
            .filter(|variable| !locals.contains(&variable.name))
            .collect()
    }

    fn directories_and_arguments(&self, out: &mut Script, remembered: &[u8]) {
        let directories = self.section(Section::Directories);
        if split_word(directories).1.iter().any(|byte| *byte != b' ') {
            out.line(&[b"\\builtin set -- ".as_slice(), directories].concat());
            out.line(b"while (( $# > 1 )); do \\builtin pushd -n -- \"${!#}\" >/dev/null; \\builtin set -- \"${@:1:$#-1}\"; done");
        }
        let (zero, rest) = split_word(self.section(Section::Arguments));
        let (count, own) = split_word(rest);
        if zero != b"bash" {
            // A name of its own for the shell (bash 5.0): assigned by `BASH_ARGV0`, which then is no variable to keep.
            out.line(&[b"BASH_ARGV0=", zero].concat());
        }
        let arguments = if self.in_function() {
            remembered
        } else if count == b"0" {
            b""
        } else {
            own
        };
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
    fn keeps_user_variables_and_drops_special_ones_and_locals() {
        let bytes = sections(|section| match section {
            Section::Variables => {
                "declare -n ref=\"x\"\ndeclare -- x=\"1\"\ndeclare -ir UID=\"0\"\ndeclare -- l=\"2\"\ndeclare -x BASH_ENV=\"/e\"\n"
            }
            Section::Locals => "declare -- l=\"2\"\n",
            Section::Traps => "trap -- '\\builtin exit 143' SIGTERM\ntrap -- 'mine' SIGHUP\ntrap -- 'x' EXIT\n",
            _ => "",
        });
        let dump = Dump::parse(&bytes).unwrap();
        let text = String::from_utf8(dump.restore(&Remembered { in_place: true, arguments: b"", traps: &[] })).unwrap();
        assert!(text.find("declare -- x").unwrap() < text.find("declare -n ref").unwrap());
        assert!(text.contains("declare -x BASH_ENV"));
        assert!(!text.contains("UID=") && !text.contains("declare -- l="));
        assert!(text.contains("trap -- 'mine' SIGHUP"));
        assert!(!text.contains("SIGTERM"));
        assert_eq!(dump.user_signals(), vec!["SIGHUP".to_string()]);
    }
}
