/** No guess about what a command changes decides which state a background process starts from. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import { withRandom } from '../helpers/random.js'

/** Each sets `version` to its first argument in a way that the text of the command does not show. */
const ways: [string, (value: string) => string][] = [
  ['a function', (value) => `use ${value}`],
  ['an alias', (value) => `ali ${value}`],
  ['eval', (value) => `eval "version=${value}"`],
  ['a sourced file', (value) => `echo version=${value} >file; . ./file`],
  ['read', (value) => `read version <<<${value}`],
  ['an expansion', (value) => `unset version; : "\${version:=${value}}"`],
  ['arithmetic', (value) => `echo $((version = ${value}))`],
  ['printf -v', (value) => `printf -v version %s ${value}`],
  ['a DEBUG trap', (value) => `next=${value}; trap 'version=$next' DEBUG; true; trap - DEBUG`],
  ['a trap of a signal', (value) => `trap 'version=${value}' USR1; kill -USR1 $$`],
  ['a function with the name of a program', (value) => `ls ${value}`],
  [
    'a last pipeline element in the shell',
    (value) => `set +m; shopt -s lastpipe; echo ${value} | read version`,
  ],
  ['exit in a function', (value) => `leave ${value}`],
]

itInEveryMode('a process starts from the state after the last command', async ({ sandbox }) => {
  await sandbox.exec(
    `shopt -s expand_aliases; use() { version=$1; }; ls() { version=$1; }; leave() { version=$1; exit 3; }
     alias ali='use'`,
  )
  let value = 0
  for (const [name, command] of ways) {
    for (const wait of [0, 0, 1, 3, 10]) {
      value++
      await sandbox.exec(command(String(value)))
      if (wait > 0) await sleep(wait)
      const idle = await sandbox.startProcess('echo $version')
      await idle.waitForExit()
      expect([name, (await idle.getLogs()).stdout]).toEqual([name, `${value}\n`])
      // While a command runs it is the state before that command.
      const next = `${value + 1000}`
      let started = () => {}
      const isStarted = new Promise<void>((resolve) => {
        started = resolve
      })
      const running = sandbox.exec(`version=${next}; cat >/dev/null`, { input: endsAfter(isStarted) })
      const beside = await sandbox.startProcess('echo $version').finally(started)
      await beside.waitForExit()
      expect([name, (await beside.getLogs()).stdout]).toEqual([name, `${value}\n`])
      await running
      const after = await sandbox.startProcess('echo $version')
      await after.waitForExit()
      expect([name, (await after.getLogs()).stdout]).toEqual([name, `${next}\n`])
    }
  }
})

itInEveryMode('processes started while standbys replace one another all start', ({ sandbox }) =>
  withRandom(async (random) => {
    for (let round = 0; round < 60; round++) {
      const commands = [
        sandbox.exec(`sleep 0.00${round % 10}; x=$RANDOM`),
        sandbox.exec('x=$RANDOM; sleep 0.001'),
        sandbox.exec('y=$x'),
      ]
      await sleep(random.next() * 6)
      const started = await Promise.all(Array.from({ length: 4 }, () => sandbox.startProcess('true')))
      await Promise.all([...commands, ...started.map((process) => process.waitForExit())])
    }
  }),
)

itInEveryMode('the last command of a process is the process', async ({ sandbox }) => {
  const process = await sandbox.startProcess(
    `:; exec 2>&1 && bash -c 'trap "exit 5" TERM; echo $$; while :; do sleep 0.01; done'`,
  )
  const { line } = await process.waitForLog(/^[0-9]+/)
  expect(Number(line)).toBe(process.pid)
  await process.kill()
  expect(process).toMatchObject({ exitCode: 5, signal: null })
})

/** Standard input that stays open until then. */
async function* endsAfter(event: Promise<void>): AsyncGenerator<string> {
  await event
  yield ''
}
