//! A checkpoint restores a shell's whole state in another shell, item by item, and evaluates nothing.

use crate::host::{Session, process};
use nacre_protocol::shell::{Lost, Reply, Request, RequestFlags, RequestKind, is_whole, not_restored};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::AsFd;

fn checkpoint(session: &mut Session) -> Vec<u8> {
    let mut file = File::from(process::memfd(b""));
    let child = session.fork(false, RequestFlags::CHECKPOINT, &[file.as_fd()]);
    assert_eq!(child.wait(), 0);
    let mut items = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut items).unwrap();
    assert!(is_whole(&items));
    items
}

fn restored(items: &[u8], environment: &[(&str, &str)]) -> (Session, Vec<Lost>) {
    restored_with(0, items, environment)
}

fn restored_with(status: i32, items: &[u8], environment: &[(&str, &str)]) -> (Session, Vec<Lost>) {
    let session = Session::start_with(environment);
    let request = Request { text: items, ..Request::new(RequestKind::Restore, u64::try_from(status).unwrap()) };
    session.shell.send(&request, &[]);
    let Some(Reply::Restored(lost)) = session.shell.receive() else { panic!("nothing is restored") };
    (session, lost)
}

/// What a command can find out about the state, except what each shell has for itself.
const DIGEST: &str = r#"
    set -- "$?" "$0" "$@"; printf '%q\n' "$@"; set +o; shopt -p; trap -p; trap - DEBUG ERR; set +eufnxv +o posix
    umask; ulimit -aS; ulimit -aH; enable -n; pwd; printf '%q\n' "${DIRSTACK[@]}"
    declare -f; declare -F; alias -p; complete -p | command -p sort; hash -l | command -p sort
    declare -p | command -p grep -avE '^declare -[-a-zA-Z]+ (BASH[A-Z_]*|PPID|_|S?RANDOM|EPOCH.*|LINENO|SECONDS|PIPESTATUS|FUNCNAME)(=|$)'
"#;

/// The items of a checkpoint, sorted. An element follows its array.
fn items(checkpoint: &[u8]) -> Vec<(String, u32, u32, Vec<u8>)> {
    const COMPLETION: u32 = 5;
    let (mut found, mut rest, mut owner) = (Vec::new(), checkpoint, String::new());
    while rest.len() >= 18 {
        let number = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().unwrap());
        let (kind, of, name_length, value_length) = (number(0), number(4), number(8) as usize, number(12) as usize);
        let name = String::from_utf8_lossy(&rest[16..16 + name_length]).into_owned();
        let mut value = rest[17 + name_length..17 + name_length + value_length].to_vec();
        if kind == COMPLETION {
            // The texts follow as items, and the rest are addresses.
            value.truncate(24);
            value.drain(..8);
        }
        // Elements (2) and texts of a completion (6) belong to the item before.
        if kind != 2 && kind != 6 {
            owner = format!("{kind:02} {name}");
        }
        found.push((format!("{owner} {name}"), kind, of, value));
        rest = &rest[18 + name_length + value_length..];
    }
    found.retain(|(name, ..)| !name.ends_with(" _") && !name.contains("BASH_") && !name.contains("SECONDS"));
    found.sort();
    found
}

/// Checks that another shell with this state writes the same items.
fn survives_as_items(setup: &str) -> (Session, Session) {
    let mut session = Session::start();
    let set_up = session.run(setup);
    assert!(!set_up.promoted, "{setup}: {set_up:?}");
    let former = checkpoint(&mut session);
    let (mut other, lost) = restored_with(set_up.code, &former, &[("INHERITED", "1")]);
    assert_eq!(lost, [], "{setup}");
    let (before, after) = (items(&former), items(&checkpoint(&mut other)));
    let differences: Vec<_> = before.iter().zip(&after).filter(|(one, two)| one != two).take(3).collect();
    assert!(before == after, "{setup}: {differences:?}");
    (session, other)
}

/// Checks also that a command sees the same.
fn survives(setup: &str) {
    let (mut session, mut other) = survives_as_items(setup);
    let [before, after] = [&mut session, &mut other].map(|shell| shell.run(DIGEST));
    let differences: Vec<_> =
        before.out.lines().zip(after.out.lines()).filter(|(one, two)| one != two).take(5).collect();
    assert!(before.out == after.out && before.out.contains("declare"), "{setup}: {differences:?} {}", before.err);
}

