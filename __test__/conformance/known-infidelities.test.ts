import { differs } from '../helpers/conformance'

/** What one bash would do. Each of these is known to come out differently; the table is to get shorter. */
differs([
  {
    name: 'row 24: a variable that is local to a calling function',
    reason: 'bash shows a function the locals of its callers, but not which variables those are',
    steps: [
      { run: 'x=1; f() { local x=2; g; }; g() { exit 3; }; f', code: 3 },
      { run: 'echo $x', out: '1\n' },
    ],
  },
  {
    name: 'row 26: an EXIT trap set by the very command that exits',
    reason: "it takes the place of the engine's, so the state is that of the command before",
    steps: [
      { run: 'x=1' },
      { run: "trap 'echo bye $x' EXIT; x=2; exit 4", out: 'bye 2\n', code: 4 },
      { run: 'echo $x', out: '2\n' },
    ],
  },
  {
    name: 'row 26: a trap for TERM removed by the very command that is killed',
    reason: 'what the engine has to trap in its place is set after the command',
    steps: [
      { run: "trap '' TERM" },
      { run: 'x=2; trap - TERM; kill $$', code: 143 },
      { run: 'echo $x', out: '2\n' },
    ],
  },
  {
    name: 'row 26: a function called builtin',
    reason: 'the engine has no other way to name a builtin; the command that defines it is undone',
    steps: [{ run: 'builtin() { echo mine; }; x=1' }, { run: 'echo $x; builtin', out: '1\nmine\n' }],
  },
  {
    name: 'row 26: a builtin of the engine that is disabled',
    reason: 'the engine has no printf of its own; the command that disables it is undone',
    steps: [{ run: 'enable -n printf; x=1' }, { run: 'echo $x', out: '1\n' }],
  },
  {
    name: 'row 26: a DEBUG trap that fails, with extdebug',
    reason: "it skips the engine's commands as it skips the user's, so the report of that command is lost",
    steps: [{ run: "shopt -s extdebug; trap 'false' DEBUG" }, { run: 'echo skipped', code: 1 }],
  },
  {
    name: 'row 25: a copy of standard output used by a later command',
    reason: 'each command has a standard output of its own, and that of the earlier command has ended',
    steps: [
      { run: 'exec 3>&1; echo a >&3', out: 'a\n' },
      { run: 'echo b >&3', out: 'b\n' },
    ],
  },
  {
    name: 'row 25: descriptors from 10 on',
    reason: 'that is where bash keeps the output of the shell while a command has its own',
    only: 'text',
    steps: [
      { run: 'exec 10>ten {fd}>next; echo $fd; echo a >&10', out: '11\n' },
      { run: 'echo b >&10; cat ten', out: 'a\nb\n' },
    ],
  },
  {
    name: 'row 25: descriptor 50',
    reason: 'the builtin keeps the output of the shell there while a command has its own',
    only: 'builtin',
    steps: [{ run: 'exec 50>fifty; echo a >&50; cat fifty', out: 'a\n' }],
  },
  {
    name: 'row 25: no descriptor beside the first three',
    reason: 'the redirections of a command take more of them',
    only: 'text',
    steps: [
      { run: 'ulimit -Sn 3; echo a', out: 'a\n' },
      { run: 'echo b', out: 'b\n' },
    ],
  },
  {
    name: 'row 26: a trace that goes to a descriptor of its own',
    reason: "the engine's commands between the user's are traced too",
    steps: [
      { run: "exec 9>trace; BASH_XTRACEFD=9; PS4='@ '; set -x" },
      { run: 'echo a', out: 'a\n' },
      { run: 'set +x; cat trace', out: '@ echo a\n@ set +x\n' },
    ],
  },
  {
    name: 'row 26: the depth of a trace',
    reason: 'a command runs in an eval, which is one level',
    only: 'text',
    steps: [{ run: 'set -x' }, { run: 'echo a', out: 'a\n', err: '+ echo a\n' }],
  },
  {
    name: 'row 27: PIPESTATUS of the command before',
    reason: 'a command runs in an eval, which is a pipeline of its own',
    only: 'text',
    steps: [{ run: 'false | true' }, { run: 'echo "${PIPESTATUS[@]}"', out: '1 0\n' }],
  },
  {
    name: 'row 27: $_ after a command that is not plain words',
    reason: 'the eval sets it to its own last argument; only what can be read off the text is brought back',
    only: 'text',
    steps: [{ run: ": 'a b'" }, { run: 'echo "$_"', out: 'a b\n' }],
  },
  {
    name: 'row 27: wait for a job that was started before an exit',
    reason: 'jobs are known to a process image, and this one has been replaced; they run on',
    steps: [{ run: 'sleep 60 & p=$!' }, { run: 'exit 3', code: 3 }, { run: 'kill $p; wait $p', code: 143 }],
  },
  {
    name: 'row 27: $! after an exit',
    reason: 'nothing but starting a job sets it',
    steps: [{ run: 'sleep 60 & p=$!' }, { run: 'exit 3', code: 3 }, { run: '[ "$!" = $p ]' }],
  },
  {
    name: 'row 26: break outside of a loop',
    reason: "it finds the engine's loop, and ends it in silence",
    only: 'text',
    steps: [
      { run: 'break; echo on', out: 'on\n', err: /only meaningful in a/ },
      { run: 'continue; echo on', out: 'on\n', err: /only meaningful in a/ },
    ],
  },
  {
    name: 'row 24: a signal other than TERM and KILL that the shell sends to itself',
    reason: 'an EXIT trap does not see it, and trapping it would make freshly forked children lose it',
    steps: [{ run: 'kill -HUP $$', code: 129 }],
  },
  {
    name: 'row 26: a DEBUG trap at the end of the shell',
    reason: "it fires for the engine's EXIT trap too",
    steps: [
      { run: "trap 'echo D' DEBUG", out: '' },
      { run: 'exit 3', out: 'D\n', code: 3 },
    ],
  },
  {
    name: 'row 26: a DEBUG trap in a trace',
    reason: 'it is set for each command anew, and the trace shows it',
    steps: [
      { run: "trap 'echo D' DEBUG; set -x", out: 'D\n' },
      { run: ':', out: 'D\n', err: '++ echo D\n++ :\n' },
    ],
  },
  {
    name: 'row 26: $? brought back while input is echoed',
    reason: 'what brings it back is echoed too',
    only: 'text',
    steps: [
      { run: 'set -v' },
      { run: 'false', code: 1, err: 'false\n' },
      { run: 'echo $?', out: '1\n', err: 'echo $?\n' },
    ],
  },
  {
    name: 'row 24: the value of POSIXLY_CORRECT over exit',
    reason: 'bash takes it away when posix mode is turned off to save the state',
    steps: [
      { run: 'POSIXLY_CORRECT=1' },
      { run: 'exit 3', code: 3 },
      { run: 'echo $POSIXLY_CORRECT', out: '1\n' },
    ],
  },
  {
    name: 'row 24: a traced function and an exit in a function',
    reason: "the RETURN trap fires for the engine's own sourced text",
    steps: [
      { run: "f() { :; }; declare -ft f; trap 'echo R' RETURN; die() { exit 3; }" },
      { run: 'die', out: '', code: 3 },
      { run: 'die', out: '', code: 3 },
      { run: 'die', out: '', code: 3 },
    ],
  },
  {
    name: 'a directory of its own for a command of a session whose directory has gone',
    reason: 'nobody can go back to a directory that has no name any more',
    steps: [
      { run: 'mkdir gone; cd gone; rmdir ../gone' },
      { run: 'pwd', options: { cwd: '/usr' }, out: '/usr\n' },
      { run: 'cd ..; pwd', out: '<dir>\n' },
    ],
  },
])
