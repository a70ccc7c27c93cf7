//! The scripts of the plain engine. A script restores the state, runs one command and dumps the new state.
//!
//! A script is a file of four parts, each terminated by NUL: the session's directory, the rest of its state, the setup
//! of the command, and the command itself. A short prefix is on the first line of the command, so line numbers are the
//! command's own. [`arguments`] make bash read and evaluate the parts. The prefix sets everything that would act on the
//! engine's own words, such as tracing and the DEBUG trap.

use super::plain_state::{LOST, NOWHERE, Snapshot, quote};
use crate::exec::Command;
use std::path::Path;

/// The descriptor for the dump. Commands inherit it.
const REPORT: i32 = 62;

/// Written instead of a dump if the shell cannot enter the command's directory.
pub const CANNOT_ENTER: u8 = b'C';
/// Written if the limit of open files cannot be set.
pub const CANNOT_LIMIT_FILES: u8 = b'F';
/// Written if the limit of processes cannot be set.
pub const CANNOT_LIMIT_PROCESSES: u8 = b'P';
/// Written by a background process right before its command begins.
pub const BEGINS: u8 = b'B';

/// Enters a directory that does not exist, in place of a session's directory that is gone: a command must not act in a
/// third one. `cd` has printed why. Where none can be made, the command is refused.
fn nowhere() -> String {
    let attempts = ["/tmp", "/var/tmp", "/dev/shm"].map(|parent| {
        format!(
            "{{ __nacre_nowhere=$(\\builtin command -p mktemp -d {parent}{NOWHERE}XXXXXX 2>/dev/null) && \
             \\builtin cd -- \"$__nacre_nowhere\" && \\builtin command -p rmdir -- \"$__nacre_nowhere\"; }}"
        )
    });
    let refuse = format!("{{ \\builtin printf {} >&{REPORT}; \\builtin exit 126; }}", CANNOT_ENTER as char);
    format!(" || {} || {refuse}\n", attempts.join(" || "))
}

/// The parts of a script.
#[derive(Default)]
pub struct Plan<'a> {
    /// The state; `None` for the first shell of a session.
    pub state: Option<&'a Snapshot>,
    /// The names in the environment, which the state replaces.
    pub inherited: Vec<&'a str>,
    /// The command's own directory, relative to the session's.
    pub cwd: Option<&'a Path>,
    /// `$?` of the previous command.
    pub status: i32,
    /// Limits of open files and processes.
    pub limits: [Option<u64>; 2],
}

/// Arguments of the shell of a foreground command.
pub fn arguments() -> Vec<String> {
    let end = format!("{{ {OWN_STATUS}; {}; \\builtin exit \"$__nacre_status\"; }} >/dev/null 2>&1", dump(NORMAL_END));
    with_text(&format!("{} {end}", load()))
}

/// Arguments of a shell that only writes its version. Nothing is written if it is not bash, or rejects the arguments.
pub fn version_arguments() -> Vec<String> {
    with_text("\\builtin printf %s \"$BASH_VERSION\" >&4")
}

/// Arguments of the shell of a background process.
pub fn process_arguments(has_terminal: bool) -> Vec<String> {
    let end = if has_terminal { AWAIT_AFTER_TRAP } else { "" };
    with_text(&format!("{} {end}", load()))
}

fn with_text(text: &str) -> Vec<String> {
    ["--norc", "--noprofile", "-c", text, "bash"].map(str::to_string).to_vec()
}

fn load() -> String {
    let parts = ["first", "state", "setup", "text"];
    let read: String = parts.map(|part| format!("IFS= \\builtin read -r -d '' -u 3 __nacre_{part}; ")).concat();
    // `builtin exec` would not keep the redirections.
    format!(
        "{read}\\exec {REPORT}>&4 3<&- 4>&-; \\builtin eval \"$__nacre_first\"; \\builtin eval \"$__nacre_state\" 2>/dev/null; \
         \\builtin eval \"$__nacre_setup\"; \\builtin eval \"$__nacre_text\";"
    )
}

const OWN_STATUS: &str = "__nacre_status=$?";
/// Expands to `unparsed` if the command's first line, which removes the variable, has not run: the text could not be
/// parsed. In POSIX mode, bash exits then.
const NORMAL_END: &str = "${__nacre_text+unparsed}";
const EXIT: &str = "exit${FUNCNAME+ function}${__nacre_text+ unparsed}";

/// Builtins that the dump needs, which the user may have disabled.
const NEEDED: &str = "alias compgen complete declare eval exit hash printf pwd set shopt trap umask";

