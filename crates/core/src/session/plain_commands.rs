//! Reading a command text that is a list of plain commands: words, quotes, variables, redirections, joined by `;`, `|`,
//! `&&`, `||` and ends of lines.
//!
//! Bash alone parses commands. This is only for guesses about what one can do, so it gives up at the first thing that
//! could do more than run a program or a builtin by its name: groups, functions, substitutions, reserved words, `&`.

/// One command of the list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PlainCommand {
    /// Without quotes. Those that redirections lead to are left out.
    pub words: Vec<String>,
    /// Something is redirected.
    pub redirected: bool,
    /// File names are looked for.
    pub globs: bool,
    /// Something in the name is expanded: it is not what it says.
    first_is_expanded: bool,
}

impl PlainCommand {
    /// What it runs.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// Words that are no commands at the beginning of one.
const RESERVED: &[&str] = &[
    "!", "[[", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in", "select",
    "then", "time", "until", "while",
];

/// The commands of a text; `None` when it is not such a list.
pub fn plain_commands(text: &[u8]) -> Option<Vec<PlainCommand>> {
    let text = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t', '\n']);
    let mut reader = Reader::default();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let doubled = letters.peek() == Some(&letter);
        match letter {
            ' ' | '\t' => reader.end_word(),
            '\n' | ';' if !doubled => reader.end_command()?,
            // Several empty lines, but not `;;`.
            '\n' => {}
            '|' | '&' if doubled => {
                letters.next();
                reader.end_command()?;
            }
            '|' if letters.peek() != Some(&'&') => reader.end_command()?,
            '>' | '<' => reader.redirect(letter, &mut letters)?,
            '\'' => reader.single_quoted(&mut letters)?,
            '"' => reader.double_quoted(&mut letters)?,
            '$' => reader.variable(&mut letters)?,
            '#' if reader.word.is_none() => return None,
            '*' | '?' | '~' | '[' => {
                reader.command.globs = true;
                reader.expanded(letter);
            }
            '\\' | '`' | '(' | ')' | '{' | '}' | '&' | '|' | ';' => return None,
            _ => reader.push(letter),
        }
    }
    reader.end_command()?;
    Some(reader.commands)
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

#[derive(Default)]
struct Reader {
    commands: Vec<PlainCommand>,
    command: PlainCommand,
    word: Option<String>,
    word_is_expanded: bool,
    word_is_quoted: bool,
    /// The next word is what a redirection leads to.
    after_redirection: bool,
}

impl Reader {
    fn push(&mut self, letter: char) {
        self.word.get_or_insert_default().push(letter);
    }

    fn expanded(&mut self, letter: char) {
        self.word_is_expanded = true;
        self.push(letter);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let expanded = std::mem::take(&mut self.word_is_expanded);
        self.word_is_quoted = false;
        if std::mem::take(&mut self.after_redirection) {
            return;
        }
        self.command.first_is_expanded |= expanded && self.command.words.is_empty() && word != "[";
        self.command.words.push(word);
    }

    fn end_command(&mut self) -> Option<()> {
        self.end_word();
        let command = std::mem::take(&mut self.command);
        let name = command.words.first()?;
        if command.first_is_expanded || self.after_redirection || RESERVED.contains(&name.as_str()) {
            return None;
        }
        self.commands.push(command);
        Some(())
    }

    /// `>`, `>>`, `>|`, `>&`, `<`, `<&`, `<>`, after a number or not; no here-document, and not before the name.
    fn redirect(&mut self, first: char, letters: &mut Letters<'_>) -> Option<()> {
        if self.word_is_quoted || self.word.as_ref().is_some_and(|word| !word.chars().all(|l| l.is_ascii_digit())) {
            self.end_word();
        }
        self.word = None;
        if self.after_redirection || self.command.words.is_empty() || (first == '<' && letters.peek() == Some(&'<')) {
            return None;
        }
        letters.next_if(|letter| ['>', '|', '&'].contains(letter));
        self.command.redirected = true;
        self.after_redirection = true;
        Some(())
    }

