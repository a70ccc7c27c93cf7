import { conforms } from '../helpers/conformance.js'

conforms('options of set', [
  {
    name: 'errexit stays on',
    steps: [
      { run: 'set -e' },
      { run: 'true; echo on', out: 'on\n' },
      { run: 'echo a; false; echo b', out: 'a\n', code: 1 },
      { run: 'echo $?; case $- in *e*) echo still;; esac', out: '1\nstill\n' },
      { run: 'f() { false; echo no; }; f', code: 1 },
      { run: 'kill -9 $$', code: 137, restarted: true },
      { run: 'case $- in *e*) echo still;; esac', out: 'still\n' },
      { run: 'set +e; false; echo on', out: 'on\n' },
    ],
  },
  {
    name: 'nounset stays on',
    steps: [
      { run: 'set -u' },
      { run: 'echo "${x-unset}" "$@"', out: 'unset\n' },
      { run: 'x=1; echo $y; echo no', code: 127, err: 'bash: line 1: y: unbound variable\n' },
      { run: 'echo $x', out: '1\n' },
      { run: 'echo ${arr[1]}', code: 127, err: 'bash: line 1: arr[1]: unbound variable\n' },
      { run: 'echo $1', code: 127, err: 'bash: line 1: $1: unbound variable\n' },
      { run: 'set +u; echo "[$y]"', out: '[]\n' },
    ],
  },
  {
    name: 'noglob',
    steps: [
      { run: 'touch a b; set -f' },
      { run: 'echo *', out: '*\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo *; set +f; echo *', out: '*\na b\n' },
    ],
  },
  {
    name: 'keyword',
    steps: [
      { run: 'set -k' },
      { run: 'bash -c \'echo "$x $1"\' bash x=1 two', out: '1 two\n' },
      { run: 'exit 3', code: 3 },
      { run: 'bash -c \'echo "$x"\' bash x=1; echo ${x-unset}', out: '1\nunset\n' },
      { run: 'pwd', options: { cwd: '/usr', env: { A: '1' } }, out: '/usr\n' },
    ],
  },
  {
    name: 'noclobber',
    steps: [
      { run: 'set -C; echo a >f' },
      { run: 'echo b >f', code: 1, err: 'bash: line 1: f: cannot overwrite existing file\n' },
      { run: 'exit 3', code: 3 },
      { run: 'cat f', out: 'a\n' },
    ],
  },
  {
    name: 'noexec',
    steps: [
      { run: 'x=1' },
      { run: 'set -n; echo no' },
      { run: 'enable -n printf; exit 3', code: 3 },
      { run: 'echo $x', out: '1\n' },
    ],
  },
  {
    name: 'verbose',
    steps: [
      { run: 'set -v' },
      { run: 'echo a', out: 'a\n', err: 'echo a\n' },
      { run: 'echo b\necho c', out: 'b\nc\n', err: 'echo b\necho c\n' },
      { run: 'exit 3', code: 3, err: 'exit 3\n' },
      { run: 'set +v', err: 'set +v\n' },
      { run: 'echo d', out: 'd\n' },
    ],
  },
  {
    name: 'xtrace shows nothing but the command',
    steps: [
      { run: 'set -x' },
      { run: 'echo a', out: 'a\n', err: /^\+\+? echo a\n$/ },
      { run: '(exit 4)', code: 4, err: /^\+\+? exit 4\n$/ },
      { run: 'x=1; echo $?', out: '0\n', err: /^\+\+? x=1\n\+\+? echo 0\n$/ },
      { run: 'exit 3', code: 3, err: /^\+\+? exit 3\n$/ },
      { run: 'f() { :; }; f', err: /^\+\+? f\n\+\+? :\n$/ },
      { run: 'kill -9 $$', code: 137, restarted: true, err: /^\+\+? kill -9 \d+\n$/ },
      { run: 'echo b', out: 'b\n', err: /^\+\+? echo b\n$/ },
      { run: 'set +x', err: /^\+\+? set \+x\n$/ },
      { run: 'echo c', out: 'c\n' },
    ],
  },
  {
    name: 'onecmd',
    steps: [
      { run: 'x=1' },
      { run: 'set -t; x=2', code: 0 },
      { run: 'echo $x', out: '2\n' },
      { run: 'echo on', out: 'on\n' },
    ],
  },
  {
    name: 'monitor',
    steps: [
      { run: 'set -m' },
      {
        run: 'sleep 60 & kill $!; wait $!; echo $?',
        out: '143\n',
        err: /^(bash: line 1: )?(\[1\]\+? +\d* ?Terminated +sleep 60\n)?/,
      },
      { run: 'sleep 0.01', out: '' },
      { run: 'held() { until [ -e go ]; do sleep 0.01; done; sleep 0.5; }' },
      { run: 'held &' },
      { run: ': >go; fg %1', out: 'held\n' },
      { run: 'exit 3', code: 3 },
      { run: 'case $- in *m*) echo m;; esac; (exit 5); echo $?', out: 'm\n5\n' },
      { run: 'true | cat; set +m; echo on', out: 'on\n' },
    ],
  },
  {
    name: 'monitor, with a large state',
    steps: [
      { run: "set -m; large=$(head -c 3000000 /dev/zero | tr '\\0' x)" },
      { run: 'exit 3', code: 3 },
      { run: 'echo $? ${#large}; case $- in *m*) echo m;; esac', out: '3 3000000\nm\n' },
      { run: 'sleep 0.01 & fg', out: 'sleep 0.01\n' },
    ],
  },
  {
    name: 'braceexpand and histexpand',
    steps: [
      { run: 'set +B -H' },
      { run: 'echo {a,b} hi! "x!y"', out: '{a,b} hi! x!y\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo {a,b} a!', out: '{a,b} a!\n' },
    ],
  },
  {
    name: 'history',
    steps: [
      { run: 'set -o history' },
      { run: 'echo a', out: 'a\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo b; set +o history', out: 'b\n' },
      { run: 'echo c', out: 'c\n' },
    ],
  },
  {
    name: 'functrace and errtrace',
    steps: [
      { run: "set -TE; trap 'echo E' ERR; f() { false; true; }" },
      { run: 'f', out: 'E\n' },
      { run: "trap 'echo R' RETURN; g() { :; }; g", out: 'R\n' },
      { run: 'trap - ERR RETURN; exit 3', code: 3 },
      { run: 'case $- in *E*T*) echo ET;; esac; f', out: 'ET\n' },
    ],
  },
  {
    name: 'posix',
    steps: [
      { run: 'set -o posix; x=1; f() { echo f; }' },
      { run: 'echo $x; f', out: '1\nf\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo $x; f; set -o | grep posix', out: '1\nf\nposix          \ton\n' },
      { run: 'kill -9 $$', code: 137, restarted: true },
      { run: 'pwd', options: { cwd: '/usr', env: { A: '1' } }, out: '/usr\n' },
      {
        run: 'export E; echo $x; . ./no/such; echo no',
        code: 1,
        out: '1\n',
        err: 'bash: line 1: ./no/such: No such file or directory\n',
      },
      { run: 'echo $x; set +o posix', out: '1\n' },
    ],
  },
  {
    name: 'POSIXLY_CORRECT',
    steps: [
      { run: 'POSIXLY_CORRECT=1; x=1' },
      { run: 'echo $x', out: '1\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo $x ${POSIXLY_CORRECT:+set}', out: '1 set\n' },
    ],
  },
  {
    name: 'allexport',
    steps: [
      { run: 'set -a; x=1' },
      { run: 'env | grep ^x=', out: 'x=1\n' },
      { run: 'exit 3', code: 3 },
      { run: 'y=2; env | grep ^y=; env | grep -ci nacre_', out: 'y=2\n1\n' },
    ],
  },
  {
    name: 'physical',
    steps: [
      { run: 'mkdir real; ln -s real link; set -P; cd link', cwd: '<dir>/real' },
      { run: 'pwd; exit 3', out: '<dir>/real\n', code: 3 },
      { run: 'cd ../link; pwd', out: '<dir>/real\n' },
    ],
  },
  {
    name: 'privileged, hashall, notify, nolog, ignoreeof, emacs, vi',
    steps: [
      { run: 'set -p +h -b -o nolog -o ignoreeof -o vi; echo on', out: 'on\n' },
      { run: 'exit 3', code: 3 },
      {
        run: 'set -o | grep -E "privileged|hashall|notify|nolog|ignoreeof|vi " | cut -f2 | tr "\\n" " "',
        out: /^on \b|off/,
      },
      { run: 'echo on', out: 'on\n' },
    ],
  },
  {
    name: 'pipefail',
    steps: [
      { run: 'set -o pipefail; false | true', code: 1 },
      { run: 'false | true', code: 1 },
      { run: 'exit 3', code: 3 },
      { run: '(exit 4) | true | true', code: 4 },
      { run: 'set +o pipefail; false | true' },
    ],
  },
  {
    name: 'all together',
    steps: [
      { run: 'touch f; set -efukC -o pipefail; x=1' },
      { run: 'echo * $x', out: '* 1\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo * $x $-', out: /^\* 1 \w*ef\w*k\w*u\w*C\w*\n$/ },
      { run: 'pwd', options: { cwd: '/usr', env: { A: '1', B: undefined } }, out: '/usr\n' },
      { run: 'kill -9 $$', code: 137, restarted: true },
      { run: 'echo * $x', out: '* 1\n' },
    ],
  },
])