/// The text that dumps the state. `flags` is the last section.
///
/// The user's DEBUG trap still fires for the first commands, whose output is that of the group around them. In a
/// function, not all visible variables are global; setting an attribute on the global variable shows which are. The
/// dump runs in a fork, because touching PATH empties the hash table. The history is turned off, because bash would write
/// it to its file at the end of each command.
fn dump(flags: &str) -> String {
    let end = "\\builtin printf '\\0'";
    let sections = [
        "\\builtin set +o",
        "\\builtin set +eu; [[ ${__nacre_shopt-} != *expand_aliases* ]] || \\builtin shopt -s expand_aliases; \\builtin shopt -p",
        "\\builtin pwd",
        "\\builtin set +vxC +o posix +o history -f; \\builtin umask -p",
        "\\builtin declare -p",
        "if [[ ${FUNCNAME-} ]]; then ( IFS=$' \\n'; for __nacre_name in $(\\builtin compgen -v); do \
         \\builtin declare -gt \"$__nacre_name\"; \\builtin eval \"__nacre_seen=\\${$__nacre_name@a}\\${$__nacre_name[*]@a}\"; \
         [[ $__nacre_seen == *t* ]] || \\builtin printf '%s\\n' \"$__nacre_name\"; done ) fi",
        "\\builtin declare -F",
        "\\builtin alias -p",
        // Bash splits these words where IFS is a control character.
        "\\builtin unset -v IFS; \\builtin printf '%q ' \"$0\" \"$#\" \"$@\"",
        "\\builtin printf '%q ' \"${DIRSTACK[@]}\"",
        "\\builtin complete -p",
        "\\builtin hash -l",
    ];
    let sections = sections.map(|section| [section, end].join("; ")).join("; ");
    // `declare -F` prints three words for each function. IFS is unset here.
    let functions = "__nacre_count=0; for __nacre_name in $(\\builtin declare -F); do if (( ++__nacre_count % 3 == 0 )); then \
         \\builtin printf '%s\\0' \"$__nacre_name\"; \\builtin declare -f -- \"$__nacre_name\"; \\builtin printf '\\0'; fi; done";
    format!(
        "\\builtin enable -n >&{REPORT} || [[ x ]]; \\builtin enable {NEEDED} 2>/dev/null || [[ x ]]; \\builtin printf '\\0' >&{REPORT}; \
         \\builtin trap -p >&{REPORT}; \\builtin trap - EXIT DEBUG ERR RETURN CHLD; \
         {{ {end}; {sections}; \\builtin printf '%s\\0' \"{flags}\"; {functions}; \\builtin printf 'END\\0'; }} >&{REPORT}"
    )
}

/// The script of a foreground command.
pub fn command(plan: &Plan<'_>, command: &Command) -> Vec<u8> {
    let mut setup = plan.setup();
    setup.extend(
        format!("\\builtin printf '%s\\0' \"${{{LOST}[@]}}\" BEGIN >&{REPORT}; \\builtin unset -v {LOST}\n").as_bytes(),
    );
    setup.extend(exit_trap(plan.state.and_then(Snapshot::exit_trap)));
    setup.extend(plan.last_words());
    plan.script(setup, command)
}

/// The script of a background process. The user's EXIT trap belongs to the session and does not run in it.
pub fn process(plan: &Plan<'_>, command: &Command, has_terminal: bool) -> Vec<u8> {
    let mut setup = plan.setup();
    if has_terminal {
        // Bash sets a missing terminal type to `dumb`.
        setup.extend(b"[[ ${TERM:-dumb} != dumb ]] || \\builtin export TERM=xterm-256color\n");
        let trap = b"__nacre_await() { [[ $2 == *__nacre_quiet* ]] || \\builtin trap -- \"$2\"$'\\n'";
        let end = b" EXIT; \\builtin return \"$1\"; }\n__nacre_await 0 ''\n";
        setup.extend([trap.as_slice(), &quote(AWAIT_SUBSTITUTIONS), end].concat());
    }
    setup.extend(format!("\\builtin unset -v {LOST}; \\builtin printf {} >&{REPORT}\n", BEGINS as char).as_bytes());
    setup.extend(plan.last_words());
    plan.script(setup, command)
}