    fn single_quoted(&mut self, letters: &mut Letters<'_>) -> Option<()> {
        self.word_is_quoted = true;
        self.word.get_or_insert_default();
        loop {
            match letters.next()? {
                '\'' => return Some(()),
                letter => self.push(letter),
            }
        }
    }

    fn double_quoted(&mut self, letters: &mut Letters<'_>) -> Option<()> {
        self.word_is_quoted = true;
        self.word.get_or_insert_default();
        loop {
            match letters.next()? {
                '"' => return Some(()),
                '\\' | '`' => return None,
                '$' => self.variable(letters)?,
                letter => self.push(letter),
            }
        }
    }

    /// `$name`, `${name}`, `$1`, `$?` and the like, which only read.
    fn variable(&mut self, letters: &mut Letters<'_>) -> Option<()> {
        self.expanded('$');
        if letters.next_if_eq(&'{').is_some() {
            let mut length = 0;
            while letters.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '_').is_some() {
                length += 1;
            }
            return (length > 0 && letters.next()? == '}').then_some(());
        }
        match letters.peek()? {
            letter if letter.is_ascii_alphanumeric() || "_?#@*!$-".contains(*letter) => Some(()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<Vec<String>> {
        Some(plain_commands(text.as_bytes())?.iter().map(|command| command.name().to_string()).collect())
    }

    fn words(text: &str) -> Vec<String> {
        plain_commands(text.as_bytes()).unwrap().remove(0).words
    }

    #[test]
    fn finds_the_names_in_lists_and_pipelines() {
        for (text, expected) in [
            ("ls", vec!["ls"]),
            (" git status && git diff | head -n 5\n", vec!["git", "git", "head"]),
            ("a;b || c\n\n d", vec!["a", "b", "c", "d"]),
            ("[ -f x ] && echo 'a;b' \"c|d\"", vec!["[", "echo"]),
            ("grep -r \"$what\" ${where} *.rs 2>/dev/null >>log | sort <in 2>&1", vec!["grep", "sort"]),
            ("'git' log", vec!["git"]),
        ] {
            assert_eq!(names(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn leaves_out_what_redirections_lead_to() {
        assert_eq!(words("echo a2>f b"), ["echo", "a2", "b"]);
        assert_eq!(words("echo 2>f b"), ["echo", "b"]);
        assert_eq!(words("echo '2'>f"), ["echo", "2"]);
        assert_eq!(words("echo ''"), ["echo", ""]);
        assert!(plain_commands(b"echo >f").unwrap()[0].redirected);
    }

    #[test]
    fn gives_up_at_whatever_could_do_more() {
        for text in [
            "",
            " ",
            "a &",
            "a & b",
            "a |& b",
            "(a)",
            "{ a; }",
            "f() { a; }",
            "$(a)",
            "echo $(a)",
            "echo `a`",
            "echo \"$(a)\"",
            "echo $((x++))",
            "echo ${x:=1}",
            "echo ${x",
            "a \\\n b",
            "if a; then b; fi",
            "time cd /",
            "! a",
            "[[ a ]]",
            "coproc cat",
            "for x in a; do b; done",
            "a # c",
            "a <<E\nE",
            "a <<<b",
            "a <(b)",
            "a 'b",
            "a \"b",
            "a |",
            "a &&",
            "| a",
            "a;;b",
            "$cmd x",
            "*/x",
            ">f cd /",
            "{fd}>f",
            "a >",
            "echo {1..3}",
            "a > >f",
            "[c]d /",
            "case x in x) ;; esac",
            "echo $",
            "echo \"\\\"\"",
        ] {
            assert_eq!(plain_commands(text.as_bytes()), None, "{text}");
        }
        assert_eq!(plain_commands(b"a \xff"), None);
    }
}
