//! The request for a command.

use super::{Input, KillPolicy, SureSink};
use crate::process::Process;
use crate::process::terminal::Size;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The command itself.
#[derive(Clone, Debug)]
pub enum Command {
    /// Shell text.
    Text(Vec<u8>),
    /// A program or builtin and its arguments; no shell parses them.
    Argv(Vec<Vec<u8>>),
}

/// Maximum bytes of a command for observers.
const LONGEST_SHOWN: usize = 10_000;

impl Command {
    /// The command as text for observers, cut after 10,000 bytes. Arguments are quoted as for a shell.
    pub fn shown(&self) -> String {
        let mut shown = Vec::new();
        match self {
            Self::Text(text) => shown.extend_from_slice(&text[..text.len().min(LONGEST_SHOWN + 1)]),
            Self::Argv(arguments) => {
                for argument in arguments {
                    if shown.len() > LONGEST_SHOWN {
                        break;
                    }
                    if !shown.is_empty() {
                        shown.push(b' ');
                    }
                    quote(argument, &mut shown);
                }
            }
        }
        let is_cut = shown.len() > LONGEST_SHOWN;
        shown.truncate(LONGEST_SHOWN);
        // A character may be cut in the middle.
        let whole = shown.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        if is_cut && shown.len() - whole < 4 {
            shown.truncate(whole);
        }
        let mut shown = String::from_utf8_lossy(&shown).into_owned();
        if is_cut {
            shown.push_str("...");
        }
        shown
    }
}

/// Adds an argument, quoted so that bash would read the same.
fn quote(argument: &[u8], shown: &mut Vec<u8>) {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(byte);
    if !argument.is_empty() && argument.iter().all(is_plain) {
        return shown.extend_from_slice(argument);
    }
    shown.push(b'\'');
    for byte in argument.iter().take(LONGEST_SHOWN) {
        match byte {
            b'\'' => shown.extend_from_slice(b"'\\''"),
            byte => shown.push(*byte),
        }
    }
    shown.push(b'\'');
}

/// One foreground command.
pub struct ExecRequest {
    /// Chosen by the caller; identifies the request in [`crate::session::Handle::interrupt`].
    pub id: u64,
    /// The command.
    pub command: Command,
    /// Working directory for this command only.
    pub cwd: Option<PathBuf>,
    /// Variables for this command only; `None` unsets.
    pub env: Vec<(String, Option<String>)>,
    /// Time limit of the run, with the wait in the queue, but without that for a hold.
    pub timeout: Option<Duration>,
    /// The signals for timeouts, cancels and the end of the session.
    pub kill: KillPolicy,
    /// Maximum bytes kept of each stream.
    pub max_buffer: usize,
    /// Maximum bytes of both streams together. A command that prints more is killed.
    pub output_limit: Option<u64>,
    /// Standard input.
    pub input: Input,
    /// Uses the pipe of standard output for standard error too.
    pub merge_output: bool,
    /// Gives the command a terminal of this size instead of pipes.
    pub terminal: Option<Size>,
    /// Permits for live output, which is also sent as it arrives. Each chunk takes a permit, and the consumer returns
    /// it. Without permits, the pipe is not read, and finally the command blocks. A command that is being killed blocks
    /// only briefly.
    pub live: Option<Arc<Semaphore>>,
    /// The process that it can become.
    pub process: Option<Arc<Process>>,
    /// The caller takes the result at once, if it comes soon; see [`crate::session::Handle::exec`].
    pub at_once: bool,
    /// Whether its requests to hosts with secrets or rules are reported to [`crate::sandbox::Config::on_traced`].
    pub is_traced: bool,
    /// Receives the result.
    pub sink: SureSink,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_arguments_as_a_shell_reads_them() {
        let argv = |arguments: &[&str]| Command::Argv(arguments.iter().map(|text| text.as_bytes().to_vec()).collect());
        assert_eq!(argv(&["echo", "", "a b", "it's", "x=1"]).shown(), r"echo '' 'a b' 'it'\''s' x=1");
        assert_eq!(Command::Text("ls  -l | x".into()).shown(), "ls  -l | x");
    }

    #[test]
    fn cuts_long_commands_between_characters() {
        assert_eq!(Command::Text("x".repeat(LONGEST_SHOWN).into()).shown(), "x".repeat(LONGEST_SHOWN));
        let text = format!("x{}", "ä".repeat(LONGEST_SHOWN));
        assert_eq!(Command::Text(text.into()).shown(), format!("x{}...", "ä".repeat((LONGEST_SHOWN - 1) / 2)));
        let argv = Command::Argv(vec![b"'".repeat(LONGEST_SHOWN * 2); 3]);
        assert_eq!(argv.shown().len(), LONGEST_SHOWN + 3);
    }
}
