import { hostTarget } from '../../scripts/packages/targets.mjs'
import { conforms } from '../helpers/conformance.js'

const isMusl = hostTarget().endsWith('musl')

/** Commands that the engine needs or a user may want to replace. */
const names = [
  'eval printf read exit echo trap command test [ . source set declare typeset export local shopt umask alias',
  'unalias unset exec cd pwd pushd type hash return kill wait jobs ulimit complete enable true false : break',
  'continue shift readonly',
].flatMap((line) => line.split(' '))

const asFunctions = Object.fromEntries(
  names.map((name) => [
    `a function called ${name}`,
    [
      { run: `x=1; y=(a b); function ${name} { /bin/echo "mine $*"; }` },
      { run: `${name} a b`, out: 'mine a b\n' },
      { run: '/bin/echo $x ${y[1]}; x=2', out: '1 b\n' },
      { run: '/bin/echo ${gone:?}', code: 127, err: 'bash: line 1: gone: parameter null or not set\n' },
      { run: '/bin/echo $x ${y[1]}', out: '2 b\n' },
      { run: `${name} c`, out: 'mine c\n' },
      { run: `/bin/bash -c 'exec /bin/kill -9 $PPID'; /bin/sleep 60`, code: 137, restarted: true },
      { run: `/bin/echo $x; ${name} d`, out: '2\nmine d\n' },
    ],
  ]),
)