#[test]
fn every_kind_of_item_survives() {
    survives(
        "trap 'echo U' USR1; trap 'echo bye' EXIT; trap '' HUP; trap 'x' DEBUG; trap '' ERR; alias zz='ls -l'; alias '#x'=y
         set -- a 'b c' ''; shopt -s extglob; set -o pipefail; fz(){ echo 1; }; export -f fz; declare -ft traced; traced(){ :; }
         cd /tmp; pushd /usr >/dev/null; pushd /usr/bin >/dev/null; complete -W 'a b' -P p foo; complete -F fz -o nospace bar
         complete -D -f; umask 027; hash -p /bin/ls myls; var='x y'; IFS=:; readonly r=1; OPTIND=3; BASH_ARGV0=name
         ulimit -Sn 200; ulimit -c 0; enable -n caller; readonly -f fz; (exit 7)",
    );
}

#[test]
fn every_kind_of_variable_survives() {
    survives(
        "declare -l converted; declare -A converted; for i in {1..300}; do converted[k$i]=$i; done
         declare -A map=([k]=v ['a b']='c d' ['x]y']=$'n\\nl' [@]=at); declare -a list=([3]=c [1]='b b'); declare -ai numbers=(1 2)
         declare -i number=5; declare -l low=ABC; declare -u up=abc; declare -n ref=number; declare -x exported=e; declare unset_one
         declare -a empty=(); declare -a unset_list; declare -A unset_map; export unset_exported; bytes=$'\\x01\\xff\\xfe\\t'; declare -n no_target
         declare -r fixed=$'a\\nb'; declare -ar fixed_list=(1 2); SHELL=/x; unset HOSTNAME; BASH_COMPAT=5.0; TZ=UTC; LC_ALL=C; PS4='$(x)'",
    );
}

#[test]
fn values_that_would_be_evaluated_or_converted_survive() {
    survives(
        "x='8080 9090'; declare -i x; y='a[$(touch evaluated)]'; declare -i y; z=Release; declare -l z; w=abc; declare -u w",
    );
    survives("l=('1 +' 'b[$(touch evaluated)]'); declare -i l; declare -A m=([q]='$(touch evaluated)'); declare -i m");
    assert!(!std::path::Path::new("evaluated").exists());
}

#[test]
fn functions_and_options_do_not_disturb_one_another() {
    survives("f(){ case $1 in !(a)) echo no;; esac; }; shopt -u extglob; g(){ :; }");
    survives("shopt -s extglob; f(){ echo !(a) @(b|c); }; shopt -u extglob; after(){ :; }; trap 'echo' USR1");
    survives("git-st(){ :; }; after(){ echo on; }; set -o posix");
    survives("function a=b { :; }; after(){ :; }; set -u");
    survives_as_items("builtin(){ :; }; declare(){ :; }; set -euf; enable -n test trap set eval");
    survives("shopt -s expand_aliases; alias echo='rm -rf'; f(){ \\echo 1; }; IFS=$'\\x01'; set -f");
    survives(
        "set -o noglob -o nounset -o errexit -o noclobber -o vi; shopt -s nullglob dotglob globstar lastpipe execfail",
    );
    survives("unset SECONDS RANDOM; SECONDS=text; GLOBIGNORE='*.o'; POSIXLY_CORRECT=1");
}

#[test]
fn what_was_unset_does_not_come_back() {
    let mut session = Session::start_with(&[("TOKEN", "secret"), ("KEPT", "1")]);
    session.run("unset TOKEN; export -n KEPT; f(){ :; }; unset -f f; unset RANDOM");
    let (mut other, _) =
        restored(&checkpoint(&mut session), &[("TOKEN", "secret"), ("KEPT", "2"), ("BASH_FUNC_g%%", "() { :; }")]);
    assert_eq!(other.output("echo \"[$TOKEN$RANDOM]\" $KEPT; env | grep -c -e TOKEN -e KEPT; declare -F"), "[] 1\n0\n");
}

#[test]
fn a_function_that_bash_prints_wrongly_loses_only_itself() {
    let mut session = Session::start();
    session.run("bad(){ cat <<A && cat <<B && cat <<C\n1\nA\n2\nB\n3\nC\n}; zz(){ echo z; }; set -o pipefail; trap 'echo t' USR1");
    let lists = "1\n2\n3\n";
    assert_eq!(session.output("bad"), lists);
    let (mut other, lost) = restored(&checkpoint(&mut session), &[]);
    match lost.as_slice() {
        // This bash prints it well.
        [] => assert_eq!(other.output("bad"), lists),
        [one] => assert_eq!((one.kind.as_str(), one.name.as_str()), ("function", "bad")),
        more => panic!("{more:?}"),
    }
    assert_eq!(other.output("zz; [[ -o pipefail ]] && echo on; kill -USR1 $$"), "z\non\nt\n");
}

