/** The plain engine: what one command leaves to the next, although each runs in a separate bash. */
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { conforms, type Step } from '../helpers/conformance.js'
import { enter, plain } from '../helpers/modes.js'

/** Commands between the two steps of a case, none of which may change what is kept. */
const between: Record<string, Step> = {
  'a command': { run: 'echo between', out: 'between\n' },
  'an exit': { run: 'exit 3', code: 3 },
  'an exit in functions': { run: 'g() { exit 4; }; h() { local list=inner; g; }; h', code: 4 },
  'an expansion that fails': {
    run: 'echo ${missing:?}',
    code: 127,
    err: /missing: parameter null or not set/,
  },
  'a syntax error': { run: 'fi', code: 2, err: /syntax error/ },
  'a signal that ends the shell': { run: 'kill $$', code: 143 },
  'an exec': { run: 'exec true', restarted: true },
  'a shell that is killed': { run: 'kill -9 $$', code: 137, restarted: true },
}

/** For each thing that `restored` names: how to set it, how to see it, and what is seen. */
const restored: Record<string, [set: string, see: string, seen: string]> = {
  variables: [
    "plain='it'\\''s'; lines=$'a\\nb'; empty=",
    'echo "$plain$lines[${empty-unset}]"',
    "it'sa\nb[]\n",
  ],
  arrays: [
    "list=([2]=two [5]='f i v e'); declare -A map=(['a b']=c)",
    'declare -p list map',
    'declare -a list=([2]="two" [5]="f i v e")\ndeclare -A map=(["a b"]="c" )\n',
  ],
  attributes: [
    'declare -i number=7; declare -r fixed=1; declare -u upper=a; target=1; declare -n reference=target',
    'number=number+1; upper=b; reference=2; echo $number $upper $target; (fixed=2) 2>/dev/null || echo fixed',
    '8 B 2\nfixed\n',
  ],
  environment: ['export shown=1; unset HOME', 'printenv shown; printenv HOME || echo none', '1\nnone\n'],
  functions: [
    'f() { local x=$1; cat <<<"f $x"; }; e() { echo e; }; export -f e',
    'f 1; bash -c e',
    'f 1\ne\n',
  ],
  aliases: ["shopt -s expand_aliases; alias hey='echo hey' if='if'", 'hey you', 'hey you\n'],
  options: ['set -o pipefail -o noglob', 'echo *; false | true || echo failed', '*\nfailed\n'],
  shopt: ['shopt -s extglob nullglob', 'echo no-such-@(a|b)*; shopt -q nullglob && echo on', '\non\n'],
  traps: ["trap 'echo usr1' USR1; trap '' USR2", 'kill -USR1 $$; kill -USR2 $$; echo alive', 'usr1\nalive\n'],
  cwd: ['mkdir sub; cd sub', 'pwd; cd - >/dev/null; pwd', '<dir>/sub\n<dir>\n'],
  directoryStack: ['pushd / >/dev/null; pushd /usr >/dev/null', 'dirs -l -p', '/usr\n/\n<dir>\n'],
  umask: ['umask 027', 'umask', '0027\n'],
  hashes: ['hash -p /bin/echo remembered', 'remembered yes; hash -t remembered', 'yes\n/bin/echo\n'],
  completions: ["complete -W 'a b' mine", 'complete -p mine', "complete -W 'a b' mine\n"],
  arguments: ["set -- one 'two three'", 'printf "<%s>" "$#" "$@"', '<2><one><two three>'],
}

const keeping = Object.entries(restored).flatMap(([name, [set, see, out]]) =>
  Object.entries(between).map(([what, step]): [string, Step[]] => [
    `${name} outlive ${what}`,
    [{ run: set }, step, { run: see, out }],
  ]),
)

conforms('the plain engine keeps state', Object.fromEntries(keeping), plain.slice(0, 1))

conforms(
  'the plain engine keeps the status',
  {
    'status of a failed command': [
      { run: '(exit 7)', code: 7 },
      { run: 'echo $?', out: '7\n' },
    ],
    'status of an exit': [
      { run: 'exit 8', code: 8 },
      { run: 'echo $?', out: '8\n' },
    ],
    'a status under errexit does not end the next command': [
      { run: 'set -e; false', code: 1 },
      { run: 'echo $?', out: '1\n' },
    ],
  },
  plain.slice(0, 1),
)

it('names as restored exactly what these tables show', async () => {
  const leave = enter(plain[0] ?? { name: '', env: {} })
  const sandbox = new Sandbox()
  leave()
  const found = await sandbox.capabilities()
  expect(found.engine).toBe('plain')
  expect(found.restored.toSorted()).toEqual([...Object.keys(restored), 'status'].toSorted())
  await sandbox.destroy()
})

