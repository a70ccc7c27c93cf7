//! Commands see what a plain bash would show, and nothing of the engine.

use crate::host::Session;
use nacre_protocol::shell::{DoneFlags, RequestFlags};

/// Runs commands in one session and returns all results.
fn outputs(commands: &[&str]) -> Vec<(i32, String, String)> {
    let mut session = Session::start();
    let run = |command: &&str| {
        let ran = session.run(command);
        assert!(!ran.promoted, "{command} killed the shell");
        (ran.code, ran.out, ran.err)
    };
    commands.iter().map(run).collect()
}

fn last_output(commands: &[&str]) -> String {
    outputs(commands).pop().unwrap().1
}

#[test]
fn local_options_are_undone_by_exit() {
    assert_eq!(last_output(&["f(){ local -; set -fx; exit 4; }; f", "echo $-"]), "hBc\n");
}

#[test]
fn debug_traps_see_only_the_commands() {
    let seen = outputs(&["trap 'echo \"D:$BASH_COMMAND\"' DEBUG", "true 1", "exit 3", "true 2"]);
    assert_eq!([&seen[1].1, &seen[2].1, &seen[3].1], ["D:true 1\n", "D:exit 3\n", "D:true 2\n"]);
    let kept = ["trap : EXIT; trap 'echo D' DEBUG", "f(){ exit 3; }; eval f", "trap -p DEBUG"];
    assert!(last_output(&kept).contains("trap -- 'echo D' DEBUG"));
}

#[test]
fn extdebug_skips_commands() {
    let skip = "shopt -s extdebug; trap '[[ $BASH_COMMAND != skip* ]]' DEBUG";
    assert_eq!(last_output(&[skip, "skip; echo a; exit 3", "skip me; echo b"]), "b\n");
}

#[test]
fn return_traps_run_once_per_function() {
    assert_eq!(last_output(&["set -T; f(){ :; }; trap 'echo R' RETURN", "exit 2", "f"]), "R\n");
}

#[test]
fn traces_show_only_the_commands() {
    let traced =
        ["exec 7>xt; BASH_XTRACEFD=7; set -x", "true u", "exit 3", "true v", "{ set +x; } 2>/dev/null; cat xt"];
    assert_eq!(last_output(&traced), "+ true u\n+ exit 3\n+ true v\n+ set +x\n");
    let seen = outputs(&["set -v", "true hello\necho b", "exit 2", "true"]);
    assert_eq!([&seen[1].2, &seen[3].2], ["true hello\necho b\n", "true\n"]);
    assert_eq!(outputs(&["set -x", "f(){ exit 3; }; f", "true"])[2].2, "+ true\n");
}

#[test]
fn special_parameters_survive() {
    let seen = outputs(&[
        "true last; (exit 3) | (exit 4)",
        "echo ${PIPESTATUS[*]}",
        "true abc",
        "echo $_",
        "exit 3",
        "echo $?",
    ]);
    assert_eq!([&seen[1].1, &seen[3].1, &seen[5].1], ["3 4\n", "abc\n", "3\n"]);
}

#[test]
fn the_builtin_leaves_no_trace() {
    let search = "compgen -b | grep nacre; enable -a | grep nacre; enable -p | grep nacre; type nacre; declare -F; trap -p; jobs
        compgen -v | grep -i -E 'nacre|EXECUTION'; set | grep -i nacre; hash | grep -v empty; history; echo ${BASH_EXECUTION_STRING-none} $_";
    assert_eq!(last_output(&[search]), "none history\n");
    let descriptors = "( ls /proc/$BASHPID/fd | tr '\\n' ' ' ); x=$(echo /proc/self/fd/*); echo $x; { sleep 0; ls /proc/$BASHPID/fd; } & wait";
    assert!(!last_output(&[descriptors]).contains("240"));
}

#[test]
fn jobs_survive_exit() {
    let jobs = [
        "sleep .3 & p=$!; (sleep .1; exit 6) & q=$!",
        "exit 1",
        "jobs -r | wc -l; wait $q; echo $?; wait $p; echo $?; jobs",
    ];
    assert_eq!(last_output(&jobs), "2\n6\n0\n");
    let next = ["sleep 100 & (sleep .2; exit 6) &", "f(){ exit 1; }; f", "wait -n; echo $?; kill %1; wait; jobs"];
    assert!(last_output(&next).starts_with("6\n"));
    assert_eq!(
        last_output(&["coproc C { cat; }", "exit 4", "echo hi >&${C[1]}; read -t 5 x <&${C[0]}; echo $x"]),
        "hi\n"
    );
    let controlled = [
        "set -m; sleep 100 & jobs -p >/dev/null; exit 3",
        "jobs | grep -c Running; kill %1; [[ $- == *m* ]] && echo m",
    ];
    assert_eq!(last_output(&controlled), "1\nm\n");
    assert_eq!(
        last_output(&["sleep 0 & echo $! >pid", "/bin/true; exit 3", "[[ $! == $(<pid) ]] && echo same"]),
        "same\n"
    );
}

#[test]
fn notices_about_jobs_reach_no_later_command() {
    let mut session = Session::start();
    session.run("sleep 100 & echo");
    session.run("kill -9 $!; while kill -0 $!; do :; done");
    assert_eq!(session.run("/bin/true; sleep .05; /bin/true").err, "");
}

