/**
 * 200 MB of output, kept completely: the time, and the host's memory in addition to the output.
 *
 * Each sample runs in its own process, so that none finds memory that an earlier sample has left behind. The bytes are
 * zeros, which `head` produces as fast as a pipe takes them, and which are also valid text.
 */
import { spawn } from 'node:child_process'
import { Sandbox } from 'nacre'
import { collectGarbage, ownUse, resetPeak } from '../processes.mjs'
import { median, time } from '../stats.mjs'

export const title = '200 MB of output'
export const variants = [
  'nacre, bytes',
  'child_process.spawn, bytes',
  'nacre, text',
  'child_process.spawn, text',
]
export const rounds = ({ quick }) => (quick ? 2 : 7)
const SIZE = 200_000_000

export async function measure(variant) {
  const [peer, kind] = variant.split(', ')
  const sandbox = new Sandbox()
  const collect =
    peer === 'nacre' ? (command) => byNacre(sandbox, command, kind) : (command) => bySpawn(command, kind)
  await collect('head -c 1000000 /dev/zero')
  collectGarbage()
  resetPeak()
  const before = ownUse().rss
  let output = ''
  const ms = await time(async () => {
    output = await collect(`head -c ${SIZE} /dev/zero`)
  })
  const { peak } = ownUse()
  if (output.length !== SIZE) throw new Error(`${variant}: ${output.length} bytes came`)
  await sandbox.destroy()
  return { ms, growth: (peak - before) / SIZE }
}

export function summarize(samples) {
  return { ms: median(samples.map(({ ms }) => ms)), growth: median(samples.map(({ growth }) => growth)) }
}

async function byNacre(sandbox, command, kind) {
  const encoding = kind === 'text' ? 'utf8' : 'buffer'
  const { stdout } = await sandbox.exec(command, { encoding, maxBuffer: 2 * SIZE })
  return stdout
}

function bySpawn(command, kind) {
  return new Promise((resolve, reject) => {
    const chunks = []
    const child = spawn('/bin/sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
    child.stdout.on('data', (chunk) => chunks.push(chunk))
    child.on('error', reject)
    child.on('close', () => {
      const bytes = Buffer.concat(chunks)
      resolve(kind === 'text' ? bytes.toString() : bytes)
    })
  })
}
