/** The end of a virtual machine: whichever process ends, nothing is left. Run by `npm run test:vm`. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'
import { commandOf, descendants, isAlive, type Known } from './processes.js'

const root = path.dirname(path.dirname(__dirname))
/** A round boots a machine, which takes seconds. NACRE_TEST_ROUNDS=20 is for changes of what ends. */
const rounds = Number(process.env.NACRE_TEST_ROUNDS ?? 1)
const BOOT_MS = 240_000
/** Milliseconds after which nothing may be left. */
const GONE_MS = 1500

/** A program whose machine runs a process that ends only by SIGKILL. `last` is what the program does then. */
async function start(last = '') {
  const cwd = temporary('nacre-vm-end-')
  const script = `
    import { openSandbox } from ${JSON.stringify(path.join(root, 'dist/engine/index.js'))}
    const { NACRE_TEST_OWN_KERNEL: kernel } = process.env
    const sandbox = await openSandbox({ engine: 'vm', emulate: true, memory: '1g', kernel, cwd: ${JSON.stringify(cwd)}, network: { allow: [] } })
    await sandbox.exec("setsid sh -c 'trap \\"\\" TERM HUP; while :; do sleep 60; done' > /dev/null 2>&1 &")
    sandbox.exec('sleep 600').catch((error) => console.log('lost: ' + error.code))
    ${last}
    console.log('pid: ' + sandbox.vm.pid)
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  const pid = await until(
    () => /pid: (\d+)/.exec(printed)?.[1],
    () => `the machine does not run: ${printed}`,
    BOOT_MS,
  )
  const known = descendants(Number(pid))
  expect(known.length).toBeGreaterThanOrEqual(6)
  return { child, known, printed: () => printed }
}

const isOutlet = (one: Known) => commandOf(one).includes('--vm-outlet')

const victims: Record<string, (known: Known[]) => number | undefined> = {
  supervisor: (known) => known[0]?.pid,
  'init of the namespace': (known) => known.slice(1).find((one) => !isOutlet(one))?.pid,
  'network carrier': (known) => known.find(isOutlet)?.pid,
  'virtual machine monitor': (known) => known.find(({ name }) => name.startsWith('qemu'))?.pid,
  'file server': (known) => known.find(({ name }) => name.startsWith('virtiofsd'))?.pid,
}

async function expectGone(known: Known[]) {
  const alive = () => known.filter(isAlive)
  await until(
    () => (alive().length === 0 ? true : undefined),
    () => `these are left: ${JSON.stringify(alive())}`,
    GONE_MS,
  )
}

it.each(Object.entries(victims))(
  'leaves nothing after SIGKILL of the %s, and the program learns of it',
  async (_name, find) => {
    for (let round = 0; round < rounds; round++) {
      const { child, known, printed } = await start()
      const victim = find(known)
      if (victim === undefined) throw new Error(`it is not among ${JSON.stringify(known)}`)
      process.kill(victim, 'SIGKILL')
      await expectGone(known)
      await until(
        () => printed().includes('lost: SANDBOX_LOST') || undefined,
        () => `the program does not know: ${printed()}`,
      )
      child.kill('SIGKILL')
    }
  },
  rounds * BOOT_MS,
)

it(
  'leaves nothing after SIGKILL of the program',
  async () => {
    for (let round = 0; round < rounds; round++) {
      const { child } = await start()
      // With the session that has the proxy.
      const known = descendants(child.pid as number)
      child.kill('SIGKILL')
      await expectGone(known)
    }
  },
  rounds * BOOT_MS,
)

describe('a paused machine', () => {
  /** It goes on without anything pending. */
  const PAUSE = 'await sandbox.vm.pause(); setInterval(() => {}, 1000)'

  it(
    'ends with the program, and with its monitor',
    async () => {
      for (const find of [() => undefined, victims['virtual machine monitor']]) {
        const { child, known } = await start(PAUSE)
        process.kill(find?.(known) ?? (child.pid as number), 'SIGKILL')
        await expectGone(known)
        child.kill('SIGKILL')
      }
    },
    2 * BOOT_MS,
  )

  it(
    'can be destroyed',
    async () => {
      const { child, printed } = await start(`${PAUSE}
        process.once('SIGUSR2', async () => {
          await sandbox.destroy()
          console.log(await sandbox.exec('true').catch(({ code }) => code))
        })`)
      const known = descendants(child.pid as number).filter(({ name }) => name.startsWith('qemu'))
      child.kill('SIGUSR2')
      await until(
        () => printed().includes('SANDBOX_DESTROYED') || undefined,
        () => `it is not destroyed: ${printed()}`,
      )
      expect(known.filter(isAlive)).toEqual([])
      child.kill('SIGKILL')
    },
    BOOT_MS,
  )
})
