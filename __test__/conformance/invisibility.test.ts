import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { conforms, environment, inChosenModes } from '../helpers/conformance.js'

/** Questions about the shell whose answers must be those of a bash without an engine. */
const questions = [
  'compgen -v | grep -vE "^(NACRE_TEST_TAG|BASH_EXECUTION_STRING|COLUMNS|LINES|PIPESTATUS)$" | sort',
  'compgen -e | grep -v NACRE_TEST_TAG | sort',
  'compgen -A function',
  'declare -F',
  'declare -f',
  'alias -p',
  'trap -p',
  'trap',
  '(trap -p)',
  'echo "[$(trap -p)]"',
  'trap -p EXIT; trap -p TERM; trap -p DEBUG; trap -p ERR',
  'jobs; jobs -l; jobs -p',
  'history',
  'complete -p | wc -l',
  'hash 2>&1',
  'enable -p | sort; enable -n',
  'set -o',
  'shopt -p',
  'shopt -po',
  // The mark of a session's processes is a limit that Linux does not use.
  'ulimit -a | grep -v "file locks"',
  'ulimit -Ha',
  'umask',
  'echo "$#" "$@"',
  'echo "$SHLVL $BASH_SUBSHELL ${#FUNCNAME[@]} ${#BASH_SOURCE[@]}"',
  'echo "${IFS@Q} ${PS4@Q} ${OPTIND} ${OPTERR} ${OLDPWD-none}"',
  'echo "${!BASH_*}" | tr " " "\\n" | grep -v BASH_EXECUTION_STRING',
  'dirs -p | wc -l',
  'wait; echo $?; wait -n; echo $?',
  'printf "%s\\n" "${BASH_ARGV[@]}" "${BASH_ARGC[@]}" "$BASH_COMMAND"',
  'grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status',
  'bash -c "grep -E ^SigIgn /proc/\\$\\$/status; trap -p; ulimit -Sn"',
  'env | grep -vE "^(NACRE_TEST_TAG|PWD|OLDPWD)=" | sort',
  'bash -c env | grep -vE "^(NACRE_TEST_TAG|PWD|OLDPWD)=" | sort',
  // Not `cat /proc/self/oom_score_adj`: what commands start ends before the shell when memory runs out.
  'nice',
]

/** What bash answers when it reads the question from a script of its own. */
function ask(question: string): string {
  const options = { env: { ...environment }, input: `${question}\n`, encoding: 'utf8' as const }
  return spawnSync(process.env.NACRE_TEST_BASH ?? 'bash', ['--norc', '--noprofile', '-s'], {
    ...options,
    cwd: '/',
  }).stdout
}

inChosenModes('a session looks like any bash', (stage) => {
  for (const question of questions) {
    it(`${question}`, () =>
      stage(undefined, async ({ session }) => {
        const expected = ask(question)
        expect((await session.exec(question)).stdout).toBe(expected)
        expect((await session.exec('exit 3')).exitCode).toBe(3)
        expect((await session.exec(question)).stdout).toBe(expected)
        expect((await session.exec('kill -9 $$')).exitCode).toBe(137)
        expect((await session.exec(question)).stdout).toBe(expected)
      }))
  }
})

conforms('the engine does not show', {
  'in the variables': [
    { run: 'set | grep -ic nacre_ ; declare -p | grep -ic __nacre', out: '1\n0\n', code: 1 },
    { run: 'exit 3', code: 3 },
    {
      run: 'set | grep -c __; declare -p | grep -c nacre__; echo "[$BASH_EXECUTION_STRING]"',
      out: /^\d+\n0\n\[\]\n$/,
    },
  ],
  'in the descriptors of a child': [
    { run: 'ls /proc/self/fd', out: '0\n1\n2\n3\n' },
    {
      run: "bash -c 'echo /proc/self/fd/*'",
      out: '/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n',
    },
    { run: '(ls /proc/self/fd) | cat', out: '0\n1\n2\n3\n' },
    { run: 'ls /proc/self/fd & wait', out: '0\n1\n2\n3\n' },
    { run: 'exit 3', code: 3 },
    { run: 'ls /proc/self/fd', out: '0\n1\n2\n3\n' },
  ],
  'in the low descriptors of the shell': [
    { run: 'for fd in /proc/$$/fd/?; do echo ${fd##*/}; done', out: '0\n1\n2\n3\n' },
    { run: 'exec {a}</dev/null {b}</dev/null 3</dev/null; echo on', out: 'on\n' },
    { run: 'for fd in /proc/$$/fd/?; do echo ${fd##*/}; done', out: '0\n1\n2\n3\n4\n' },
  ],
  'among the children of the shell': [
    { run: 'read -ra c </proc/$$/task/$$/children; echo ${#c[@]}', out: '0\n' },
    { run: 'x=1' },
    { run: 'read -ra c </proc/$$/task/$$/children; echo ${#c[@]}', out: '0\n' },
  ],
  'in traps, asked in a function, an alias and a file': [
    { run: 'echo "trap -p" >file; . ./file; eval "tr""ap -p"' },
    { run: "trap 'echo u' USR1; . ./file", out: "trap -- 'echo u' SIGUSR1\n" },
    { run: "trap 'echo t' TERM; trap -p", out: "trap -- 'echo u' SIGUSR1\ntrap -- 'echo t' SIGTERM\n" },
    { run: 'trap - TERM USR1; trap -p; trap -p TERM' },
    { run: 'kill $$', code: 143 },
    { run: 'trap -p' },
  ],
  'in signals of children': [
    { run: 'yes | head -n 1', out: 'y\n' },
    {
      run: "bash -c 'kill -TERM $$'; echo $?",
      out: '143\n',
      err: /^(.*Terminated.*\n)?$/,
    },
    { run: 'bash -c \'trap "echo int" INT; kill -INT $$\'', out: 'int\n' },
  ],
  'in the history': [
    { run: 'set -o history; echo a', out: 'a\n' },
    { run: 'echo b', out: 'b\n' },
    { run: 'history | grep -c buil[t]in', out: '0\n', code: 1 },
  ],
  'in the messages of errors': [
    { run: 'nope', code: 127, err: 'bash: line 1: nope: command not found\n' },
    { run: '\n\nnope', code: 127, err: 'bash: line 3: nope: command not found\n' },
    {
      run: 'f() {\n  nope\n}\nf',
      code: 127,
      err: /^(bash|environment): line 2: nope: command not found\n$/,
    },
    { run: 'f', code: 127, err: /^(bash|environment): line \d: nope: command not found\n$/ },
    { run: 'echo nope >file; . ./file', code: 127, err: './file: line 1: nope: command not found\n' },
    { run: 'cd /no/such', code: 1, err: 'bash: line 1: cd: /no/such: No such file or directory\n' },
    { run: '/etc/passwd', code: 126, err: 'bash: line 1: /etc/passwd: Permission denied\n' },
    { run: '/usr', code: 126, err: 'bash: line 1: /usr: Is a directory\n' },
    {
      run: 'printf "#!/no/such\\n" >s; chmod +x s; ./s; [[ $? == 12[67] ]]',
      err: /bad interpreter|cannot execute/,
    },
  ],
})
