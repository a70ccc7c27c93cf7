/** README.md: its code runs and prints what its comments promise, its figures are those of the benchmark, and it is short. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { promises, readPage, root, runCode, runnable } from './helpers/markdown.js'

describe('README.md', () => {
  const readme = readPage('README.md')
  const blocks = runnable(readme)

  it('has code that runs', () => {
    expect(blocks.length).toBeGreaterThan(4)
    for (const block of blocks) expect(promises(block.code).length).toBeGreaterThan(0)
  })

  for (const block of blocks) {
    it(`prints what it says at line ${block.line}`, async () => {
      const { stdout, stderr } = await runCode(block)
      expect(stderr).toBe('')
      expect(stdout.trimEnd().split('\n')).toEqual(promises(block.code))
    })
  }

  it('has at most 200 lines', () => {
    expect(readme.trimEnd().split('\n').length).toBeLessThanOrEqual(200)
  })

  it.each(['readme-table', 'chart'])('shows the figures of bench/RESULTS.md: bench/%s.mjs', async (name) => {
    await promisify(execFile)('node', [`bench/${name}.mjs`, '--check'], { cwd: root })
  })
})
