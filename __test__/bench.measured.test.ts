/** The benchmark runs with the API of today. Its numbers are for people. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { temporary } from './helpers/temporary.js'

const root = path.dirname(__dirname)
const [runtime, suffix] = process.versions.bun ? ['bun', 'Bun'] : ['node', 'Node']

it('the benchmark measures every row', async () => {
  const directory = temporary('nacre-bench-')
  const out = path.join(directory, 'results.md')
  await promisify(execFile)('node', ['bench/bench.mjs', '--quick', `--runtime=${runtime}`, `--out=${out}`], {
    cwd: root,
  })
  const lines = readFileSync(out, 'utf8').split('\n')
  const { rows } = await import('../bench/rows/all.mjs')
  for (const { title } of Object.values<{ title: string }>(rows))
    expect(lines).toContain(`### ${title} (${suffix})`)
}, 600_000)