#[test]
fn descriptors_survive_exit() {
    let files = ["exec 5<>f5 10>f10 {zz}>fz", "exit 3", "echo a >&5; echo b >&10; echo c >&$zz; cat f5 f10 fz"];
    assert_eq!(last_output(&files), "a\nb\nc\n");
}

#[test]
fn options_that_stop_reading_last_for_one_command() {
    let seen = outputs(&["set -n\necho x", "echo a", "set -t; echo b", "echo c"]);
    assert_eq!([&seen[0].1, &seen[1].1, &seen[3].1], ["", "a\n", "c\n"]);
}

#[test]
fn error_messages_name_lines_as_bash_c_does() {
    let seen = outputs(&["\n\nnosuch1\n\nnosuch2", "echo a\nif then"]);
    assert_eq!(seen[0].2, "bash: line 3: nosuch1: command not found\nbash: line 5: nosuch2: command not found\n");
    assert_eq!(seen[1].1, "a\n");
    assert!(matches!(seen[1].0, 1 | 2));
    assert!(seen[1].2.starts_with("bash: -c: line "), "{}", seen[1].2);
}

#[test]
fn texts_of_several_lines_and_sizes() {
    let long = format!("cat <<E\n{}\nE", "x".repeat(200_000));
    assert_eq!(last_output(&[&long]).len(), 200_001);
    let aliased = ["shopt -s expand_aliases\nalias foo='echo 1; echo 2'", "foo\nfoo 3"];
    assert_eq!(last_output(&aliased), "1\n2\n1\n2 3\n");
    assert_eq!(last_output(&["cat <<E; exit 3\nabc\nE\necho no"]), "abc\n");
}

#[test]
fn posix_mode_ends_the_command_at_errors_of_special_builtins() {
    assert_eq!(last_output(&["set -o posix", "v=2; readonly ro=1; ro=3 export q", "echo $v"]), "2\n");
    for error in ["eval 'if then'", ". /proc/nonexistent"] {
        let seen = outputs(&[&format!("set -o posix; v=2; {error}; echo no"), "echo $v"]);
        assert_eq!([&seen[0].1, &seen[1].1], ["", "2\n"], "{error}");
    }
    assert_eq!(outputs(&["shopt -s failglob; v=2; echo /no/such/*; echo no", "echo $v"])[1].1, "2\n");
}

#[test]
fn users_may_take_names_that_an_engine_of_text_would_need() {
    let hostile =
        "builtin(){ echo no; }; eval(){ echo no; }; trap(){ echo no; }; exit(){ echo no; }; enable -n printf test";
    assert_eq!(last_output(&[hostile, "command exit 3", "echo $?; unset -f builtin exit; exit 4"]), "3\n");
    assert_eq!(outputs(&["set -r", "cd /", "exit 3", "echo alive"])[3].1, "alive\n");
}

#[test]
fn other_state_survives_exit() {
    let state = "umask 027; SECONDS=50; pushd /usr >/dev/null; RANDOM=5; a=$RANDOM; hash ls; complete -W 'a b' foo; enable -n test";
    let show = "umask; echo $((SECONDS>=50)); RANDOM=5; [[ $RANDOM == $a ]] && echo r; complete -p foo; enable -n; hash -t ls; echo ${DIRSTACK[0]}";
    let seen = last_output(&[state, "exit 1", show]);
    assert!(seen.starts_with("0027\n1\nr\ncomplete -W 'a b' foo\nenable -n test\n"), "{seen}");
    assert!(seen.ends_with("/usr\n"));
}

#[test]
fn child_traps_run_once() {
    let seen = outputs(&["trap 'echo C' CHLD", "/bin/true; :", "exit 3", "(exit 3); trap - CHLD"]);
    assert_eq!(seen[1].1, "C\n");
}

#[test]
fn words_run_a_program_or_builtin_without_expansion() {
    let mut session = Session::start();
    session.run("ls(){ echo function; }; shopt -s expand_aliases; alias ls=x");
    let mut run = |words: &[u8]| session.run_with(RequestFlags::ARGV, words);
    assert_eq!(run(b"ls\0-d\0/\0").out, "/\n");
    assert_eq!(run(b"printf\0[%s]\0a b\0$x\0*\0`x`\0\0").out, "[a b][$x][*][`x`][]");
    assert_eq!(run(b"nosuch cmd\0").err, "bash: line 1: nosuch cmd: command not found\n");
    let ended = run(b"exit\x004\0");
    assert_eq!((ended.code, ended.has(DoneFlags::EXITED)), (4, true));
    assert_eq!(run(b"cd\0/usr\0").cwd, "/usr");
    assert_eq!(run(b"A=1\0").code, 127);
}

#[test]
fn texts_of_the_engine_run_no_exit_trap_and_leave_status_0() {
    let mut session = Session::start();
    session.run("trap 'echo bye' EXIT");
    let ran = session.run_with(RequestFlags::ENGINE, b"x=1; exit 3");
    assert_eq!((ran.out.as_str(), ran.code), ("", 0));
    assert_eq!(session.output("echo $? $x"), "0 1\n");
}

#[test]
fn forks_are_counted() {
    let mut session = Session::start();
    assert_eq!(session.run("true; x=1").forks, 0);
    assert_eq!(session.run("/bin/true; (:)").forks, 2);
}

#[test]
fn closed_output_does_not_hurt_the_next_command() {
    assert_eq!(outputs(&["exec >&-; echo a", "echo b"])[1].1, "b\n");
}
