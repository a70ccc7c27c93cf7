/**
 * The time of one small command, alternating between all peers, in a small host and in a host that holds 1 GB.
 *
 * The size of the host matters because a fork copies its page tables. The shell itself runs `true` and `echo hi`;
 * `/bin/true` is the smallest command that needs a process. Each is measured twice: many in a row (50 to 150), and single
 * commands, with a run of every other peer between two of the same. A session does its own work in idle time, which can
 * delay a single command. And any peer that has not run for some milliseconds starts with cold caches.
 */
import { peers } from '../peers/all.mjs'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'One command'
export const variants = ['small', 'large']
const COMMANDS = ['true', 'echo hi', '/bin/true']
const GIGABYTE = 1024 ** 3

/** Rounds by variant and length of the run. */
const PLANS = {
  small: { full: { bursts: 4, burst: 150, singles: 150 }, quick: { bursts: 1, burst: 100, singles: 30 } },
  large: { full: { bursts: 3, burst: 50, singles: 50 }, quick: { bursts: 1, burst: 50, singles: 10 } },
}

export async function measure(variant, { quick }) {
  const ballast = variant === 'large' ? Buffer.alloc(GIGABYTE, 1) : Buffer.alloc(1)
  const { bursts, burst, singles } = PLANS[variant][quick ? 'quick' : 'full']
  const open = await Promise.all(peers.map(async (peer) => ({ name: peer.name, ...(await peer.open()) })))
  const result = {}
  for (const command of COMMANDS) {
    const actions = Object.fromEntries(open.map((peer) => [peer.name, () => peer.run(command)]))
    const inARow = await roundRobin(actions, { rounds: bursts, burst, warmups: 1 })
    const single = await roundRobin(actions, { rounds: singles, warmups: 3 })
    result[command] = { inARow: summarizeEach(inARow), single: summarizeEach(single) }
  }
  await Promise.all(open.map((peer) => peer.close()))
  if (ballast[ballast.length - 1] > 1) throw new Error('the ballast is not what it was')
  return result
}
