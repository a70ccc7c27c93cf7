/**
 * Whether `bash` notices that a program waits for input, and reports nothing else: real programs, most of them in a terminal.
 * What they print makes no difference. steps.mjs names the Debian packages that it needs.
 */
import { execFileSync } from 'node:child_process'
import { constants, copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import path from 'node:path'
import { createTools, type ToolData } from '@nacre/tools'
import type { SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { bun } from '../../../__test__/helpers/consumer.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { until } from '../../../__test__/helpers/until.js'

/** Commands in a terminal that end up waiting for input. */
const IN_A_TERMINAL = [
  // Shells.
  `bash -c 'read -r line'`,
  `bash -c 'read -rp "Name? " line'`,
  `bash -c 'read -rs line'`,
  `bash -c 'read -rn 1 key'`,
  `bash -c 'read -rt 600 line'`,
  `bash -c 'select word in one two; do break; done'`,
  `bash -c 'sleep 600 & read -r line'`,
  'bash --norc -i',
  `dash -c 'read line'`,
  'dash -i',
  // Interpreters.
  `python3 -c 'input("Name? ")'`,
  'python3 -q',
  `python3 -c 'import getpass; getpass.getpass()'`,
  'python3 -m pdb ask.py',
  `python3 -c 'import sys; sys.stdin.read()'`,
  'node',
  `node -e 'require("readline").createInterface(process.stdin, process.stdout).question("Name? ", () => {})'`,
  `node -e 'process.stdin.resume()'`,
  `./bun -e 'prompt("Name?")'`,
  `./bun -e 'for await (const line of console);'`,
  `perl -e '<STDIN>'`,
  './ask read',
  './ask poll',
  './ask select',
  'gdb -q -nx',
  'sqlite3',
  'bc -q',
  // Editors and pagers.
  'vim -u NONE a.txt',
  'ex -u NONE a.txt',
  'ed a.txt',
  'less long.txt',
  'more long.txt',
  'GIT_PAGER=less git log',
  'top',
  // Filters.
  'cat',
  'sort',
  'head -n 1',
  'tee out.txt',
  `awk '{ print }'`,
  'sed -n 1p',
  // Questions.
  'rm -i a.txt',
  'cp -i a.txt b.txt',
  'mv -i a.txt b.txt',
  'unzip a.zip',
  'patch -i no-file.patch',
  'git add -p',
  `GIT_EDITOR='vim -u NONE' git -C empty commit --allow-empty`,
  'git clean -i',
  'npm init',
  'npm run ask',
  'make -f ask.mk question',
  // Passwords.
  'ssh-keygen -t ed25519 -f new-key',
  'ssh-keygen -y -f locked-key',
  'ssh-agent ssh-add locked-key',
  'openssl enc -aes-256-cbc -pbkdf2 -in a.txt -out out.enc',
  'openssl passwd -6',
  // A relay with a terminal of its own.
  `script -qc 'bash -c "read -r line"' /dev/null`,
]

/** Commands that read the pipe which is their standard input. */
const FROM_A_PIPE = [
  'cat',
  'sort',
  '(true; cat) | cat',
  `bash -c 'while read -r line; do :; done'`,
  `python3 -c 'input()'`,
  `node -e 'process.stdin.resume()'`,
  `./bun -e 'for await (const line of console);'`,
  `awk '{ print }'`,
]

const KEYS_AND_SOCKET = `import select, socket, sys; s = socket.create_server(("127.0.0.1", 0));`

/** Commands that wait for input and for something else. The last that they do before is to print a prompt. */
const FOR_MORE = [
  `node -e 'process.stdin.resume(); require("net").createServer().listen(0, "127.0.0.1", () => process.stdout.write("> "))'`,
  `node -e 'process.stdin.resume(); setInterval(() => {}, 50); process.stdout.write("> ")'`,
  `./bun -e 'process.stdin.resume(); Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } }); process.stdout.write("> ")'`,
  `python3 -c '${KEYS_AND_SOCKET} print(end="> ", flush=True); select.select([s, sys.stdin], [], [])'`,
  `python3 -c '${KEYS_AND_SOCKET} e = select.epoll(); e.register(s, 1); e.register(0, 1); print(end="> ", flush=True); e.poll()'`,
]

/**
 * Commands that work, or wait for something else than input. `$PORT` is a host that never replies. The second words begin the
 * command line of the program that does so, unless it is the shell itself.
 */
const NOT_FOR_INPUT: [command: string, program?: string][] = [
  ['sleep 600', 'sleep 600'],
  ['echo "Password: "; sleep 600', 'sleep 600'],
  ['printf "Continue? [y/N] "; sleep 600', 'sleep 600'],
  ['while :; do :; done'],
  ['while sleep 0.2; do printf "\\r$RANDOM %%"; done', 'sleep 0.2'],
  ['sleep 600 & wait', 'sleep 600'],
  ['timeout 600 sleep 600', 'sleep 600'],
  ['coproc sleep 600; wait', 'sleep 600'],
  // It may be stopped before it becomes another program.
  [`bash -c 'sleep 600 & kill -STOP $!; wait'`, 'bash -c'],
  [`bash -c 'set -m; (sleep 600; cat) & wait'`, 'sleep 600'],
  ['sleep 600 | cat', 'cat'],
  ['sleep 600 | less', 'less'],
  ['sleep 600 | while read -r line; do :; done', 'sleep 600'],
  ['exec < <(sleep 600); cat', 'cat'],
  ['cat fifo', 'cat fifo'],
  ['exec 3<>other-fifo; read -ru 3 line'],
  ['flock lock sleep 600 & sleep 1; flock lock true', 'flock lock true'],
  ['tail -f long.txt', 'tail -f'],
  ['tail -f /dev/null', 'tail -f'],
  ['sha256sum /dev/zero', 'sha256sum'],
  [`python3 -c 'import time; time.sleep(600)'`, 'python3 -c'],
  ['python3 -m http.server 0 --bind 127.0.0.1', 'python3 -m'],
  [`node -e 'setTimeout(() => {}, 6e5)'`, 'node -e'],
  [`node -e 'require("http").createServer().listen(0, "127.0.0.1")'`, 'node -e'],
  [`perl -e 'sleep 600'`, 'perl -e'],
  ['curl -sS http://127.0.0.1:$PORT/', 'curl -sS'],
  ['git clone -q git://127.0.0.1:$PORT/none clone', 'git clone'],
  ['ssh -p $PORT 127.0.0.1', 'ssh -p'],
  ['while :; do cc -o busy ask.c; done', 'cc -o busy'],
  ['make -f ask.mk sleep', 'sleep 600'],
  ['npm run sleep', 'sleep 600'],
  [`script -qc 'sleep 600' /dev/null`, 'sleep 600'],
]

const ENV = {
  ...{ GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@example.org' },
  ...{ GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@example.org' },
  // npm would look for a newer version, and wait for that too.
  npm_config_update_notifier: 'false',
}

/** Waits for input in the ways of C programs. */
const ASK = `
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>
int main(int count, char **words) {
  char byte;
  struct pollfd entry = {0, POLLIN, 0};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(0, &set);
  if (count > 1 && !strcmp(words[1], "poll")) poll(&entry, 1, -1);
  if (count > 1 && !strcmp(words[1], "select")) select(1, &set, 0, 0, 0);
  return read(0, &byte, 1);
}
`

/** What the commands need in their directory. */
function prepare(directory: string, env: Record<string, string>): void {
  const write = (name: string, text: string) => writeFileSync(path.join(directory, name), text)
  const run = (program: string, ...args: string[]) =>
    execFileSync(program, args, { cwd: directory, env: { ...process.env, ...env }, stdio: 'ignore' })
  // With isolation, /tmp is private: the repository may lie there.
  copyFileSync(bun, path.join(directory, 'bun'), constants.COPYFILE_FICLONE)
  write('ask.c', ASK)
  write('ask.py', 'input()\n')
  write('ask.mk', `question:\n\t@bash -c 'read -r line'\nsleep:\n\t@sleep 600\n`)
  write('package.json', '{ "scripts": { "ask": "bash -c \'read -r line\'", "sleep": "sleep 600" } }')
  write('a.txt', 'one\n')
  write('b.txt', 'two\n')
  write('long.txt', 'line\n'.repeat(1000))
  write('no-file.patch', '--- a/none\n+++ b/none\n@@ -1 +1 @@\n-one\n+two\n')
  run('cc', '-o', 'ask', 'ask.c')
  run('mkfifo', 'fifo', 'other-fifo')
  run('python3', '-m', 'zipfile', '-c', 'a.zip', 'a.txt')
  run('ssh-keygen', '-q', '-t', 'ed25519', '-N', 'secret', '-f', 'locked-key')
  run('git', 'init', '-q')
  // The index of a repository is locked while the editor is open.
  run('git', 'init', '-q', 'empty')
  run('git', 'add', 'a.txt', 'long.txt')
  for (let count = 0; count < 60; count++)
    run('git', 'commit', '-q', '--allow-empty', '-m', `commit ${count}`)
  write('long.txt', 'other\n'.repeat(10))
}

interface Case {
  command: string
  stdin: boolean
  /** What the command line of the program begins with that the command ends up in. */
  program?: string | undefined
}

const inATerminal = (command: string): Case => ({ command, stdin: false })
const fromAPipe = (command: string): Case => ({ command, stdin: true })

/** Calls a tool. Resolves with what the reply says of the run. */
type Call = (name: string, input: object) => Promise<ToolData>
/** Looks at a command after the first reply of `bash`. Resolves with its last state. */
type Look = (call: Call, first: ToolData, item: Case, tag: string) => Promise<ToolData['status']>

/** Milliseconds in which a program must begin, and be seen. */
const LIMIT = 60_000
/** Seconds in which a program is looked at once it runs. */
const OBSERVED = 4

const stateAtOnce: Look = async (_, { status }) => status

/** Looks for some seconds after the program was seen, so that a slow start hides nothing. */
const stateOnceItRuns: Look = async (call, { id, status }, { command, program }, tag) => {
  const isMine = ({ pid, state }: proc.ProcessEntry) =>
    state !== 'Z' &&
    proc
      .commandLine(pid)
      .replace(/^\S*\//, '')
      .startsWith(program ?? '') &&
    proc.carries(tag, pid)
  await until(
    () => program === undefined || proc.listProcesses().some(isMine) || undefined,
    () => `${program} does not run: ${command}`,
    LIMIT,
  )
  return status === 'running' ? (await call('wait', { id, seconds: OBSERVED })).status : status
}

/** Looks until there is more to say than that it runs. */
const stateThatIsFound: Look = async (call, { id, status }) =>
  until(
    async () => {
      if (status === 'running') ({ status } = await call('wait', { id, seconds: 1 }))
      return status === 'running' ? undefined : status
    },
    () => `${id} only runs`,
    LIMIT,
  )

/** Runs each command in a session of its own, some at once. Returns their states. */
async function statesOf(
  cases: Case[],
  isolation: SandboxOptions['isolation'],
  yieldAfter: number,
  look: Look = stateAtOnce,
): Promise<Map<Case, ToolData['status']>> {
  const states = new Map<Case, ToolData['status']>()
  const silent = createServer()
  const sockets = new Set<Socket>()
  silent.on('connection', (socket) => sockets.add(socket.on('error', () => {}).resume()))
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
  try {
    await withSandbox(
      async ({ sandbox, directory }) => {
        const home = path.join(directory, 'home')
        mkdirSync(home)
        const { port } = silent.address() as AddressInfo
        const env = { ...ENV, HOME: home, PORT: `${port}` }
        prepare(directory, env)
        await using tools = createTools(sandbox, { timeout: 300_000 })
        const call: Call = async (name, input) => (await tools.call(name, input)).data
        const waiting = cases.entries()
        const worker = async () => {
          for (const [index, item] of waiting) {
            const session = `case-${index}`
            const tag = `waiting-${process.pid}-${index}.`
            await call('sessions', { open: session })
            const exports = Object.entries({ ...env, NACRE_CASE: tag }).map(
              ([name, value]) => `${name}='${value}'`,
            )
            await call('bash', { session, command: `export ${exports.join(' ')}` })
            const first = await call('bash', {
              ...{ session, command: item.command, yield_after: yieldAfter },
              ...(item.stdin ? { stdin: '' } : { pty: true }),
            })
            const state = await look(call, first, item, tag)
            states.set(item, state)
            if (state !== 'ended') await call('kill', { id: first.id, signal: 'SIGKILL' })
            await call('sessions', { end: session })
          }
        }
        await Promise.all(Array.from({ length: 6 }, worker))
      },
      { options: { isolation } },
    )
  } finally {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => silent.close(resolve))
  }
  return states
}

/** The commands that are not in one of the states, with their own. */
function others(states: Map<Case, ToolData['status']>, ...expected: ToolData['status'][]): string[] {
  return [...states].flatMap(([{ command }, state]) =>
    expected.includes(state) ? [] : [`${state}: ${command}`],
  )
}

const PLACES = [
  { place: 'without isolation', isolation: undefined },
  { place: 'with isolation', isolation: 'workspace+network' },
] as const

describe.each(PLACES)('bash $place', ({ isolation }) => {
  it('notices that a program waits for input', async () => {
    const cases = [...IN_A_TERMINAL.map(inATerminal), ...FROM_A_PIPE.map(fromAPipe)]
    expect(others(await statesOf(cases, isolation, 40), 'reading')).toEqual([])
  }, 600_000)

  it('reports no program that does something else', async () => {
    const cases = NOT_FOR_INPUT.map(([command, program]) => ({ ...inATerminal(command), program }))
    expect(others(await statesOf(cases, isolation, 1, stateOnceItRuns), 'running')).toEqual([])
  }, 600_000)

  it('is not sure of a program that waits for something else too', async () => {
    const states = await statesOf(FOR_MORE.map(inATerminal), isolation, 1, stateThatIsFound)
    expect(others(states, 'listening')).toEqual([])
  }, 600_000)
})
