/** The end of a virtual machine: whichever process ends, nothing is left. Run by `npm run test:vm`. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { expect, it } from 'vitest'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'
import { descendants, isAlive, type Known } from './processes.js'

const root = path.dirname(path.dirname(__dirname))
/** A round boots a machine, which takes seconds. NACRE_TEST_ROUNDS=20 is for changes of what ends. */
const rounds = Number(process.env.NACRE_TEST_ROUNDS ?? 1)
const BOOT_MS = 240_000
/** Milliseconds after which nothing may be left. */
const GONE_MS = 1500

/** A program whose machine runs a process that ends only by SIGKILL. */
async function start() {
  const cwd = temporary('nacre-vm-end-')
  const script = `
    import { openSandbox } from ${JSON.stringify(path.join(root, 'dist/engine/index.js'))}
    const { NACRE_TEST_OWN_KERNEL: kernel } = process.env
    const sandbox = await openSandbox({ engine: 'vm', emulate: true, memory: '1g', kernel, cwd: ${JSON.stringify(cwd)} })
    await sandbox.exec("setsid sh -c 'trap \\"\\" TERM HUP; while :; do sleep 60; done' > /dev/null 2>&1 &")
    sandbox.exec('sleep 600').catch((error) => console.log('lost: ' + error.code))
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
  expect(known.length).toBeGreaterThanOrEqual(5)
  return { child, known, printed: () => printed }
}

const victims: Record<string, (known: Known[]) => number | undefined> = {
  supervisor: (known) => known[0]?.pid,
  'init of the namespace': (known) => known[1]?.pid,
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
      const { child, known } = await start()
      child.kill('SIGKILL')
      await expectGone(known)
    }
  },
  rounds * BOOT_MS,
)
