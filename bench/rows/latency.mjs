/**
 * The time of one small command, alternating between all peers, in a small host and in a host that holds 1 GB.
 *
 * The size of the host matters because a fork copies its page tables. The shell itself runs `true` and `echo hi`;
 * `/bin/true` is the smallest command that needs a process. Many run in a row (50 to 150): the row `paced` has rests.
 */
import { peers } from '../peers/all.mjs'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'One command'
export const variants = ['small', 'large']
const COMMANDS = ['true', 'echo hi', '/bin/true']
const GIGABYTE = 1024 ** 3

/** Rounds by variant and length of the run. */
const PLANS = {
  small: { full: { rounds: 6, burst: 150 }, quick: { rounds: 1, burst: 100 } },
  large: { full: { rounds: 3, burst: 50 }, quick: { rounds: 1, burst: 50 } },
}

export async function measure(variant, { quick }) {
  const ballast = variant === 'large' ? Buffer.alloc(GIGABYTE, 1) : Buffer.alloc(1)
  const plan = PLANS[variant][quick ? 'quick' : 'full']
  const open = await Promise.all(peers.map(async (peer) => ({ name: peer.name, ...(await peer.open()) })))
  const result = {}
  for (const command of COMMANDS) {
    const actions = Object.fromEntries(open.map((peer) => [peer.name, () => peer.run(command)]))
    result[command] = summarizeEach(await roundRobin(actions, { ...plan, warmups: 1 }))
  }
  await Promise.all(open.map((peer) => peer.close()))
  if (ballast[ballast.length - 1] > 1) throw new Error('the ballast is not what it was')
  return result
}