it('names more as restored where the builtin is used', async () => {
  const sandbox = new Sandbox()
  const found = await sandbox.capabilities()
  expect(found.engine).toBe('builtin')
  expect(found.restored).toEqual(expect.arrayContaining([...Object.keys(restored), 'jobs', 'descriptors']))
  await sandbox.destroy()
})

conforms(
  'the plain engine ends a shell as bash does',
  {
    'an EXIT trap runs once, at the end, and sees the status': [
      { run: "trap 'echo bye $?' EXIT" },
      { run: 'echo on', out: 'on\n' },
      { run: 'x=1; exit 5', code: 5, out: 'bye 5\n' },
      { run: 'echo $x; g() { exit 6; }; g', code: 6, out: '1\nbye 6\n' },
      { run: 'trap - EXIT' },
      { run: 'exit 7', code: 7 },
    ],
    'an EXIT trap may choose the status': [
      { run: "trap 'exit 9' EXIT" },
      { run: 'x=1; exit 3', code: 9 },
      { run: 'echo $x', out: '1\n' },
    ],
    'an EXIT trap set by the command that exits runs, and the rest of that command is lost': [
      { run: "x=2; trap 'echo bye' EXIT; exit 4", code: 4, out: 'bye\n', restarted: true },
      { run: 'echo [$x]', out: '[]\n' },
    ],
    'local variables of functions that exit are not kept': [
      { run: 'v=1; a=(x y)' },
      {
        run: 'f() { local v=2 PATH=/none only=3; new=4; g; }; g() { local -r a=inner; exit 5; }; f',
        code: 5,
      },
      { run: 'echo $v ${a[1]} [$only] $new; ls', out: '1 y [] 4\n' },
    ],
    'errexit and nounset': [
      { run: 'set -e; x=1; false; echo no', code: 1 },
      {
        run: 'set +e; set -u; echo $x; echo $nothing',
        code: 127,
        out: '1\n',
        err: /nothing: unbound variable/,
      },
      { run: 'set +u; echo "[$nothing]"', out: '[]\n' },
    ],
    'ERR and DEBUG traps fire for commands of the user alone': [
      { run: "trap 'echo err $?' ERR" },
      { run: '(exit 5); (exit 6)', code: 6, out: 'err 5\nerr 6\n' },
      { run: "trap - ERR; trap 'echo d' DEBUG" },
      { run: 'echo a; echo b', out: 'd\na\nd\nb\n' },
      { run: 'trap - DEBUG', out: 'd\n' },
    ],
    'line numbers begin at 1': [
      {
        run: '\necho $LINENO; nope',
        out: '2\n',
        code: 127,
        err: 'bash: line 2: nope: command not found\n',
      },
      { run: 'echo a\nfi', out: 'a\n', code: 2, err: /line 2: syntax error/ },
    ],
  },
  plain,
)

conforms(
  'a scope in the plain engine',
  {
    'variables and directory of one command': [
      { run: 'declare -i V=1; mkdir sub' },
      { run: 'pwd; printenv V', options: { cwd: 'sub', env: { V: 'x' } }, out: '<dir>/sub\nx\n' },
      { run: 'exit 3', options: { cwd: '/', env: { V: 'x', W: 'y' } }, code: 3 },
      { run: 'pwd; V=V+1; echo $V [$W]', out: '<dir>\n2 []\n' },
    ],
    'a read-only variable and a directory that is not there are refused': [
      { run: 'readonly R=1' },
      { run: 'echo no', options: { env: { R: '2' } }, rejects: 'INVALID_ENV_NAME' },
      { run: 'echo no', options: { cwd: 'nowhere' }, rejects: 'CWD_NOT_FOUND' },
      { run: 'echo $R', out: '1\n' },
    ],
    'words are neither expanded nor functions or aliases': [
      { run: 'echo() { :; }; shopt -s expand_aliases; alias printf=false' },
      { run: ['echo', '$HOME', "it's *"], out: "$HOME it's *\n" },
      { run: ['printf', '%s'] },
      { run: ['no such program'], code: 127, err: 'bash: line 1: no such program: command not found\n' },
    ],
    'standard input': [
      { run: 'cat', options: { input: 'text' }, out: 'text' },
      { run: 'read -r x; echo "$x"; cat', options: { input: 'a b\nc\n' }, out: 'a b\nc\n' },
      { run: 'cat' },
      { run: 'wc -c', options: { input: new Uint8Array(300_000) }, out: '300000\n' },
    ],
  },
  plain,
)
