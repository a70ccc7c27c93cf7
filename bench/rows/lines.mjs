/** A million short lines, one by one with `for await`, from the call to the end. Each sample runs in its own process. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { Sandbox } from 'nacre'
import { median, time } from '../stats.mjs'

export const title = 'A million short lines'
export const variants = ['nacre', 'child_process.spawn, readline']
export const rounds = ({ quick }) => (quick ? 2 : 5)
const LINES = 1_000_000

export async function measure(variant) {
  const sandbox = new Sandbox()
  const open = variant === 'nacre' ? (command) => sandbox.execStream(command).lines() : bySpawn
  const count = async (lines) => {
    let [found, last] = [0, '']
    const ms = await time(async () => {
      for await (const line of open(`seq ${lines}`)) {
        found++
        last = line
      }
    })
    if (found !== lines || last !== String(lines)) throw new Error(`${variant}: ${found} lines came`)
    return ms
  }
  await count(10_000)
  const ms = await count(LINES)
  await sandbox.destroy()
  return { ms, perSecond: (LINES / ms) * 1000 }
}

export function summarize(samples) {
  const perSecond = median(samples.map((sample) => sample.perSecond))
  return { ms: median(samples.map(({ ms }) => ms)), perSecond }
}

function bySpawn(command) {
  const child = spawn('/bin/sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
  return createInterface({ input: child.stdout })
}
