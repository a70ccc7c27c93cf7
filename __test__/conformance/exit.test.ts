import { conforms } from '../helpers/conformance.js'

/** Some of everything that a session keeps, and how to see it. */
const setState = `mkdir -p sub; cd sub; plain='it'\\''s'; export shown=1; list=([2]=two [5]='f i v e')
declare -A map=([a b]=c); f() { echo "f $1 $plain"; }; shopt -s expand_aliases extglob; alias hey='echo hey'
set -o pipefail; trap 'echo usr1' USR1; umask 027; set -- one 'two three'; pushd / >/dev/null; popd >/dev/null`
const seeState = `pwd; echo "$plain"; bash -c 'echo $shown'; declare -p list map; f x; hey; shopt extglob
set -o | grep pipefail; kill -USR1 $$; umask; printf '<%s>' "$@"; echo; cd - >/dev/null; pwd`
const state = `<dir>/sub
it's
1
declare -a list=([2]="two" [5]="f i v e")
declare -A map=(["a b"]="c" )
f x it's
hey
extglob        \ton
pipefail       \ton
usr1
0027
<one><two three>
/
`

interface Death {
  run: string
  code: number
  out?: string
  err?: string | RegExp
  restarted?: boolean
}

const deaths: Death[] = [
  { run: 'exit 3', code: 3 },
  { run: 'exit', code: 0 },
  { run: 'false; exit', code: 1 },
  { run: 'exit 256', code: 0 },
  { run: 'exit -1', code: 255 },
  { run: 'exit 1000', code: 232 },
  { run: 'exit abc', code: 2, err: 'bash: line 1: exit: abc: numeric argument required\n' },
  { run: 'echo before; exit 4; echo after', code: 4, out: 'before\n' },
  { run: 'g() { exit 5; }; g; echo after', code: 5 },
  { run: 'g() { local other=inner; h; }; h() { exit 6; }; g', code: 6 },
  { run: '{ exit 7; } 2>/dev/null', code: 7 },
  { run: 'for i in 1 2; do while :; do exit 8; done; done', code: 8 },
  { run: 'eval "eval \'exit 9\'"', code: 9 },
  { run: 'echo "exit 10" >file; . ./file; rm file', code: 10 },
  { run: 'if true; then case x in x) exit 11;; esac; fi', code: 11 },
  { run: 'exit 12 >/dev/null 2>&1', code: 12 },
  { run: 'builtin exit 13', code: 13 },
  { run: 'command exit 14', code: 14 },
  { run: 'exit $(( 5 * 3 ))\necho after', code: 15 },
  { run: 'set -e; false; echo after', code: 1 },
  { run: 'set -e; g() { (exit 16); echo after; }; g', code: 16 },
  { run: 'set -e; false | true; echo after', code: 1 },
  { run: 'set -u; echo "$nothing"; echo after', code: 127, err: 'bash: line 1: nothing: unbound variable\n' },
  { run: 'echo ${nothing:?}', code: 127, err: 'bash: line 1: nothing: parameter null or not set\n' },
  { run: 'echo ${nothing?is missing}; :', code: 127, err: 'bash: line 1: nothing: is missing\n' },
  {
    run: 'exec /no/such/program',
    code: 127,
    err: 'bash: line 1: /no/such/program: No such file or directory\n',
  },
  { run: 'exec true', code: 0, restarted: true },
  { run: 'exec bash -c "exit 17"', code: 17, restarted: true },
  { run: 'exec echo replaced', code: 0, out: 'replaced\n', restarted: true },
  { run: 'kill -9 $$; echo after', code: 137, restarted: true },
  { run: '(kill -9 $$); sleep 60', code: 137, restarted: true },
  { run: 'kill $$; echo after', code: 143 },
]

