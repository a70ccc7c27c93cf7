/**
 * The kill of a background process with 19 descendants by the default signal. Some are children, some have their own
 * session, some have left the tree by a double fork. With control groups, and without.
 *
 * Every tree is complete before its kill, and is checked afterwards: the arguments of the sleeps identify them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { carrying } from '../processes.mjs'
import { summarize as summarizeTimes, time } from '../stats.mjs'

export const title = 'Kill of a tree of 20 processes'
export const variants = ['with control groups', 'without']
const WARMUPS = 3
const SLEEPS = 19
const PATIENCE_MS = 5000

export async function measure(variant, { quick }) {
  if (variant === 'without') process.env.NACRE_CONTAINMENT = 'subreaper'
  const sandbox = new Sandbox()
  if (variant !== 'without' && (await sandbox.capabilities()).cgroup !== 'v2') return null
  await sandbox.exec('true')
  const samples = []
  let survivors = 0
  for (let run = 0; run < WARMUPS + (quick ? 20 : 100); run++) {
    // Arguments that no other process has: about a year in seconds.
    const words = `sleep\0${31_000_000 + run}.${process.pid}`
    const root = await sandbox.startProcess(tree(words.replace('\0', ' ')))
    await untilComplete(words)
    const taken = await time(() => sandbox.killProcess(root.id))
    survivors += carrying(words).length
    if (run >= WARMUPS) samples.push(taken)
    await sandbox.cleanupCompletedProcesses()
  }
  await sandbox.destroy()
  return { ...summarizeTimes(samples), runs: samples.length, survivors }
}

/** The shell itself waits; seven of its descendants are orphans by then. */
function tree(nap) {
  return `
    for i in 1 2 3 4 5 6; do ${nap} & done
    for i in 1 2 3 4 5 6; do setsid ${nap} & done
    for i in 1 2 3 4 5 6 7; do (setsid ${nap} &) done
    wait`
}

async function untilComplete(words) {
  const begun = performance.now()
  for (;;) {
    const found = carrying(words).length
    if (found === SLEEPS) return
    if (performance.now() - begun > PATIENCE_MS) throw new Error(`${found} of ${SLEEPS} sleeps have started`)
    await sleep(2)
  }
}
