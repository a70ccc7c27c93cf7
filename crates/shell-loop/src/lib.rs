//! The loop of a session's shell as a builtin that bash loads with `enable -f`: a shared object, held as bytes.
//!
//! `loop/loop.c` tells what it does and why. It is C because what bash offers to a builtin is C, and because bash leaves
//! the builtin by `longjmp` when a command says `exit`. The host puts the bytes where its shells can open them; a shell
//! that can not load them (bash without loadable builtins, another C library, a file system without execution) goes on
//! with the loop of text, over the same channels.

/// The shared object.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/loop.so"));

/// The name of the builtin.
pub const NAME: &str = "nacre_loop";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};
    use tempfile::TempDir;

    /// A shell that says nothing for so long never will.
    const LIMIT: Duration = Duration::from_secs(20);

    /// A bash in the loop, over FIFOs.
    struct Shell {
        directory: TempDir,
        control: File,
        token: File,
        bash: Child,
    }

    impl Shell {
        fn start(arguments: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            std::fs::write(at("object"), OBJECT).unwrap();
            let made = Command::new("mkfifo").args([at("control"), at("token")]).status().unwrap();
            assert!(made.success());
            let both = |path: &Path| {
                OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap()
            };
            let (control, token) = (both(&at("control")), both(&at("token")));
            let text = format!("enable -f ./object {NAME}; trap 'echo end' EXIT; {NAME} {arguments}; echo back $?");
            let bash = Command::new("bash")
                .args(["-c", &text, "bash"])
                .env("PWD", directory.path())
                .current_dir(&directory)
                .stdout(File::create(at("base")).unwrap())
                .spawn()
                .unwrap();
            Self { directory, control, token, bash }
        }

        fn in_the_loop() -> Self {
            let report = "'printf \"\\1slow $?\\0\\2\\n\" >control'";
            let mut shell = Self::start(&format!("control token command /dev/null out err 'echo end' {report}"));
            assert!(shell.report().starts_with("\x01L\x000\x00"));
            shell
        }

        fn report(&mut self) -> String {
            let (mut bytes, begun) = (Vec::new(), Instant::now());
            while !bytes.ends_with(b"\0\x02\n") {
                match self.control.read_to_end(&mut bytes) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                    result => drop(result.unwrap()),
                }
                assert!(begun.elapsed() < LIMIT, "the shell has told only {:?}", String::from_utf8_lossy(&bytes));
            }
            String::from_utf8(bytes).unwrap()
        }

        /// Runs a text and gives its report and its output.
        fn run(&mut self, token: &str, text: &str) -> (String, String) {
            std::fs::write(self.directory.path().join("command"), text).unwrap();
            self.token.write_all(token.as_bytes()).unwrap();
            let report = self.report();
            (report, self.read("out"))
        }

        fn read(&self, name: &str) -> String {
            std::fs::read_to_string(self.directory.path().join(name)).unwrap()
        }

        fn end(mut self, text: &str) -> String {
            std::fs::write(self.directory.path().join("command"), text).unwrap();
            self.token.write_all(b"\n").unwrap();
            let begun = Instant::now();
            while self.bash.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < LIMIT, "the shell does not end");
                std::thread::sleep(Duration::from_millis(1));
            }
            self.read("base")
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.bash.kill();
            let _ = self.bash.wait();
        }
    }

    #[test]
    fn a_report_tells_status_flags_arguments_directory_and_trap() {
        let mut shell = Shell::in_the_loop();
        let (report, output) = shell.run("\n", "set -f -- a b; PWD=/some/where; echo hi; (exit 3)\n\n");
        assert_eq!(report, "\x01L\x003\x00fhBc\x002\x00/some/where\x00trap -- 'echo end' EXIT\n\x00\x02\n");
        assert_eq!(output, "hi\n");
        assert_eq!(shell.end("exit 4"), "end\n");
    }

    #[test]
    fn other_traps_are_reported_by_the_text() {
        let mut shell = Shell::in_the_loop();
        assert_eq!(shell.run("\n", "trap : ERR; (exit 5)").0, "\x01slow 5\x00\x02\n");
        assert_eq!(shell.run("\n", "trap - ERR; trap x EXIT").0, "\x01slow 0\x00\x02\n");
        shell.end("trap - EXIT; exit");
    }

    #[test]
    fn the_engines_own_texts_leave_what_the_users_left() {
        let mut shell = Shell::in_the_loop();
        shell.run("\n", ": last; true | (exit 6)");
        shell.run("i\n", "false; : other; true | true");
        let (_, output) = shell.run("\n", "echo $? ${PIPESTATUS[@]} $_");
        assert_eq!(output, "6 0 6 last\n");
        shell.end("exit");
    }

    #[test]
    fn its_name_is_gone_and_it_needs_no_descriptor() {
        let mut shell = Shell::in_the_loop();
        let (_, output) = shell.run("\n", &format!("compgen -b nacre; type -t {NAME}; ulimit -Sn 3; echo on"));
        assert_eq!(output, "on\n");
        let (_, output) = shell.run("\n", "echo still on");
        assert_eq!(output, "still on\n");
        shell.end("exit");
    }

    #[test]
    fn what_it_can_not_do_is_left_to_the_text_behind_it() {
        let few = Shell::start("control token");
        assert_eq!(few.end(""), "back 0\nend\n");
        let no_token = Shell::start("control nowhere/token command /dev/null out err 'echo end' :");
        assert_eq!(no_token.end(""), "back 0\nend\n");
        for taken in ["enable -n printf", "builtin() { :; }", "set -e; enable -n trap"] {
            assert_eq!(Shell::in_the_loop().end(taken), "back 0\nend\n", "{taken}");
        }
    }

    #[test]
    fn a_command_that_can_not_have_its_streams_does_not_run() {
        let mut shell = Shell::start(
            "control token command /dev/null nowhere/out err 'echo end' 'printf \"\\1slow\\0\\2\\n\" >control'",
        );
        shell.report();
        std::fs::write(shell.directory.path().join("command"), "echo ran >ran").unwrap();
        shell.token.write_all(b"\n").unwrap();
        assert!(shell.report().starts_with("\x01L\x001\x00"));
        assert!(!shell.directory.path().join("ran").exists());
    }
}