/// The engine's EXIT trap: dumps the state, in a fork if the user's trap runs afterwards. A subshell that inherits it
/// does neither. Aliases could replace any of its words, so they are off while bash reads it.
fn exit_trap(user: Option<&[u8]>) -> Vec<u8> {
    let dump = dump(EXIT);
    let mut text = format!(
        "{OWN_STATUS}; __nacre_shopt=$BASHOPTS; \\builtin shopt -u expand_aliases\n\
         [[ ${{BASHPID-$$}} == $$ ]] || \\builtin exit\n"
    )
    .into_bytes();
    match user {
        None => text.extend(format!("{{ {dump}; }} >/dev/null 2>&1\n").as_bytes()),
        Some(user) => {
            let fork = format!(
                "( {dump} ) >/dev/null 2>&1\n\\builtin set +o history\n[[ $__nacre_shopt != *expand_aliases* ]] || \\builtin shopt -s expand_aliases\n\
                 {{ ( \\builtin exit \"$__nacre_status\" ) && :; }}\n"
            );
            text.extend(fork.as_bytes());
            text.extend(user);
        }
    }
    [b"\\builtin trap -- ".as_slice(), &quote(&text), b" EXIT\n"].concat()
}

/// The EXIT trap of a process with a terminal. The end of its shell sends SIGHUP to process substitutions, so the shell waits
/// for them first: as `await_substitutions` in `terminal.c`, which says why, and with the same limits.
///
/// The second line begins when the first has run, so neither aliases nor the POSIX mode act on it. A pipe that nothing writes
/// to makes a pause without a program.
const AWAIT_SUBSTITUTIONS: &[u8] = br#"{ \builtin set +efuvx +o posix; \builtin trap - DEBUG ERR RETURN CHLD; \builtin shopt -u expand_aliases failglob; } >/dev/null 2>&1
[[ ${BASHPID-$$} == $$ ]] || \builtin exit
{ \builtin enable eval exec printf read set unset; \builtin unset -f exec; \builtin unset -v IFS GLOBIGNORE; } 2>/dev/null
\exec </dev/null >/dev/null 2>&1
for __nacre_file in /proc/self/fd/*; do
  __nacre_file=${__nacre_file##*/}
  [[ $__nacre_file != [3-9] && $__nacre_file != [1-9][0-9]* ]] || \builtin eval "\\exec $__nacre_file>&-"
