/**
 * The longest stall of the event loop: bursts of commands, and 200 MB of output. Measured by a timer of 1 ms, which each
 * number includes. Each case runs in its own process; the result is the longest stall of a few repetitions, median over the
 * rounds.
 *
 * The last case shows what the machine does to an idle program while two others use both its processors.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import * as childProcess from '../peers/child-process.mjs'
import { median, quantile } from '../stats.mjs'

export const title = 'Longest stall of the event loop'
export const variants = [
  'nacre, 100 execs at once',
  'child_process.exec, 100 execs at once',
  'nacre, 200 MB as bytes',
  'nacre, 200 MB as text',
  'nothing, beside two busy programs',
]
export const rounds = ({ quick }) => (quick ? 2 : 5)
const OUTPUT = { command: 'head -c 200000000 /dev/zero', options: { maxBuffer: 400_000_000 } }

export async function measure(variant) {
  const sandbox = new Sandbox()
  const { run } = await childProcess.open()
  const hundred = (action) => Promise.all(Array.from({ length: 100 }, action))
  const actions = {
    'nacre, 100 execs at once': () => hundred(() => sandbox.exec('echo hi')),
    'child_process.exec, 100 execs at once': () => hundred(() => run('echo hi')),
    'nacre, 200 MB as bytes': () => sandbox.exec(OUTPUT.command, { ...OUTPUT.options, encoding: 'buffer' }),
    'nacre, 200 MB as text': () => sandbox.exec(OUTPUT.command, OUTPUT.options),
    'nothing, beside two busy programs': () => once(beside, 'exit'),
  }
  await sandbox.exec('true')
  const isControl = variant.startsWith('nothing')
  const beside =
    isControl && spawn('bash', ['-c', 'sleep 0.05; head -c 1000000000 /dev/zero | cat >/dev/null'])
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await sleep(20)
  delay.reset()
  await actions[variant]()
  await sleep(5)
  delay.disable()
  await sandbox.destroy()
  return delay.max / 1e6
}

export function summarize(samples) {
  return { median: median(samples), longest: quantile(samples, 1) }
}