conforms('options of shopt', [
  {
    name: 'lastpipe',
    steps: [
      { run: 'shopt -s lastpipe; echo a | read -r x; echo $x', out: 'a\n' },
      { run: 'echo b | read -r x' },
      { run: 'exit 3', code: 3 },
      { run: 'echo $x; echo c | read -r x; echo $x', out: 'b\nc\n' },
    ],
  },
  {
    name: 'inherit_errexit',
    steps: [
      { run: 'shopt -s inherit_errexit; set -e; x=$(echo a; false; echo b)', code: 1 },
      { run: 'echo $x', out: 'a\n' },
    ],
  },
  {
    name: 'failglob, nullglob, nocaseglob',
    steps: [
      { run: 'shopt -s failglob; echo no*', code: 1, err: 'bash: line 1: no match: no*\n' },
      { run: 'echo a', out: 'a\n' },
      { run: 'shopt -u failglob; shopt -s nullglob nocaseglob; touch ABC; echo no* a*', out: 'ABC\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo no* a*', out: 'ABC\n' },
    ],
  },
  {
    name: 'expand_aliases',
    steps: [
      { run: 'alias a="echo x"' },
      { run: 'a', code: 127, err: 'bash: line 1: a: command not found\n' },
      { run: 'shopt -s expand_aliases' },
      { run: 'a', out: 'x\n' },
      { run: 'exit 3', code: 3 },
      { run: 'a y', out: 'x y\n' },
    ],
  },
  {
    name: 'xpg_echo, patsub_replacement, autocd, cdable_vars',
    steps: [
      { run: 'shopt -s xpg_echo autocd cdable_vars; d=/usr' },
      { run: "echo 'a\\tb'; cd d", out: 'a\tb\n/usr\n', cwd: '/usr' },
      { run: 'exit 3', code: 3 },
      { run: "echo 'a\\tb'; pwd", out: 'a\tb\n/usr\n' },
    ],
  },
  {
    name: 'localvar_unset, localvar_inherit, assoc_expand_once',
    steps: [
      { run: 'shopt -s localvar_inherit; x=1; f() { local x; echo $x; }; f', out: '1\n' },
      { run: 'exit 3', code: 3 },
      { run: 'f', out: '1\n' },
    ],
  },
  {
    name: 'extdebug without a trap',
    steps: [
      { run: 'shopt -s extdebug; f() { echo "${BASH_ARGV[*]}"; }' },
      { run: 'f a b', out: 'b a\n' },
      { run: 'exit 3', code: 3 },
      { run: 'f c; shopt extdebug', out: /c\nextdebug +\ton\n$/ },
    ],
  },
  {
    name: 'huponexit, checkjobs, execfail',
    steps: [
      {
        run: 'shopt -s huponexit checkjobs execfail; sleep 60 & exec /no/such',
        code: 127,
        err: /No such file/,
      },
      { run: 'kill -0 $! && exit 3', code: 3 },
      { run: 'shopt execfail', out: 'execfail       \ton\n' },
    ],
  },
])
