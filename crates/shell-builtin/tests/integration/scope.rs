//! A command's own directory, environment and limits leave no trace, however the command ends.

use crate::host::{Session, process};
use nacre_protocol::shell::{DoneFlags, Refusal, Request};
use std::time::{Duration, Instant};

#[test]
fn a_directory_lasts_for_one_command() {
    let mut session = Session::start();
    session.run("cd /tmp");
    let ran = session.run_in("/usr", "", "pwd; echo $PWD $OLDPWD");
    assert_eq!((ran.out.as_str(), ran.cwd.as_str()), ("/usr\n/usr /tmp\n", "/tmp"));
    session.run("cd /usr; unset OLDPWD");
    assert_eq!(session.run_in("lib/..//bin", "", "pwd; exit 3").out, "/usr/bin\n");
    assert_eq!(session.run_in("/etc", "", "cd /; f(){ local q; exec /proc/nonexistent; }; f").code, 127);
    assert_eq!(session.output("pwd; echo ${OLDPWD-unset}; /bin/pwd"), "/usr\nunset\n/usr\n");
}

#[test]
fn a_link_keeps_its_name() {
    let mut session = Session::start();
    session.run("mkdir -p real/inner; ln -s real link");
    let directory = session.path().display().to_string();
    assert_eq!(
        session.run_in("link/inner", "", "pwd; pwd -P").out,
        format!("{directory}/link/inner\n{directory}/real/inner\n")
    );
    session.run("set -P");
    assert_eq!(session.run_in("link/inner", "", "pwd").out, format!("{directory}/real/inner\n"));
}

#[test]
fn the_session_returns_to_a_directory_without_a_name() {
    let mut session = Session::start();
    session.run("mkdir gone; cd gone; rmdir ../gone");
    session.run_in("/", "", ":");
    // A directory that was removed has no links.
    assert_eq!(session.output("stat -c %h ."), "0\n");
}

#[test]
fn a_missing_directory_refuses_the_command() {
    let mut session = Session::start();
    let ran = session.run_in("/proc/nonexistent", "A=1\0", "echo ran >ran");
    assert_eq!(ran.refused, Some((Refusal::Cwd, String::new())));
    assert_eq!(session.output("ls; echo ${A-unset}"), "unset\n");
}

#[test]
fn variables_last_for_one_command() {
    let mut session = Session::start();
    assert_eq!(session.run_in("", "A=1\0B=2 3\0", "echo $A $B; env | grep -c '^[AB]='; A=9; exit 2").out, "1 2 3\n2\n");
    assert_eq!(session.output("echo ${A-unset} ${B-unset}"), "unset unset\n");
}

#[test]
fn any_kind_of_variable_returns_exactly() {
    let mut session = Session::start();
    session.run("declare -ai arr=(1 2 3); declare -n ref=arr; declare -A h=([x]=y); declare -i n=4; declare -x e=old; declare -u up=a");
    let before = session.output("declare -p arr h n e up; declare -p ref");
    let env = "arr=a+b\0ref=R\0h=H\0n=1+1\0up=small\0e\0";
    let text = "echo $arr $ref $h $n $up ${e-unset}; declare -p ref; unset arr h; arr=5; declare -A n2; readonly up";
    assert_eq!(session.run_in("", env, text).out, "a+b R H 1+1 small unset\ndeclare -x ref=\"R\"\n");
    assert_eq!(session.output("declare -p arr h n e up; declare -p ref"), before);
}

#[test]
fn what_bash_derives_from_variables_returns_too() {
    let mut session = Session::start();
    session.run("SECONDS=100; hash -p /bin/ls found");
    assert_eq!(session.run_in("", "IFS=:\0", "x=a:b; echo $x").out, "a b\n");
    assert_eq!(session.output("x='a:b c'; printf '[%s]' $x"), "[a:b][c]");
    assert_eq!(
        session.run_in("", "PATH=/proc/nowhere\0", "type -t ls; hash -t found; echo $PATH").out,
        "/proc/nowhere\n"
    );
    assert_eq!(session.output("hash -t found; ls -d /"), "/bin/ls\n/\n");
    assert!(session.run_in("", "POSIXLY_CORRECT=1\0", "shopt -o posix").out.ends_with("on\n"));
    assert!(session.output("shopt -o posix").ends_with("off\n"));
    assert_eq!(session.run_in("", "RANDOM=q\0SECONDS=w\0", "echo $RANDOM$SECONDS").out, "qw\n");
    assert_eq!(session.output("[[ $RANDOM != q && $SECONDS -ge 100 ]] && echo dynamic"), "dynamic\n");
    assert_eq!(session.run_in("/usr", "PWD\0", "echo ${PWD-unset}").out, "unset\n");
    assert_eq!(session.output("[[ $PWD == $(/bin/pwd) ]] && echo same"), "same\n");
}

#[test]
fn a_read_only_variable_refuses_the_command() {
    let mut session = Session::start();
    session.run("readonly ro=1");
    let ran = session.run_in("/usr", "Z=1\0ro=2\0", "echo ran");
    assert_eq!(ran.refused, Some((Refusal::ReadOnly, "ro".into())));
    assert_eq!(
        session.output("echo ${Z-unset} $ro; [[ $PWD == $(/bin/pwd) && $PWD != /usr ]] && echo here"),
        "unset 1\nhere\n"
    );
}

#[test]
fn an_interrupt_leaves_the_scope() {
    let mut session = Session::start();
    let running = session.begin(Request {
        cwd: b"/usr",
        env: b"A=1\0IFS=:\0",
        ..Request::run(0, b"echo on; while :; do :; done")
    });
    let interrupt = |shell: &process::Process| {
        shell.signal(33);
        Duration::from_millis(10)
    };
    assert!(session.finish(running, interrupt, Duration::from_millis(50)).has(DoneFlags::INTERRUPTED));
    assert_eq!(session.output("echo ${A-unset} ${#IFS}; [[ $PWD != /usr ]] && echo back"), "unset 3\nback\n");
}

#[test]
fn a_large_scope_fits() {
    let mut session = Session::start();
    let large = format!("V={}\0", "x".repeat(200_000));
    assert_eq!(session.run_in("/usr", &large, "echo ${#V}; pwd").out, "200000\n/usr\n");
}

#[test]
fn limits_last_for_one_command() {
    let mut session = Session::start();
    let before = session.output("ulimit -n; ulimit -u");
    let ran = session.request(Request {
        open_files: Some(64),
        processes: Some(5000),
        ..Request::run(0, b"ulimit -n; ulimit -u")
    });
    assert_eq!(ran.out, "64\n5000\n");
    assert_eq!(session.output("ulimit -n; ulimit -u"), before);
    let refused = session.request(Request { open_files: Some(u64::MAX - 1), ..Request::run(0, b"echo ran") });
    assert_eq!(refused.refused, Some((Refusal::Limit, "openFiles".into())));
}

#[test]
fn scopes_cost_little() {
    let mut session = Session::start();
    let begun = Instant::now();
    for _ in 0..200 {
        session.run_in("/usr", "A=1\0B=2\0", ":");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}
