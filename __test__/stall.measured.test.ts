/** How long the event loop stands still during the common operations. */
import { readFileSync } from 'node:fs'
import type { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { decodeText } from '../lib/base/text.js'
import { withSandbox } from './helpers/invariants.js'
import { collect } from './helpers/memory.js'

/** The longest permitted stall, in ms. */
const MOST_MS = 20

/** A stall that nacre causes shows in each of them. The collection of garbage or another program causes others. */
const ATTEMPTS = 3

/** Milliseconds that the main thread was runnable without a processor, since its start (proc(5), schedstat). */
function waited(): number {
  return Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[1]) / 1e6
}

/** The longest time between two turns of the event loop in which it had a processor, in ms. */
async function longestStall(action: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let last = { time: performance.now(), waited: waited() }
  const look = () => {
    const now = { time: performance.now(), waited: waited() }
    longest = Math.max(longest, now.time - last.time - (now.waited - last.waited))
    last = now
  }
  const timer = setInterval(look, 1)
  try {
    await action()
    look()
  } finally {
    clearInterval(timer)
  }
  return longest
}

async function expectNoStall(action: () => Promise<unknown>): Promise<void> {
  const stalls: number[] = []
  while (stalls.length < ATTEMPTS && (stalls.at(-1) ?? MOST_MS) >= MOST_MS) {
    collect()
    stalls.push(await longestStall(action))
  }
  expect(Math.min(...stalls), `of ${stalls.map((stall) => stall.toFixed(1)).join(', ')} ms`).toBeLessThan(
    MOST_MS,
  )
}

const MEGABYTE = 2 ** 20

const operations: Record<string, (sandbox: Sandbox) => Promise<unknown>> = {
  'a hundred commands': (sandbox) =>
    Promise.all(Array.from({ length: 100 }, () => sandbox.exec('echo hi; /bin/true'))),
  'a result of just above 1 MiB': (sandbox) => sandbox.exec(`yes 'aü€' | head -c ${MEGABYTE + 1}`),
  'a result of 32 MiB that is no ASCII': (sandbox) => sandbox.exec(`yes 'aü€' | head -c ${32 * MEGABYTE}`),
  'a line of 100 MiB as bytes': (sandbox) =>
    sandbox.exec('head -c 100M /dev/zero', { encoding: 'buffer', maxBuffer: 128 * MEGABYTE }),
  'a stream of 50 MB': async (sandbox) => {
    for await (const _ of sandbox.execStream('head -c 50000000 /dev/zero'));
  },
  'a stream of a million lines': async (sandbox) => {
    for await (const _ of sandbox.execStream('seq 1000000').lines());
  },
  'a hundred processes, started and killed': async (sandbox) => {
    await Promise.all(Array.from({ length: 100 }, () => sandbox.startProcess('sleep 60')))
    await sandbox.killAllProcesses()
    await sandbox.cleanupCompletedProcesses()
  },
  'a command that is killed with its tree': (sandbox) =>
    sandbox.exec('for i in {1..20}; do sleep 60 & done; wait', { timeout: 100 }).catch(() => {}),
  'files, written and read': async (sandbox) => {
    await sandbox.files.write('x', Buffer.alloc(16 * MEGABYTE))
    await sandbox.files.read('x', { encoding: 'buffer' })
    await sandbox.files.list()
  },
}

for (const [name, run] of Object.entries(operations))
  it(`of ${name}`, () => withSandbox(({ sandbox }) => expectNoStall(() => run(sandbox))))

it('of the decoding of 64 MiB', () => {
  const bytes = Buffer.alloc(64 * MEGABYTE, 'aü€\u{1f41a}')
  return expectNoStall(() => decodeText(bytes))
})
