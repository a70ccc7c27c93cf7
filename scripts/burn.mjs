/**
 * Keeps processors busy, to find tests that rely on the speed of the machine.
 *
 *   node scripts/burn.mjs [--loops N] [--minutes N]      default: a loop for each processor, for an hour
 */
import os from 'node:os'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'

const { values } = parseArgs({
  options: { loops: { type: 'string' }, minutes: { type: 'string', default: '60' } },
})
const loops = Number(values.loops ?? os.availableParallelism())
const minutes = Number(values.minutes)
if (!(loops > 0 && minutes > 0)) {
  console.error('usage: node scripts/burn.mjs [--loops N] [--minutes N]')
  process.exit(2)
}
for (let loop = 0; loop < loops; loop++) new Worker('for (;;);', { eval: true })
setTimeout(() => process.exit(0), minutes * 60_000)