done
\builtin printf -v __nacre_end '%(%s)T' -1
(( __nacre_now = __nacre_end, __nacre_end += 2, __nacre_quiet = __nacre_former = 0 ))
for (( __nacre_look = 0; __nacre_look < 200 && __nacre_quiet < 10 && __nacre_now <= __nacre_end; ++__nacre_look )); do
  (( __nacre_prints = __nacre_works = __nacre_progress = 0 ))
  for __nacre_file in /proc/[0-9]*; do
    IFS= \builtin read -r -d '' __nacre_stat <"$__nacre_file/stat"
    [[ $__nacre_stat == *" $$ "* && $__nacre_file != "/proc/$$" ]] || continue
    \builtin set -- ${__nacre_stat##*) }
    [[ ${4-} == $$ && $1 != [ZX] ]] || continue
    (( __nacre_progress += ${__nacre_file##*/} ))
    if [[ $1 == [RD] ]]; then
      __nacre_works=1
    elif [[ ! -p $__nacre_file/fd/0 && ! -p $__nacre_file/fd/1 ]]; then
      continue
    fi
    (( __nacre_prints = 1, __nacre_progress += $8 + $9 + ${12} + ${13} ))
  done
  (( __nacre_prints )) || break
  (( __nacre_look )) || \exec 0<> <(:)
  (( __nacre_quiet = __nacre_works || __nacre_progress != __nacre_former ? 0 : __nacre_quiet + 1, __nacre_former = __nacre_progress ))
  IFS= \builtin read -r -t 0.01 __nacre_stat
  \builtin printf -v __nacre_now '%(%s)T' -1
done"#;

/// Behind the command of such a process, which has ended without `exit`: a trap that it has set itself runs before the wait.
const AWAIT_AFTER_TRAP: &str = r#"{ __nacre_status=$?; \builtin eval "__nacre_trap=($(\builtin trap -p EXIT))"; __nacre_await "$__nacre_status" "${__nacre_trap[2]-}"&&:; } >/dev/null 2>&1"#;

/// The exported functions and variables of an environment that a shell can unset.
fn inherited_names<'a>(names: &[&'a str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let is_word = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let function = |name: &&'a str| name.strip_prefix("BASH_FUNC_")?.strip_suffix("%%");
    let starts_well = |name: &&str| !name.is_empty() && !name.as_bytes()[0].is_ascii_digit();
    let fixed = ["BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", "EUID", "PPID", "UID"];
    let variables = names.iter().filter(|name| is_word(name) && starts_well(name) && !fixed.contains(name)).copied();
    (names.iter().filter_map(function).filter(is_word).collect(), variables.collect())
}

impl Plan<'_> {
    /// The first three parts, up to the options that act on the rest. They print only the message that the session's
    /// directory cannot be entered.
    fn setup(&self) -> Vec<u8> {
        let mut text = Vec::new();
        if let Some(state) = self.state {
            text.extend([b"\\builtin cd -- ".as_slice(), &quote(state.cwd()), nowhere().as_bytes()].concat());
        }
        text.push(0);
        if let Some(state) = self.state {
            let (functions, variables) = inherited_names(&self.inherited);
            for (option, names) in [("-f", functions), ("-v", variables)] {
                if !names.is_empty() {
                    text.extend(format!("\\builtin unset {option} {}\n", names.join(" ")).as_bytes());
                }
            }
            text.extend(state.restore());
        }
        text.extend(b"\0\\builtin unset -v __nacre_first __nacre_state __nacre_setup __nacre_nowhere\n");
        let refuse = |text: &mut Vec<u8>, what: &[u8], letter: u8| {
            text.extend(what);
            let report =
                format!(" 2>/dev/null || {{ \\builtin printf {} >&{REPORT}; \\builtin exit 126; }}\n", letter as char);
            text.extend(report.as_bytes());
        };
        let letters = [("-n", CANNOT_LIMIT_FILES), ("-u", CANNOT_LIMIT_PROCESSES)];
        for (limit, (option, letter)) in self.limits.iter().zip(letters) {
            if let Some(limit) = limit {
                refuse(&mut text, format!("\\builtin ulimit {option} {limit}").as_bytes(), letter);
            }
        }
        if let Some(cwd) = self.cwd {
            let path = [b"./".as_slice(), cwd.as_os_str().as_encoded_bytes()].concat();
            let path = if cwd.is_absolute() { &path[2..] } else { &path };
            refuse(&mut text, &[b"\\builtin cd -- ".as_slice(), &quote(path)].concat(), CANNOT_ENTER);
        }
        text
    }

    /// Options, traps and the function that the command's first line calls.
    fn last_words(&self) -> Vec<u8> {
        let (mut text, mut late) = (Vec::new(), Vec::new());
        for line in self.state.map(Snapshot::options).unwrap_or_default() {
            let is_late = line.ends_with(b" xtrace\n") || line.ends_with(b" verbose\n");
            if is_late { &mut late } else { &mut text }.extend(line);
        }
        for (trap, signal) in self.state.map(Snapshot::traps).unwrap_or_default() {
            // An ERR trap set earlier would fire a second time, for the engine's `eval`.
            let is_late = signal == "DEBUG" || signal == "ERR";
            let line = [b"\\builtin trap -- ".as_slice(), &quote(trap), b" ", signal.as_bytes(), b"\n"].concat();
            if is_late { &mut late } else { &mut text }.extend(line);
        }
        if !text.is_empty() {
            // A read-only variable can make bash complain about an option.
            text = [b"{\n".as_slice(), &text, b"} 2>/dev/null\n"].concat();
        }
        text.extend(b"__nacre_go() {\n\\builtin unset -v __nacre_text\n\\builtin unset -f __nacre_go\n");
        text.extend(late);
        let disabled = self.state.map(Snapshot::disabled).unwrap_or_default();
        if disabled.is_empty() {
            text.extend(format!("\\builtin return {}\n}}\n", self.status).as_bytes());
        } else {
            // `return` may be one of them.
            text.extend([b"\\builtin enable -n", disabled.as_slice(), b"\n"].concat());
            text.extend(format!("( \\builtin enable exit; \\builtin exit {} )\n}}\n", self.status).as_bytes());
        }
        text
    }

    fn script(&self, setup: Vec<u8>, command: &Command) -> Vec<u8> {
        // A failing `&&` list neither ends a shell with errexit nor fires the ERR trap.
        let mut script = [setup.as_slice(), b"\0{ __nacre_go&&:;}>/dev/null 2>&1; "].concat();
        match command {
            Command::Text(text) => script.extend(text),
            Command::Argv(words) => {
                script.extend(b"\\builtin command --");
                words.iter().for_each(|word| script.extend([b" ".as_slice(), &quote(word)].concat()));
            }
        }
        script.extend(b"\n\0");
        script
    }
}

#[cfg(test)]
#[path = "plain_script_tests.rs"]
mod tests;
