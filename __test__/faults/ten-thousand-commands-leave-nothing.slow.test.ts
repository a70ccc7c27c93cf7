/**
 * Thousands of commands in a row. Descriptors, threads, processes, control groups and files are after them what they were
 * before.
 */
import { describe, expect, it } from 'vitest'
import { modes } from '../helpers/modes.js'
import { usesOf } from './ten-thousand-commands.js'

for (const mode of modes) {
  // The whole number once; the others go the same ways but for one.
  const commands = mode.name === 'by default' ? 10_000 : 1000
  describe(`${commands} commands in a row, ${mode.name}`, () => {
    it('leave everything as it was', async () => {
      const counts = (await usesOf(commands, mode.env)).map((use) => use.counts)
      // An empty cgroup is removed when the next one is created.
      for (const { groups } of counts) expect(groups).toBeLessThan(4)
      const [first, ...others] = counts.map((count) => ({ ...count, groups: 0 }))
      expect(others).toEqual([first, first])
    }, 70_000)
  })
}