/** `set -e`, `set -u` and the death's own trap change the state on purpose: undone before it is looked at. */
conforms(
  'a command that ends the shell keeps all state',
  Object.fromEntries(
    deaths.map(({ run, restarted = false, ...end }) => [
      `${run}`,
      [
        { run: setState },
        { run, restarted, ...end },
        { run: 'set +eu' },
        { run: seeState, out: state },
        { run: 'echo "$BASHPID $$"', out: /^(\d+) \1\n$/ },
      ],
    ]),
  ),
)

conforms('a command that seems to end the shell', {
  'in a subshell, a substitution, a pipeline or the background ends only that': [
    { run: '(exit 7); echo $?', out: '7\n' },
    { run: 'x=$(exit 8); echo $?', out: '8\n' },
    { run: 'exit 9 | true; echo $?', out: '0\n' },
    { run: 'true | exit 9; echo $?', out: '9\n' },
    { run: 'exit 10 & wait $!; echo $?', out: '10\n' },
    { run: '(set -e; false; echo no); echo $?', out: '1\n' },
    { run: '(set -u; echo $nothing) 2>/dev/null; echo $?', out: '1\n' },
    { run: '(kill -9 $BASHPID); echo $?', out: '137\n', err: /^(bash: line \d+: +\d+ Killed .*\n)?$/ },
    { run: '(exit 11)', code: 11 },
    { run: 'cat <(exit 12); echo $?', out: '0\n' },
  ],
  'where errexit does not apply': [
    {
      run: 'set -e; if false; then :; fi; ! true; false || true; false && true; while false; do :; done; echo on',
      out: 'on\n',
    },
    { run: 'x=$(false) || echo caught', out: 'caught\n' },
    { run: 'f() { false; echo in f; }; f || :; echo on', out: 'in f\non\n' },
    { run: 'false', code: 1 },
    { run: 'echo on; case $- in *e*) echo e;; esac', out: 'on\ne\n' },
    { run: 'local x=$(false)', code: 1, err: 'bash: line 1: local: can only be used in a function\n' },
    { run: 'set +e; false; echo on', out: 'on\n' },
  ],
  'that bash refuses to obey': [
    {
      run: 'return 5; echo "rc $?"',
      out: 'rc 2\n',
      err: "bash: line 1: return: can only `return' from a function or sourced script\n",
    },
    {
      run: 'logout; echo "rc $?"',
      out: 'rc 1\n',
      err: "bash: line 1: logout: not login shell: use `exit'\n",
    },
    {
      run: 'suspend; echo "rc $?"',
      out: 'rc 1\n',
      err: 'bash: line 1: suspend: cannot suspend: no job control\n',
    },
    { run: 'kill -QUIT $$; echo alive', out: 'alive\n' },
    {
      run: 'shopt -s execfail; exec /no/such/program; echo "rc $?"',
      out: 'rc 127\n',
      err: 'bash: line 1: /no/such/program: No such file or directory\n',
    },
  ],
  'errors that end the line and not the shell': [
    { run: 'x=$((1/0)); echo no', code: 1, err: /division by 0/ },
    { run: 'echo ${x!}; echo no', code: 1, err: 'bash: line 1: ${x!}: bad substitution\n' },
    { run: 'readonly r=1; r=2; echo no', code: 1, err: 'bash: line 1: r: readonly variable\n' },
    { run: 'echo "$r"', out: '1\n' },
    {
      run: 'unset r; echo $?',
      out: '1\n',
      err: 'bash: line 1: unset: r: cannot unset: readonly variable\n',
    },
    {
      run: 'shopt -s failglob; echo /no/such/*; echo no',
      code: 1,
      err: 'bash: line 1: no match: /no/such/*\n',
    },
  ],
})

