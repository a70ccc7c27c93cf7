/**
 * `true` after a rest, as agents use a shell: they run a command, think, and run the next. Compared with the minimum cost
 * of any persistent shell, alternating.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import * as bareBash from '../peers/bare-bash.mjs'
import * as childProcess from '../peers/child-process.mjs'
import * as nacre from '../peers/nacre.mjs'
import { quantile, summarize, time } from '../stats.mjs'

export const title = '`true` after a rest'
export const variants = ['5 ms', '50 ms', '300 ms']
const ROUNDS = { '5 ms': 300, '50 ms': 150, '300 ms': 40 }

export async function measure(variant, { quick }) {
  const rest = Number.parseInt(variant, 10)
  const peers = [nacre, bareBash, childProcess]
  const open = await Promise.all(peers.map(async (peer) => ({ name: peer.name, ...(await peer.open()) })))
  const samples = Object.fromEntries(peers.map(({ name }) => [name, []]))
  const rounds = quick ? Math.ceil(ROUNDS[variant] / 5) : ROUNDS[variant]
  for (let round = -3; round < rounds; round++) {
    for (const peer of open) {
      await sleep(rest)
      const taken = await time(() => peer.run('true'))
      if (round >= 0) samples[peer.name].push(taken)
    }
  }
  await Promise.all(open.map((peer) => peer.close()))
  return Object.fromEntries(
    Object.entries(samples).map(([name, times]) => [
      name,
      { ...summarize(times), p90: quantile(times, 0.9) },
    ]),
  )
}
