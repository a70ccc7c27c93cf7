/**
 * Lets each agent work in a fork of its own, merges the two best, and commits the result to a branch. Returns the scores in the
 * order of the agents, the names of the merged ones, and their score together.
 */
import { Sandbox } from 'nacre'

export async function bestOf(sandbox, agents, branch) {
  const forks = await sandbox.fork(agents.length)
  // The function was defined before the forks.
  const score = async (fork) => Number((await fork.exec('score')).stdout)
  try {
    const scores = await Promise.all(
      forks.map(async (fork, number) => {
        await agents[number].work(fork)
        return score(fork)
      }),
    )
    const best = scores
      .map((_, number) => number)
      .sort((one, other) => scores[other] - scores[one])
      .slice(0, 2)
    const { sandbox: merged } = await Sandbox.merge(best.map((number) => forks[number]))
    forks.push(merged)
    const names = best.map((number) => agents[number].name)
    const { applied } = await merged.workspace.commit({ branch, message: `Work of ${names.join(' and ')}` })
    return { scores, names, together: await score(merged), applied }
  } finally {
    await Promise.all(forks.map((fork) => fork.destroy()))
  }
}
