/** `result.usage`, compared with what bash itself measures of the same command. */
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { enter, plain } from '../helpers/modes.js'

/** Commands that burn the processor in the shell, in programs, in pipes, in subshells, and in what they wait for. */
const BURNING = [
  'for ((i = 0; i < 200000; i++)); do :; done',
  'seq 50000 | sort -R | tail -1',
  '(for ((i = 0; i < 200000; i++)); do :; done)',
  'x=$(seq 1000000 | sha256sum); echo $x',
  'seq 50000 | sort -R >/dev/null & wait',
  'sh -c "sh -c \\"seq 50000 | sort -R | tail -1\\""',
  '(seq 50000 | sort -R >/dev/null; exit 3)',
]

describe('the usage of a command', () => {
  for (const command of BURNING)
    it(`is what bash measures: ${command}`, () =>
      withSandbox(async ({ sandbox }) => {
        const { usage, stderr } = await sandbox.exec(`TIMEFORMAT='%3U %3S'; time { ${command}\n}`)
        const [user = 0, system = 0] = stderr.trim().split('\n').at(-1)?.split(' ').map(Number) ?? []
        const expected = (user + system) * 1000
        expect(expected).toBeGreaterThan(0)
        // What the shell does besides, and the rounding of bash.
        expect(usage?.cpuMs).toBeGreaterThan(expected * 0.95 - 3)
        expect(usage?.cpuMs).toBeLessThan(expected * 1.05 + 15)
      }))

  it('counts from each command to its end, and no other one', () =>
    withSandbox(async ({ sandbox }) => {
      const { usage: long } = await sandbox.exec('for ((i = 0; i < 300000; i++)); do :; done')
      const { usage: short } = await sandbox.exec('true')
      expect(long?.cpuMs).toBeGreaterThan(50)
      expect(short?.cpuMs).toBeLessThan((long?.cpuMs ?? 0) / 5)
      const { usage: failed } = await sandbox.exec('for ((i = 0; i < 300000; i++)); do :; done; exit 3')
      expect(failed?.cpuMs).toBeGreaterThan(50)
    }))

  it('is there after a timeout, in streams, and is the same for clients', () =>
    withSandbox(async ({ sandbox }) => {
      const late = await sandbox
        .exec("sh -c 'while :; do :; done'", { timeout: 400 })
        .catch((error) => error.result)
      expect(late.usage.cpuMs).toBeGreaterThan(50)
      const stream = sandbox.execStream('for ((i = 0; i < 300000; i++)); do :; done')
      let cpuMs = 0
      for await (const event of stream) if (event.type === 'complete') cpuMs = event.result.usage?.cpuMs ?? 0
      expect(cpuMs).toBeGreaterThan(50)
    }))

  it('has what was written to a disk', () =>
    withSandbox(async ({ sandbox }) => {
      const { usage } = await sandbox.exec('head -c 8000000 /dev/zero > data; sync data')
      const { stdout } = await sandbox.exec('stat -f -c %T .')
      // A file system in memory has no disk.
      if (stdout.trim() === 'tmpfs') expect(usage?.writtenBytes).toBe(0)
      else expect(usage?.writtenBytes).toBeGreaterThan(4_000_000)
    }))

  it('is absent where it is not known', async () => {
    await withSandbox(async ({ sandbox }) => {
      expect((await sandbox.exec('exec true')).usage).toBeUndefined()
      expect((await sandbox.exec('true')).usage).toBeDefined()
    })
    for (const mode of plain.slice(0, 1)) {
      const leave = enter(mode)
      try {
        await withSandbox(async ({ sandbox }) => expect((await sandbox.exec('true')).usage).toBeUndefined())
      } finally {
        leave()
      }
    }
  })
})