conforms('traps at the end of the shell', {
  'an EXIT trap runs once, at the end, and sees the status': [
    { run: "trap 'echo bye $?' EXIT" },
    { run: 'echo still here', out: 'still here\n' },
    { run: 'echo a; exit 3', code: 3, out: 'a\nbye 3\n' },
    { run: 'echo next', out: 'next\n' },
  ],
  'an EXIT trap may exit with a status of its own': [
    { run: "trap 'exit 9' EXIT" },
    { run: 'x=1; exit 3', code: 9 },
    { run: 'echo $x', out: '1\n' },
  ],
  'an EXIT trap of a subshell is its own': [
    { run: "trap 'echo outer' EXIT" },
    { run: "(trap 'echo inner' EXIT); echo on", out: 'inner\non\n' },
    { run: '(echo sub)', out: 'sub\n' },
    { run: 'trap - EXIT' },
    { run: 'exit 2', code: 2 },
  ],
  'a trap for TERM keeps the shell from ending': [
    { run: "trap 'echo got' TERM; kill $$; echo after", out: 'got\nafter\n' },
    { run: 'kill $$; echo after', out: 'got\nafter\n' },
    { run: "trap '' TERM; kill $$; echo alive", out: 'alive\n' },
    { run: 'trap - TERM' },
    { run: 'kill $$; echo no', code: 143 },
    { run: 'echo next', out: 'next\n' },
  ],
  'an ERR trap runs before errexit ends the shell': [
    { run: "trap 'echo err $?' ERR; set -e" },
    { run: '(exit 5); echo no', code: 5, out: 'err 5\n' },
    { run: 'set +e; (exit 6)', code: 6, out: 'err 6\n' },
    { run: 'true' },
  ],
})

conforms('dying again and again', {
  'twenty deaths of every kind in a row': [
    { run: 'n=0' },
    ...Array.from({ length: 5 }, (_, round) => [
      { run: 'n=$((n + 1)); exit 1', code: 1 },
      { run: 'n=$((n + 1)); kill $$', code: 143 },
      { run: 'set -e; n=$((n + 1)); false', code: 1 },
      { run: `set +e; kill -9 $$`, code: 137, restarted: true },
      { run: 'set +e; echo $n', out: `${3 * (round + 1)}\n` },
    ]).flat(),
  ],
})

/** Errors for which bash itself calls exit() under errexit. */
const errors: [string, number][] = [
  ['echo "unclosed', 2],
  ['echo $(unclosed', 2],
  ['fi', 2],
  ['if :', 2],
  [': ${nope:?}', 1],
  ['g() { : ${nope:?}; }; g', 1],
  ['set -u; : $nope', 1],
  [': $((1/0))', 1],
  ['exec /no/such/program', 127],
]

conforms(
  'errors under errexit end the command',
  Object.fromEntries(
    errors.map(([run, code]) => [
      run,
      [
        { run: 'x=1' },
        { run: `x=2; set -e\n${run}`, code, err: /./ },
        { run: 'set +eu; echo $x', out: '2\n' },
      ],
    ]),
  ),
)

conforms('an EXIT trap under exit', {
  'that is ignored': [
    { run: "trap '' EXIT" },
    { run: 'exit 3', code: 3 },
    { run: 'trap -p EXIT', out: "trap -- '' EXIT\n" },
  ],
  'that an expansion error runs, and that exits itself': [
    { run: "trap 'exit 0' EXIT" },
    { run: 'set -e; : ${nope:?}', out: '', err: /nope/ },
    { run: "set +e; trap 'echo bye; exit 5' EXIT" },
    { run: 'set -e; : ${nope:?}', code: 5, out: 'bye\n', err: /nope/ },
    { run: "set +e; trap 'echo bye $?' EXIT" },
    { run: 'set -e; : ${nope:?}', code: 1, out: 'bye 1\n', err: /nope/ },
  ],
  'that an expansion error runs': [
    { run: "trap 'echo bye' EXIT" },
    { run: 'set -e; : ${nope:?}', code: 1, out: 'bye\n', err: /nope/ },
    { run: 'set +e; trap -p EXIT', out: "trap -- 'echo bye' EXIT\n" },
    { run: 'exit 3', code: 3, out: 'bye\n' },
  ],
})
