/** Mounts in each tier: with namespaces, as root and as an ordinary user. Landlock alone has none, and nothing runs. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Programs, tiers } from './tiers.js'

interface Seen {
  exec?: string
  file?: string
  again?: string
  failed?: { code: string; message: string }
  written: string[]
  machine: string[]
  made: string[]
  home: string
}

let programs: Programs

beforeAll(() => {
  programs = new Programs('mounts-runner.mjs')
})

afterAll(() => programs.remove())

for (const tier of tiers) {
  const run = (task: object) => programs.run<Seen>(tier, 'mounts-runner.mjs', task)

  if (tier.hasMounts) {
    it.each([false, true])(`show their sources, with ${tier.name}, workspace: %s`, async (workspace) => {
      const { home, ...seen } = await run({ workspace })
      const printed = `${home}/project\nx\nown\nown\nkey\n`
      expect(seen).toMatchObject({
        exec: workspace ? printed : printed + printed,
        file: 'x\n',
        ...(workspace && { again: 'x\nz\n' }),
        written: workspace ? [] : ['file'],
        machine: ['canary', 'key'],
        made: [],
      })
      expect(seen.failed).toBeUndefined()
    })
  } else {
    it.each([false, true])(`are refused with ${tier.name}, bestEffort: %s`, async (bestEffort) => {
      const { failed, exec, written } = await run({ bestEffort })
      expect([exec, written]).toEqual([undefined, []])
      expect(failed).toMatchObject({
        code: 'ISOLATION_UNSUPPORTED',
        message: expect.stringMatching(
          /^isolation\.filesystem\.mounts cannot be enforced.*Allow unprivileged user namespaces, .* or omit the mounts$/,
        ),
      })
    })
  }
}
