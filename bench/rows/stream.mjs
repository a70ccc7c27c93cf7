/**
 * 500 MB of output read as a stream with `for await`; the reader keeps nothing. The time, and the host's additional memory.
 * Each sample runs in its own process. The bytes are zeros, which `head` produces as fast as a pipe takes them.
 */
import { spawn } from 'node:child_process'
import { Sandbox } from 'nacre'
import { collectGarbage, ownUse, resetPeak } from '../processes.mjs'
import { median, time } from '../stats.mjs'

export const title = '500 MB as a stream'
export const variants = [
  'nacre, bytes',
  'child_process.spawn, bytes',
  'nacre, text',
  'child_process.spawn, text',
]
export const rounds = ({ quick }) => (quick ? 2 : 5)
const SIZE = 500_000_000

export async function measure(variant) {
  const [peer, kind] = variant.split(', ')
  const sandbox = new Sandbox()
  const read =
    peer === 'nacre' ? (command) => byNacre(sandbox, command, kind) : (command) => bySpawn(command, kind)
  await read('head -c 20000000 /dev/zero')
  collectGarbage()
  resetPeak()
  const before = ownUse().rss
  let length = 0
  const ms = await time(async () => {
    length = await read(`head -c ${SIZE} /dev/zero`)
  })
  const { peak } = ownUse()
  if (length !== SIZE) throw new Error(`${variant}: ${length} came`)
  await sandbox.destroy()
  return { ms, growth: peak - before }
}

export function summarize(samples) {
  return { ms: median(samples.map(({ ms }) => ms)), growth: median(samples.map(({ growth }) => growth)) }
}

async function byNacre(sandbox, command, kind) {
  let length = 0
  for await (const event of sandbox.execStream(command, { encoding: kind === 'text' ? 'utf8' : 'buffer' })) {
    if (event.type === 'stdout') length += event.data.length
  }
  return length
}

async function bySpawn(command, kind) {
  let length = 0
  const child = spawn('/bin/sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
  if (kind === 'text') child.stdout.setEncoding('utf8')
  for await (const data of child.stdout) length += data.length
  return length
}
