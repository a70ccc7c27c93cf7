import { conforms } from '../helpers/conformance.js'

/** What an engine that adds text of its own to a shell gets wrong. */
conforms('nothing of the engine in between', [
  {
    name: 'a variable that is local to a calling function',
    steps: [
      { run: 'x=1; f() { local x=2; g; }; g() { exit 3; }; f', code: 3 },
      { run: 'echo $x', out: '1\n' },
    ],
  },
  {
    name: 'an EXIT trap set by the very command that exits',
    steps: [
      { run: 'x=1' },
      { run: "trap 'echo bye $x' EXIT; x=2; exit 4", out: 'bye 2\n', code: 4 },
      { run: 'echo $x', out: '2\n' },
    ],
  },
  {
    name: 'a trap for TERM removed by the very command that is killed',
    steps: [
      { run: "trap '' TERM" },
      { run: 'x=2; trap - TERM; kill $$', code: 143 },
      { run: 'echo $x', out: '2\n' },
    ],
  },
  {
    name: 'a function called builtin',
    steps: [{ run: 'builtin() { echo mine; }; x=1' }, { run: 'echo $x; builtin', out: '1\nmine\n' }],
  },
  {
    name: 'a builtin of the engine that is disabled',
    steps: [{ run: 'enable -n printf; x=1' }, { run: 'echo $x', out: '1\n' }],
  },
  {
    name: 'descriptors from 10 on',
    steps: [
      { run: 'exec 10>ten {fd}>next; echo $fd; echo a >&10', out: '11\n' },
      { run: 'echo b >&10; cat ten', out: 'a\nb\n' },
    ],
  },
  {
    name: 'descriptor 50',
    steps: [{ run: 'exec 50>fifty; echo a >&50; cat fifty', out: 'a\n' }],
  },
  {
    name: 'no descriptor beside the first three',
    steps: [
      { run: 'ulimit -Sn 3; echo a', out: 'a\n' },
      { run: 'echo b', out: 'b\n' },
    ],
  },
  {
    name: 'a trace that goes to a descriptor of its own',
    steps: [
      { run: "exec 9>trace; BASH_XTRACEFD=9; PS4='@ '; set -x" },
      { run: 'echo a', out: 'a\n' },
      { run: 'set +x; cat trace', out: '@ echo a\n@ set +x\n' },
    ],
  },
  {
    name: 'the depth of a trace',
    steps: [{ run: 'set -x' }, { run: 'echo a', out: 'a\n', err: '+ echo a\n' }],
  },
  {
    name: 'PIPESTATUS of the command before',
    steps: [{ run: 'false | true' }, { run: 'echo "${PIPESTATUS[@]}"', out: '1 0\n' }],
  },
  {
    name: '$_ after a command that is not plain words',
    steps: [{ run: ": 'a b'" }, { run: 'echo "$_"', out: 'a b\n' }],
  },
  {
    name: 'wait for a job that was started before an exit',
    steps: [{ run: 'sleep 60 & p=$!' }, { run: 'exit 3', code: 3 }, { run: 'kill $p; wait $p', code: 143 }],
  },
  {
    name: '$! after an exit',
    steps: [{ run: 'sleep 60 & p=$!' }, { run: 'exit 3', code: 3 }, { run: '[ "$!" = $p ]' }],
  },
  {
    name: 'break outside of a loop',
    steps: [
      { run: 'break; echo on', out: 'on\n', err: /only meaningful in a/ },
      { run: 'continue; echo on', out: 'on\n', err: /only meaningful in a/ },
    ],
  },
  {
    name: 'a signal other than TERM and KILL that the shell sends to itself',
    steps: [{ run: 'kill -HUP $$', code: 129 }],
  },
  {
    name: 'a DEBUG trap at the end of the shell',
    steps: [
      { run: "trap 'echo D' DEBUG", out: '' },
      { run: 'exit 3', out: 'D\n', code: 3 },
    ],
  },
  {
    name: 'a DEBUG trap that fails, with extdebug',
    steps: [{ run: "shopt -s extdebug; trap 'false' DEBUG" }, { run: 'echo skipped' }],
  },
  {
    name: 'a DEBUG trap in a trace',
    steps: [
      { run: "trap 'echo D' DEBUG; set -x", out: 'D\n' },
      { run: ':', out: 'D\n', err: '++ echo D\n+ :\n' },
    ],
  },
  {
    name: '$? brought back while input is echoed',
    steps: [
      { run: 'set -v' },
      { run: 'false', code: 1, err: 'false\n' },
      { run: 'echo $?', out: '1\n', err: 'echo $?\n' },
    ],
  },
  {
    name: 'the value of POSIXLY_CORRECT over exit',
    steps: [
      { run: 'POSIXLY_CORRECT=1' },
      { run: 'exit 3', code: 3 },
      { run: 'echo $POSIXLY_CORRECT', out: '1\n' },
    ],
  },
  {
    name: 'a traced function and an exit in a function',
    steps: [
      { run: "f() { :; }; declare -ft f; trap 'echo R' RETURN; die() { exit 3; }" },
      { run: 'die', out: '', code: 3 },
      { run: 'die', out: '', code: 3 },
      { run: 'die', out: '', code: 3 },
    ],
  },
  {
    name: 'a directory of its own for a command of a session whose directory has gone',
    steps: [
      { run: 'mkdir gone; cd gone; rmdir ../gone' },
      { run: 'pwd', options: { cwd: '/usr' }, out: '/usr\n' },
      { run: 'cd ..; pwd', out: '<dir>\n' },
    ],
  },
])
