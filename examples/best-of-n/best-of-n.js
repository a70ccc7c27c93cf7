/**
 * Runs each strategy in a fork of its own, and commits the best one. Returns the scores in the order of the strategies, and
 * the winner.
 */
export async function bestOf(sandbox, strategies) {
  const forks = await sandbox.fork(strategies.length)
  try {
    const scores = await Promise.all(
      forks.map(async (fork, number) => {
        await fork.exec(strategies[number].command)
        // The function was defined before the fork.
        const { stdout } = await fork.exec('score')
        return Number(stdout)
      }),
    )
    const winner = scores.indexOf(Math.max(...scores))
    const { applied } = await forks[winner].workspace.commit()
    return { scores, winner: strategies[winner], applied }
  } finally {
    await Promise.all(forks.map((fork) => fork.destroy()))
  }
}
