/**
 * `true` compared with the minimum cost of any persistent shell, alternating: many in a row, in blocks of 500, and after a
 * rest, as agents use a shell: they run a command, think, and run the next.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import * as bareBash from '../peers/bare-bash.mjs'
import * as childProcess from '../peers/child-process.mjs'
import * as nacre from '../peers/nacre.mjs'
import { roundRobin, summarizeEach, time } from '../stats.mjs'

export const title = '`true` and a bare bash'
export const variants = ['in a row', '5 ms', '50 ms', '300 ms']
const ROUNDS = { '5 ms': 300, '50 ms': 150, '300 ms': 40 }

export async function measure(variant, { quick }) {
  const peers = variant === 'in a row' ? [nacre, bareBash] : [nacre, bareBash, childProcess]
  const open = await Promise.all(peers.map(async (peer) => ({ name: peer.name, ...(await peer.open()) })))
  const samples = variant === 'in a row' ? await inARow(open, quick) : await rested(open, variant, quick)
  await Promise.all(open.map((peer) => peer.close()))
  return summarizeEach(samples)
}

function inARow(open, quick) {
  const actions = Object.fromEntries(open.map((peer) => [peer.name, () => peer.run('true')]))
  return roundRobin(actions, { rounds: quick ? 2 : 20, burst: 500, warmups: 2 })
}

async function rested(open, variant, quick) {
  const samples = Object.fromEntries(open.map(({ name }) => [name, []]))
  const rounds = quick ? Math.ceil(ROUNDS[variant] / 5) : ROUNDS[variant]
  for (let round = -3; round < rounds; round++) {
    for (const peer of open) {
      await sleep(Number.parseInt(variant, 10))
      const taken = await time(() => peer.run('true'))
      if (round >= 0) samples[peer.name].push(taken)
    }
  }
  return samples
}
