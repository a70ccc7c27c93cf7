//! What has to be put before a command's text so that it finds `$?`, `$_` and DEBUG as the last command left them.

use super::mentions;
use super::quote::{quote, quote_str};

/// The state of things before a command.
#[derive(Clone, Debug)]
pub struct Framing {
    /// The user's `$?`.
    pub status: i32,
    /// The user's `$_`, when it is known.
    pub last_argument: Option<String>,
    /// The shell traces or echoes (`set -x`, `set -v`).
    pub traced: bool,
    /// The user's DEBUG trap.
    pub debug_trap: Option<Vec<u8>>,
    /// The user has a DEBUG, ERR or RETURN trap.
    pub trapped: bool,
    /// The text with `return <status>` in it, quoted.
    pub status_path: String,
}

impl Framing {
    /// Whether the text with the status can be asked for.
    pub fn needs_status(&self) -> bool {
        self.status != 0 || self.last_argument.is_some()
    }

    /// The text to evaluate for the user's `text`: as it is, unless something has to be put in place before it that can
    /// only be put in place there.
    ///
    /// `$?` is brought back by sourcing a file with `return <status>`, `$_` by giving it that argument: no fork. The
    /// text then is the quoted argument of an `eval` of its own, so that its line numbers and syntax errors stay what
    /// they are. A status that is not 0 stands on the left of `&&`, where neither an ERR trap nor `errexit` minds it. While
    /// the shell traces or echoes the prefix would show, so it is used only by a text that asks for
    /// `$?`, and silenced.
    pub fn apply(&self, text: &[u8]) -> Vec<u8> {
        let wants_status = ["$?", "{?", "PIPESTATUS"].iter().any(|part| mentions::part(text, part));
        let wants_argument = ["$_", "{_"].iter().any(|part| mentions::part(text, part));
        let argument = self.last_argument.as_deref().filter(|_| wants_argument);
        let mut framed = Vec::with_capacity(text.len() + 16);
        if let Some(debug) = &self.debug_trap {
            framed.extend_from_slice(&[b"\\builtin trap -- ".as_slice(), &quote(debug), b" DEBUG\n"].concat());
        }
        if (self.status == 0 && argument.is_none()) || (self.traced && !wants_status) {
            if text.ends_with(b"\\\n") {
                // `$(<file)` takes line ends away, and the backslash would stay.
                framed.extend_from_slice(&[b"\\builtin eval -- ".as_slice(), &quote(text)].concat());
            } else {
                framed.extend_from_slice(text);
            }
            return framed;
        }
        if self.trapped {
            // A subshell is the one thing that runs none of these traps.
            if self.status != 0 {
                framed.extend_from_slice(format!("(\\builtin exit {})&&:;", self.status).as_bytes());
            }
            framed.extend_from_slice(text);
            return framed;
        }
        let guard = if self.status == 0 { "" } else { " && \\builtin :" };
        let restore =
            format!("\\builtin . {} {}{guard}", self.status_path, argument.map(quote_str).unwrap_or_default());
        if self.traced {
            framed.extend_from_slice(format!("{{ {restore}; }} 2>/dev/null;").as_bytes());
            framed.extend_from_slice(text);
        } else {
            framed.extend_from_slice(&[restore.as_bytes(), b";\\builtin eval -- ", &quote(text)].concat());
        }
        framed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(status: i32) -> Framing {
        Framing {
            status,
            last_argument: None,
            traced: false,
            debug_trap: None,
            trapped: false,
            status_path: "'/s'".into(),
        }
    }

    #[test]
    fn nothing_is_added_without_need() {
        assert_eq!(framing(0).apply(b"echo $?"), b"echo $?");
        let remembers = Framing { last_argument: Some("x".into()), ..framing(0) };
        assert_eq!(remembers.apply(b"echo hi"), b"echo hi");
        let traced = Framing { traced: true, ..framing(1) };
        assert_eq!(traced.apply(b"echo hi"), b"echo hi");
    }

    #[test]
    fn status_and_last_argument_are_brought_back() {
        assert_eq!(framing(3).apply(b"f"), b"\\builtin . '/s'  && \\builtin :;\\builtin eval -- 'f'");
        let remembers = Framing { last_argument: Some("dir".into()), ..framing(0) };
        assert_eq!(remembers.apply(b"cd $_"), b"\\builtin . '/s' 'dir';\\builtin eval -- 'cd $_'");
        let traced = Framing { traced: true, ..framing(1) };
        assert_eq!(traced.apply(b"echo $?"), b"{ \\builtin . '/s'  && \\builtin :; } 2>/dev/null;echo $?");
    }
}
