import { conforms } from '../helpers/conformance.js'

/** What an engine that adds text of its own to a shell gets wrong. */
conforms('nothing of the engine in between', {
  'a variable that is local to a calling function': [
    { run: 'x=1; f() { local x=2; g; }; g() { exit 3; }; f', code: 3 },
    { run: 'echo $x', out: '1\n' },
  ],
  'an EXIT trap set by the very command that exits': [
    { run: 'x=1' },
    { run: "trap 'echo bye $x' EXIT; x=2; exit 4", out: 'bye 2\n', code: 4 },
    { run: 'echo $x', out: '2\n' },
  ],
  'a trap for TERM removed by the very command that is killed': [
    { run: "trap '' TERM" },
    { run: 'x=2; trap - TERM; kill $$', code: 143 },
    { run: 'echo $x', out: '2\n' },
  ],
  'a function called builtin': [
    { run: 'builtin() { echo mine; }; x=1' },
    { run: 'echo $x; builtin', out: '1\nmine\n' },
  ],
  'a builtin of the engine that is disabled': [
    { run: 'enable -n printf; x=1' },
    { run: 'echo $x', out: '1\n' },
  ],
  'descriptors from 10 on': [
    { run: 'exec 10>ten {fd}>next; echo $fd; echo a >&10', out: '11\n' },
    { run: 'echo b >&10; cat ten', out: 'a\nb\n' },
  ],
  'descriptor 50': [{ run: 'exec 50>fifty; echo a >&50; cat fifty', out: 'a\n' }],
  'no descriptor beside the first three': [
    { run: 'ulimit -Sn 3; echo a', out: 'a\n' },
    { run: 'echo b', out: 'b\n' },
  ],
  'a trace that goes to a descriptor of its own': [
    { run: "exec 9>trace; BASH_XTRACEFD=9; PS4='@ '; set -x" },
    { run: 'echo a', out: 'a\n' },
    { run: 'set +x; cat trace', out: '@ echo a\n@ set +x\n' },
  ],
  'the depth of a trace': [{ run: 'set -x' }, { run: 'echo a', out: 'a\n', err: '+ echo a\n' }],
  'PIPESTATUS of the command before': [
    { run: 'false | true' },
    { run: 'echo "${PIPESTATUS[@]}"', out: '1 0\n' },
  ],
  '$_ after a command that is not plain words': [{ run: ": 'a b'" }, { run: 'echo "$_"', out: 'a b\n' }],
  'wait for a job that was started before an exit': [
    { run: 'sleep 60 & p=$!' },
    { run: 'exit 3', code: 3 },
    { run: 'kill $p; wait $p', code: 143 },
  ],
  '$! after an exit': [{ run: 'sleep 60 & p=$!' }, { run: 'exit 3', code: 3 }, { run: '[ "$!" = $p ]' }],
  'break outside of a loop': [
    { run: 'break; echo on', out: 'on\n', err: /only meaningful in a/ },
    { run: 'continue; echo on', out: 'on\n', err: /only meaningful in a/ },
  ],
  'a signal other than TERM and KILL that the shell sends to itself': [{ run: 'kill -HUP $$', code: 129 }],
  'a DEBUG trap at the end of the shell': [
    { run: "trap 'echo D' DEBUG", out: '' },
    { run: 'exit 3', out: 'D\n', code: 3 },
  ],
  'a DEBUG trap that fails, with extdebug': [
    { run: "shopt -s extdebug; trap 'false' DEBUG" },
    { run: 'echo skipped' },
  ],
  'a DEBUG trap in a trace': [
    { run: "trap 'echo D' DEBUG; set -x", out: 'D\n' },
    { run: ':', out: 'D\n', err: '++ echo D\n+ :\n' },
  ],
  '$? brought back while input is echoed': [
    { run: 'set -v' },
    { run: 'false', code: 1, err: 'false\n' },
    { run: 'echo $?', out: '1\n', err: 'echo $?\n' },
  ],
  'the value of POSIXLY_CORRECT over exit': [
    { run: 'POSIXLY_CORRECT=1' },
    { run: 'exit 3', code: 3 },
    { run: 'echo $POSIXLY_CORRECT', out: '1\n' },
  ],
  'a traced function and an exit in a function': [
    { run: "f() { :; }; declare -ft f; trap 'echo R' RETURN; die() { exit 3; }" },
    { run: 'die', out: '', code: 3 },
    { run: 'die', out: '', code: 3 },
    { run: 'die', out: '', code: 3 },
  ],
  'a directory of its own for a command of a session whose directory has gone': [
    { run: 'mkdir gone; cd gone; rmdir ../gone' },
    { run: 'pwd', options: { cwd: '/usr' }, out: '/usr\n' },
    { run: 'cd ..; pwd', out: '<dir>\n' },
  ],
})
