//! A checkpoint describes the whole state, even if the user has redefined bash's own commands.

mod host;

use host::{Session, process};
use nacre_protocol::shell::RequestFlags;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;

const TRAPS: usize = 0;
const OPTIONS: usize = 1;
const SHOPT: usize = 2;
const CWD: usize = 3;
const UMASK: usize = 4;
const VARIABLES: usize = 5;
const FUNCTIONS: usize = 7;
const FUNCTION_ATTRIBUTES: usize = 8;
const ALIASES: usize = 9;
const ARGUMENTS: usize = 10;
const DIRECTORIES: usize = 11;
const COMPLETIONS: usize = 12;
const HASHES: usize = 13;
const DISABLED: usize = 14;
const SECTIONS: usize = 16;

fn checkpoint(session: &mut Session) -> Vec<String> {
    let mut file = File::from(process::memfd(b""));
    let child = session.fork(false, RequestFlags::CHECKPOINT, &[file.as_fd()]);
    assert_eq!(child.wait(), 0);
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let sections: Vec<String> = text.split('\0').map(str::to_owned).collect();
    assert_eq!((sections.len(), sections[SECTIONS].as_str()), (SECTIONS + 2, "END"));
    sections
}

#[test]
fn it_has_every_section_in_order() {
    let mut session = Session::start();
    session.run(
        "trap 'echo U' USR1; trap 'echo bye' EXIT; alias zz='ls -l'; set -- a 'b c'; shopt -s extglob; set -o pipefail
         fz(){ echo 1; }; export -f fz; cd /tmp; pushd /usr >/dev/null; complete -W 'a b' foo; umask 027; hash -p /bin/ls myls; var='x y'",
    );
    session.run("builtin(){ :; }; declare(){ :; }; printf(){ :; }; set -euf; enable -n test trap set");
    let sections = checkpoint(&mut session);
    let has = |section: usize, text: &str| assert!(sections[section].contains(text), "{text} in {}", sections[section]);
    has(TRAPS, "trap -- 'echo bye' EXIT\ntrap -- 'echo U' SIGUSR1\n");
    has(OPTIONS, "set -o pipefail\n");
    has(OPTIONS, "set -o errexit\n");
    has(SHOPT, "shopt -s extglob\n");
    assert_eq!([&sections[CWD], &sections[UMASK]], ["/usr", "umask 0027\n"]);
    has(VARIABLES, "declare -- var=\"x y\"\n");
    has(FUNCTIONS, "fz () \n{ \n    echo 1\n}\n");
    has(FUNCTION_ATTRIBUTES, "declare -fx fz\n");
    assert_eq!(sections[ALIASES], "alias zz='ls -l'\n");
    assert_eq!(sections[ARGUMENTS], "bash 2 a b\\ c ");
    assert_eq!(sections[DIRECTORIES], "/usr /tmp ");
    has(COMPLETIONS, "complete -W 'a b' foo\n");
    has(HASHES, "hash -p /bin/ls myls\n");
    has(DISABLED, "enable -n test\n");
    has(DISABLED, "enable -n trap\n");
    assert_eq!([&sections[6], &sections[15]], ["", ""]);
}

#[test]
fn it_does_not_disturb_the_shell() {
    let mut session = Session::start();
    session.run("trap 'echo bye' EXIT; v=1; set -o posix");
    checkpoint(&mut session);
    checkpoint(&mut session);
    assert_eq!(
        session.output("echo $v; trap -p EXIT; [[ -o posix ]] && echo posix"),
        "1\ntrap -- 'echo bye' EXIT\nposix\n"
    );
    assert!(session.shell.has_open(&[240]));
}

#[test]
fn its_text_restores_another_shell() {
    let mut session = Session::start();
    session.run("declare -A h=([k]=v); declare -ai a=(1 2); f(){ echo \"$1-${h[k]}-${a[1]}\"; }; alias x='f al'; shopt -s expand_aliases; trap 'echo U' USR1");
    let sections = checkpoint(&mut session);
    let keep = |line: &&str| ["h=", " a="].iter().any(|name| line.contains(name));
    let variables: Vec<&str> = sections[VARIABLES].lines().filter(keep).collect();
    let text = [&variables.join("\n"), &sections[ALIASES], &sections[FUNCTIONS], &sections[TRAPS], &sections[SHOPT]];
    let mut other = Session::start();
    assert_eq!(other.run_with(RequestFlags::ENGINE, text.map(String::as_str).join("\n").as_bytes()).err, "");
    assert_eq!(other.output("x; kill -USR1 $$"), "al-v-2\nU\n");
}