const asAliases = Object.fromEntries(
  [...names.filter((name) => !/[:.[]/.test(name)), ...['builtin', 'if', 'while', 'for', 'done', 'fi']].map(
    (name) => [
      `an alias called ${name}`,
      [
        { run: `shopt -s expand_aliases; x=1; alias ${name}='/bin/echo aliased'` },
        { run: `${name} a`, out: 'aliased a\n' },
        { run: '/bin/echo $x; x=2', out: '1\n' },
        { run: '/bin/echo ${gone:?}', code: 127, err: 'bash: line 1: gone: parameter null or not set\n' },
        { run: `/bin/echo $x\n${name} b`, out: '2\naliased b\n' },
        { run: `/bin/bash -c 'exec /bin/kill -9 $PPID'; /bin/sleep 60`, code: 137, restarted: true },
        { run: `/bin/echo $x; ${name} c`, out: '2\naliased c\n' },
      ],
    ],
  ),
)

conforms('functions with the names of builtins', asFunctions)
conforms('aliases with the names of builtins', asAliases)

conforms('hostile functions', {
  'every builtin is a function that fails': [
    { run: `x=1\n${names.map((name) => `function ${name} { /bin/false; }`).join('\n')}` },
    { run: '/bin/echo $x; cd /', code: 1, out: '1\n' },
    { run: 'builtin unset -f unset; builtin unset -f cd echo; cd /; echo $PWD', out: '/\n' },
  ],
  command_not_found_handle: [
    { run: 'command_not_found_handle() { echo "no $1"; return 5; }' },
    { run: 'nope a', out: 'no nope\n', code: 5 },
    { run: 'exit 3', code: 3 },
    { run: 'nope a', out: 'no nope\n', code: 5 },
  ],
  'a function that calls itself for ever': [
    { run: 'FUNCNEST=50; f() { f; }; f', code: 1, err: /maximum function nesting level exceeded/ },
    { run: 'echo on', out: 'on\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo $FUNCNEST', out: '50\n' },
  ],
})

conforms('hostile variables', {
  'with the names of commands': [
    {
      run: names
        .filter((name) => /^\w+$/.test(name))
        .map((name) => `${name}=1`)
        .join('; '),
    },
    { run: 'builtin=x; echo $eval$exit$builtin', out: '11x\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo $eval$exit$builtin', out: '11x\n' },
  ],
  'no PATH': [
    { run: 'unset PATH; ls', code: 127, err: 'bash: line 1: ls: No such file or directory\n' },
    { run: '/bin/echo on; exit 3', out: 'on\n', code: 3 },
    { run: 'echo "${PATH-unset}"; x=1', out: 'unset\n' },
    { run: 'PATH=/no/such; ls', code: 127, err: 'bash: line 1: ls: command not found\n' },
    { run: 'PATH=; kill -9 $$', code: 137, restarted: true },
    { run: 'echo "$x [$PATH]"', out: '1 [/no/such]\n' },
  ],
  'no HOME': [
    { run: 'unset HOME; cd', code: 1, err: 'bash: line 1: cd: HOME not set\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo ${HOME-unset}', out: 'unset\n' },
  ],
  ...Object.fromEntries(
    ['0123456789', '', ':', '\\', 'abcdefghijklmnopqrstuvwxyz', '/', '$', '\n'].map((ifs) => [
      `IFS is ${JSON.stringify(ifs)}`,
      [
        { run: ['eval', `IFS='${ifs}'`], out: '' },
        { run: 'cd /usr; (exit 7)', code: 7 },
        { run: 'echo "$?"; set -- "a b" c; x=(1 "2 3")', out: '7\n' },
        { run: 'exit 3', code: 3 },
        { run: 'printf "<%s>" "$PWD" "$@" "${x[@]}" "$IFS"', out: `</usr><a b><c><1><2 3><${ifs}>` },
        { run: 'kill -9 "$$"', code: 137, restarted: true },
        { run: 'printf "<%s>" "$@" "$IFS"', out: `<a b><c><${ifs}>` },
      ],
    ]),
  ),
  'readonly variables of the shell': [
    { run: 'readonly PATH IFS HOME PS4 OLDPWD REPLY OPTIND; x=1' },
    {
      run: 'read -r a <<<hi; echo $a; cd /usr',
      out: 'hi\n',
      code: 1,
      err: /^(bash: line 1: OLDPWD: readonly variable\n)?$/,
    },
    { run: 'exit 3', code: 3 },
    { run: 'echo $x; PATH=no', out: '1\n', code: 1, err: 'bash: line 1: PATH: readonly variable\n' },
    { run: 'kill -9 $$', code: 137, restarted: true },
    { run: 'echo $x', out: '1\n' },
  ],
  'a readonly PWD': [
    { run: 'readonly PWD; echo a', out: 'a\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo on; declare -p PWD', out: 'on\ndeclare -rx PWD="<dir>"\n' },
  ],
  'PWD that lies, and none': [
    { run: 'PWD=/no/such; pwd; /bin/pwd', out: '<dir>\n<dir>\n' },
    { run: 'exit 3', code: 3 },
    { run: 'cd /usr; unset PWD; /bin/pwd', out: '/usr\n' },
    { run: 'exit 4', code: 4 },
    { run: '/bin/pwd; echo ${PWD-unset}', out: '/usr\nunset\n' },
  ],
  'LC_ALL and LANG': [
    { run: 'LC_ALL=C; x=ü; echo ${#x}', out: '2\n' },
    { run: 'LC_ALL=C.UTF-8; echo ${#x}', out: '1\n' },
    { run: 'exit 3', code: 3 },
    {
      run: 'echo $x ${#x}; LC_ALL=xx_XX',
      out: 'ü 1\n',
      // musl takes any name for a locale.
      err: isMusl ? '' : /^bash: line 1: warning: setlocale: LC_ALL: cannot change locale \(xx_XX\)/,
    },
    { run: 'echo quiet', out: 'quiet\n' },
  ],
  'PS1, PS2, PS4, PROMPT_COMMAND': [
    { run: `PS1='\\u '; PS2='? '; PS4='$(echo trap >&2)@ '; PROMPT_COMMAND='echo prompt'` },
    { run: 'echo a', out: 'a\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo "$PS4"', out: '$(echo trap >&2)@ \n' },
  ],
  'BASH_ENV and ENV': [
    { run: 'echo "echo sourced" >file; export BASH_ENV=$PWD/file ENV=$PWD/file' },
    { run: 'echo a; bash -c "echo b"', out: 'a\nsourced\nb\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo a; bash -c "echo b"', out: 'a\nsourced\nb\n' },
    { run: 'kill -9 $$', code: 137, restarted: true },
    { run: 'exit 4', code: 4 },
    { run: 'echo $BASH_ENV', out: '<dir>/file\n' },
  ],
  'BASH_ENV of the session itself': {
    session: { env: { BASH_ENV: '/no/such/file' } },
    steps: [
      { run: 'echo $BASH_ENV', out: '/no/such/file\n' },
      { run: 'exit 3', code: 3 },
      { run: 'echo $BASH_ENV', out: '/no/such/file\n' },
    ],
  },
  CDPATH: [
    { run: 'mkdir -p a/sub b; CDPATH=$PWD/a; cd b' },
    { run: 'cd sub', out: '<dir>/a/sub\n', cwd: '<dir>/a/sub' },
    { run: 'exit 3', code: 3 },
    { run: 'pwd', out: '<dir>/a/sub\n' },
    { run: 'pwd', options: { cwd: '/usr' }, out: '/usr\n' },
    { run: 'pwd', out: '<dir>/a/sub\n' },
  ],
  'TMOUT, waiting for more than that': [{ run: 'TMOUT=1; x=1' }, { run: 'sleep 0.01; echo $x', out: '1\n' }],
  'GLOBIGNORE, EXECIGNORE, FIGNORE, BASH_COMPAT': [
    { run: 'touch a b; GLOBIGNORE=a; EXECIGNORE="*/ls"; BASH_COMPAT=4.2' },
    { run: 'echo *', out: 'b\n' },
    { run: 'ls', code: 127, err: 'bash: line 1: ls: command not found\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo * $BASH_COMPAT', out: 'b 4.2\n' },
  ],
  'everything unset that can be': [
    { run: 'for v in $(compgen -v); do unset "$v" 2>/dev/null; done; echo on', out: 'on\n' },
    { run: 'echo on', out: 'on\n' },
    { run: 'exit 3', code: 3 },
    { run: 'echo on; /bin/pwd', out: 'on\n<dir>\n' },
  ],
})

conforms('hostile traps', {
  'DEBUG, in this command and the next ones': [
    { run: "trap 'echo D' DEBUG; echo a", out: 'D\na\n' },
    { run: 'echo b; echo c', out: 'D\nb\nD\nc\n' },
    { run: 'echo d', out: 'D\nd\n' },
    { run: 'trap - DEBUG; echo e', out: 'D\ne\n' },
    { run: 'echo f', out: 'f\n' },
  ],
  'DEBUG that tells the command': [
    { run: 'trap \'echo "$BASH_COMMAND"\' DEBUG' },
    { run: 'x=1; ls -d .', out: 'x=1\nls -d .\n.\n' },
  ],
  ERR: [
    { run: "trap 'echo E$?' ERR; false", out: 'E1\n', code: 1 },
    { run: 'true' },
    { run: '(exit 4)', out: 'E4\n', code: 4 },
    { run: 'echo $?', out: '4\n' },
    { run: 'exit 3', code: 3 },
    { run: 'true; false; true', out: 'E1\n' },
  ],
  RETURN: [
    { run: "trap 'echo R' RETURN; f() { echo f; }; f", out: 'f\n' },
    { run: 'echo "echo s" >file; . ./file', out: 's\nR\n' },
    { run: 'echo a', out: 'a\n' },
    { run: 'set -T; f', out: 'f\nR\n' },
    { run: 'exit 3', code: 3 },
    { run: 'f', out: 'f\nR\n' },
  ],
  CHLD: [
    { run: "trap 'echo C' CHLD; /bin/true", out: 'C\n' },
    { run: 'echo a', out: 'a\n' },
    { run: '/bin/true; echo b', out: 'C\nb\n' },
    { run: 'exit 3', code: 3 },
    { run: '/bin/true; echo c', out: 'C\nc\n' },
  ],
  'INT, HUP and USR1': [
    { run: "trap 'echo int' INT; trap 'echo hup' HUP; kill -INT $$; kill -HUP $$", out: 'int\nhup\n' },
    { run: 'kill -INT $$; kill -HUP $$', out: 'int\nhup\n' },
    { run: 'exit 3', code: 3 },
    { run: 'kill -INT $$; kill -HUP $$', out: 'int\nhup\n' },
  ],
  'EXIT that is set, seen and taken away': [
    { run: "trap 'echo bye' EXIT" },
    { run: 'trap -p EXIT', out: "trap -- 'echo bye' EXIT\n" },
    { run: 'trap', out: "trap -- 'echo bye' EXIT\n" },
    { run: 'trap - EXIT' },
    { run: 'trap -p' },
    { run: 'exit 3', code: 3 },
  ],
  'every signal ignored': [
    { run: "x=1; trap '' $(seq 64) 2>/dev/null; echo on", out: 'on\n' },
    { run: 'echo $x; sleep 0.01; exit 3', out: '1\n', code: 3 },
    { run: 'kill $$; echo $x', out: '1\n' },
    { run: 'trap - TERM' },
    { run: 'kill $$', code: 143 },
    { run: 'echo $x', out: '1\n' },
  ],
  'a trap with hostile text': [
    { run: `trap $'echo "a\\'b\\n\\x01c\\x02"' USR1` },
    { run: 'kill -USR1 $$', out: "a'b\n\x01c\x02\n" },
    { run: 'exit 3', code: 3 },
    { run: 'kill -USR1 $$', out: "a'b\n\x01c\x02\n" },
    { run: `trap $'echo \\x01R\\nX' EXIT; echo a`, out: 'a\n' },
    { run: 'echo b', out: 'b\n' },
  ],
})
