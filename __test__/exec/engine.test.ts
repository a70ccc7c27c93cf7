/** What exec does in this process alone: limits of the engine, and the directory and environment of its shells. */
import { Sandbox, type Session } from 'nacre'
import { expect, it } from 'vitest'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all, shapeOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

itInSandbox('runs commands of megabytes and with a thousand variables', async ({ sandbox }) => {
  for (const size of [2 ** 19, 2 ** 21, 2 ** 23]) {
    const result = await sandbox.exec(`: ${'x'.repeat(size)}\necho done`)
    expect(result).toMatchObject({ stdout: 'done\n', exitCode: 0, sessionRestarted: false })
  }
  const env = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`V${index}`, `${index}`]))
  expect((await sandbox.exec('echo $V0 $V999', { env })).stdout).toBe('0 999\n')
})

itInSandbox('returns output of about 1 MiB whole, as text', async ({ sandbox }) => {
  for (const bytes of [2 ** 20 - 1, 2 ** 20 + 1]) {
    const { stdout } = await sandbox.exec(`yes 'aü€' | head -c ${bytes}`)
    expect(stdout === Buffer.alloc(bytes, 'aü€\n').toString()).toBe(true)
  }
})

itInSandbox('takes the next item of its input when the command took the one before', async ({ sandbox }) => {
  let taken = 0
  async function* endless() {
    for (;;) {
      taken++
      yield Buffer.alloc(65_536)
    }
  }
  const controller = new AbortController()
  const run = rejectionOf(sandbox.exec('sleep 60', { input: endless(), signal: controller.signal }))
  await until(
    () => taken >= 2 || undefined,
    () => `took ${taken} items`,
  )
  controller.abort()
  await run
  expect(taken).toBeLessThan(50)
})

it('rejects at the first call when the directory of the sandbox does not exist', async () => {
  const sandbox = new Sandbox({ cwd: '/proc/no/such/directory' })
  expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'CWD_NOT_FOUND' })
  await sandbox.destroy()
})

it('starts the default session in Sandbox.create, and rejects when it cannot', async () => {
  await using sandbox = await Sandbox.create({ env: { A: 'a' } })
  expect(sandbox).toBeInstanceOf(Sandbox)
  expect((await sandbox.stats()).sessions).toBe(1)
  expect((await sandbox.exec('echo $A')).stdout).toBe('a\n')
  const session = (await sandbox.getSession('default')) as Session
  expect(await session.history()).toHaveLength(1)
  expect(await rejectionOf(Sandbox.create({ cwd: '/proc/no/such/directory' }))).toMatchObject({
    code: 'CWD_NOT_FOUND',
  })
  expect(await rejectionOf(Sandbox.create({ cwd: 5 } as never))).toMatchObject({ kind: 'option' })
})

itInSandbox(
  'gives a command only the environment of the options, with extendEnv false',
  async ({ sandbox }) => {
    const { stdout } = await sandbox.exec('env')
    const names = stdout.match(/^\w+(?==)/gm) ?? []
    for (const name of ['PATH', 'HOME', 'LANG', 'ONLY']) expect(names).toContain(name)
    for (const name of Object.keys(process.env).filter((key) => key.startsWith('npm_')))
      expect(names).not.toContain(name)
  },
  { options: { extendEnv: false, env: { ONLY: '1' } } },
)

itInSandbox(
  'an abort of a command that reads a file leaves nothing of the file for the next `read`',
  async ({ sandbox }) => {
    await sandbox.exec("head -c 100000000 /dev/zero | tr '\\0' x > long; echo fresh > next")
    const stream = sandbox.execStream('echo on; read -r line < long')
    for await (const event of stream) if (event.type === 'stdout') await stream.kill()
    // bash reads ahead in files, and not in pipes.
    const command = 'read -r line < next; echo "$line"'
    const process = await sandbox.startProcess(command)
    await process.waitForExit()
    expect((await process.getLogs()).stdout).toBe('fresh\n')
    const next = await sandbox.exec(command)
    expect([next.stdout, next.sessionRestarted]).toEqual(['fresh\n', false])
  },
)

itInSandbox(
  'an abort of a command in the queue leaves the timeout and the output of the running one',
  async ({ sandbox }) => {
    const queue = () => {
      const controller = new AbortController()
      const queued = rejectionOf(sandbox.exec('true', { signal: controller.signal }))
      controller.abort()
      return queued
    }
    const running = rejectionOf(sandbox.exec('sleep 60', { timeout: 300 }))
    expect((await queue()).name).toBe('AbortError')
    expect(await running).toMatchObject({ code: 'COMMAND_TIMEOUT' })
    const printing = sandbox.exec('head -c 3000000 /dev/zero', { encoding: 'buffer', timeout: 10_000 })
    expect((await queue()).name).toBe('AbortError')
    expect((await printing).stdout).toHaveLength(3_000_000)
  },
)

itInSandbox('an abort and outputLimit leave the state of that moment', async ({ sandbox }) => {
  await sandbox.exec('f() { echo f; }; mkdir sub; cd sub')
  const abort = new AbortController()
  const options = { signal: abort.signal, onOutput: () => abort.abort() }
  expect(await rejectionOf(sandbox.exec('x=2; echo x; sleep 60', options))).toMatchObject({
    code: 'ABORT_ERR',
  })
  expect((await sandbox.exec('echo $x; f; pwd')).stdout).toMatch(/^2\nf\n.*\/sub\n$/)
  await rejectionOf(sandbox.exec('x=3; yes', { outputLimit: 1000 }))
  expect((await sandbox.exec('echo $x')).stdout).toBe('3\n')
})

itInSandbox('a command whose directory does not exist never starts', async ({ sandbox }) => {
  expect(shapeOf(await all(sandbox.execStream('true', { cwd: '/proc/nowhere' })))).toBe('error')
})