#[test]
fn a_renamed_directory_is_followed_and_a_removed_one_is_no_other() {
    let mut session = Session::start();
    let root = session.path().to_path_buf();
    session.run("mkdir here && cd here && PWD=/elsewhere");
    fs::rename(root.join("here"), root.join("there")).unwrap();
    let (mut other, lost) = restored(&checkpoint(&mut session), &[]);
    assert_eq!(lost, []);
    assert_eq!(other.output("echo $PWD; builtin pwd"), format!("/elsewhere\n{}\n", root.join("there").display()));
    fs::remove_dir(root.join("there")).unwrap();
    let items = checkpoint(&mut session);
    let (mut other, lost) = restored(&items, &[]);
    assert_eq!(lost, []);
    assert_eq!(other.output("echo *; touch file 2>/dev/null || echo gone; cd / && echo back"), "*\ngone\nback\n");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn a_large_state_survives() {
    let mut session = Session::start();
    session.run("for ((i = 0; i < 20000; i++)); do declare \"v$i=value $i\"; done; for ((i = 0; i < 500; i++)); do eval \"f$i(){ echo $i; }\"; done; list=({1..20000})");
    let (mut other, lost) = restored(&checkpoint(&mut session), &[]);
    assert_eq!(lost, []);
    assert_eq!(
        other
            .output("echo \"$v19999 ${#list[@]} ${list[-1]}\"; f499; compgen -v | wc -l")
            .lines()
            .take(2)
            .collect::<Vec<_>>(),
        ["value 19999 20000 20000", "499"]
    );
}

#[test]
fn damaged_lists_lose_the_rest_and_say_so() {
    let mut session = Session::start();
    session.run("a=1; b=2; f(){ :; }");
    let items = checkpoint(&mut session);
    for cut in [0, 1, 15, 16, 17, items.len() / 2, items.len() - 1] {
        let (mut other, lost) = restored(&items[..cut], &[]);
        assert!(lost.iter().any(|one| one.kind == "state"), "{cut}: {lost:?}");
        assert_eq!(other.output("echo on"), "on\n");
    }
    for at in (0..items.len()).step_by(97) {
        let mut changed = items.clone();
        changed[at] ^= 0x5a;
        let (mut other, _) = restored(&changed, &[]);
        let _ = other.run("true");
    }
}

#[test]
fn it_names_what_a_new_shell_cannot_have() {
    let mut session = Session::start();
    assert_eq!(not_restored(&checkpoint(&mut session)), [""; 0]);
    session.run(
        "exec 7</dev/null; exec {a}>/dev/null; sleep 100 & sleep 101 | cat & { exec sleep 102; echo 'a
b'; } &",
    );
    session.run("(exit 3) & wait $!; set -m; sleep 103 & kill -STOP %+");
    let items = checkpoint(&mut session);
    let jobs = ["job 1: sleep 100", "job 2: sleep 101 | cat", "job 3: { exec sleep 102; echo 'a", "job 4: sleep 103"];
    let descriptors = ["descriptor 7", "descriptor 10"];
    let expected: Vec<&str> = jobs.into_iter().chain(descriptors).collect();
    assert_eq!(not_restored(&items), expected);
    let (mut other, lost) = restored(&items, &[]);
    assert_eq!(lost, []);
    assert_eq!(other.output("jobs; echo on"), "on\n");
    assert_eq!(not_restored(&checkpoint(&mut other)), [""; 0]);
    session.run("kill -KILL $(jobs -p); exec 7<&- 10>&-");
    // `wait` alone passes over a job that is stopped as far as bash knows yet.
    session.run("wait -f %4; wait");
    assert_eq!(not_restored(&checkpoint(&mut session)), [""; 0]);
    // Each cut gives texts, or none.
    (0..items.len()).for_each(|cut| drop(not_restored(&items[..cut])));
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
fn a_signal_that_comes_with_the_request_does_not_end_it() {
    const ROUNDS: usize = 500;
    let mut session = Session::start();
    session.run("v=1; f() { echo F; }");
    session.renew_standby();
    let origin = session.standby.as_ref().unwrap();
    for round in 0..ROUNDS {
        let mut file = File::from(process::memfd(b""));
        let (child, theirs) = process::seqpacket_pair();
        let request = Request { flags: RequestFlags::CHECKPOINT, ..Request::new(RequestKind::Fork, 77) };
        origin.send(&request, &[theirs.as_fd(), file.as_fd()]);
        // It comes before, while or after the request is read.
        (0..round * 20).for_each(|_| std::hint::spin_loop());
        origin.signal(libc::SIGTERM);
        let Some(Reply::Forked { result: Ok(pid), .. }) = origin.receive() else { panic!("no fork") };
        drop(theirs);
        assert_eq!(process::Process::adopt(pid.cast_signed(), child).wait(), 0, "in round {round}");
        let mut items = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut items).unwrap();
        assert!(is_whole(&items), "in round {round}");
    }
}
