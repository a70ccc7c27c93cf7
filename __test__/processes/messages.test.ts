/** The channel of messages in every mode and under isolation, its limits, and what is left when one side is killed. */
import type { Process, SandboxOptions } from 'nacre'
import { expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { withSandbox } from '../helpers/invariants.js'
import { isRest, itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { rejectionsOf } from '../helpers/thrown.js'

/** Sends each message back, with what the program sees of its channel. */
const echo = `process.on('message', (message) => process.send({ message, variable: process.env.NODE_CHANNEL_FD ?? null }))`

async function expectEcho(process: Process): Promise<void> {
  const messages = process.messages()
  for (const message of [{ a: ['ü'] }, 'x'.repeat(500_000)]) {
    await process.send(message)
    expect((await messages.next()).value).toEqual({ message, variable: null })
  }
  await messages.return?.()
}

for (const mode of new Set([...modes, ...plain])) {
  it(`a program finds its channel behind open descriptors of the session, ${mode.name}`, () =>
    withSandboxIn(mode, async ({ sandbox }) => {
      await sandbox.exec(
        'exec 3</dev/null 5</dev/null 10</dev/null 11</dev/null; NODE_CHANNEL_FD=3; f() { node "$@"; }',
      )
      for (const command of [['node', '-e', echo], 'f -e "$ECHO"; exit 3', '(cd /; exec node -e "$ECHO")']) {
        const process = await sandbox.startProcess(command, { ipc: true, env: { ECHO: echo } })
        await expectEcho(process)
        await process.kill()
      }
      expect((await sandbox.exec('echo $NODE_CHANNEL_FD')).stdout).toBe('3\n')
      const own = await sandbox.startProcess('sleep 600; exit', { ipc: true })
      await sandbox.exec('kill -KILL $$ # the session goes on').catch(() => {})
      await own.kill()
    }))
}

const isolations: Record<string, SandboxOptions> = {
  'read-only': { isolation: 'read-only' },
  'a pid namespace, without a network': { isolation: { processes: 'own', network: 'none' } },
  'a limit of descriptors': { limits: { openFiles: 40 } },
}

for (const [name, options] of Object.entries(isolations))
  it(`a process has its channel under isolation: ${name}`, () =>
    withSandbox(
      async ({ sandbox }) => {
        const process = await sandbox.startProcess(['node', '-e', echo], { ipc: true })
        await expectEcho(process)
        await process.disconnect()
        expect(await process.waitForExit({ timeout: 30_000 })).toMatchObject({ exitCode: 0 })
      },
      { options },
    ))

itInSandbox('a process that never reads does not fill the memory of the host', async ({ sandbox }) => {
  const process = await sandbox.startProcess('exec sleep 600', { ipc: true })
  const large = 'x'.repeat(8_000_000)
  const sent = Array.from({ length: 12 }, () => process.send(large))
  const errors = rejectionsOf(sent)
  await process.kill()
  const codes = (await errors).map((error) => (error as Error & { code: string }).code)
  expect(codes).toEqual([...Array(8).fill('CHANNEL_CLOSED'), ...Array(4).fill('CHANNEL_FULL')])
})

itInSandbox('a message of any length is accepted when none waits', async ({ sandbox }) => {
  const process = await sandbox.startProcess('exec head -n 4 >&2 <&"$NODE_CHANNEL_FD"', {
    ipc: true,
    logLimit: 1,
  })
  const large = 'x'.repeat(16 * 1024 * 1024 - 2)
  await Promise.all(Array.from({ length: 4 }, () => process.send(large)))
  expect(await process.waitForExit({ timeout: 60_000 })).toMatchObject({ exitCode: 0 })
})

itInEveryMode('a restarted session starts processes with channels again', async ({ sandbox }) => {
  const before = await sandbox.startProcess(['node', '-e', echo], { ipc: true })
  await sandbox.exec('exit 3').catch(() => {})
  await expectEcho(before)
  const after = await sandbox.startProcess(['node', '-e', echo], { ipc: true })
  await expectEcho(after)
  await Promise.all([before.kill(), after.kill()])
})

async function read(process: Process): Promise<void> {
  for await (const message of process.messages()) expect(message).toHaveLength(100_000)
}

itInSandbox('processes that are killed in the middle leave no socket', async ({ sandbox }) => {
  await (await sandbox.startProcess('true', { ipc: true })).waitForExit()
  const rounds = isRest ? 100 : 10
  const talk = `setInterval(() => process.send('x'.repeat(100_000)), 1); process.on('message', () => {})`
  for (let round = 0; round < rounds; round++) {
    const process = await sandbox.startProcess(['node', '-e', talk], { ipc: true, autoCleanup: false })
    const sending = Promise.allSettled(Array.from({ length: 5 }, () => process.send('x'.repeat(500_000))))
    await process.messages().next()
    await sandbox.exec(`kill -KILL ${process.pid}`)
    await process.waitForExit({ timeout: 30_000 })
    await sending
    // What had arrived can be read: whole messages, and perhaps the beginning of another one.
    await read(process).catch((error) => expect(error.code).toBe('INVALID_MESSAGE'))
  }
  await sandbox.cleanupCompletedProcesses()
})

it('a host that is killed leaves no process and no socket', async () => {
  const rounds = isRest ? 100 : 5
  for (let round = 0; round < rounds; round++) {
    const host = startHost(`
      const sandbox = new Sandbox()
      const program = "setInterval(() => process.send('x'.repeat(100000)), 1); process.on('disconnect', () => {})"
      const main = async () => {
        const process = await sandbox.startProcess(['node', '-e', program], { ipc: true })
        print('started')
        for await (const message of process.messages()) await process.send(message)
      }
      void main()`)
    await host.printed('started')
    host.child.kill('SIGKILL')
    await expectGone(host.tag)
  }
})
