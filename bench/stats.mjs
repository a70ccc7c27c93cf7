/** Statistics of samples. */

/** The sample below which the given fraction (0 to 1) of all samples lies. */
export function quantile(samples, part) {
  const sorted = Float64Array.from(samples).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]
}

export function median(samples) {
  return quantile(samples, 0.5)
}

/** The reported statistics of a list of times. */
export function summarize(samples) {
  const [min, p10, p90, p99] = [0, 0.1, 0.9, 0.99].map((part) => quantile(samples, part))
  return { median: median(samples), p10, min, p90, p99 }
}

/** `summarize` for each list of an object. */
export function summarizeEach(samples) {
  return Object.fromEntries(Object.entries(samples).map(([name, times]) => [name, summarize(times)]))
}

/** The time of one asynchronous action in ms. */
export async function time(action) {
  const begun = performance.now()
  await action()
  return performance.now() - begun
}

/**
 * Times several actions, alternating, so that other load on the machine affects all of them alike. In each round every
 * action has `burst` consecutive runs, and the order changes. The first `warmups` rounds do not count. Returns the samples
 * by name, in ms.
 */
export async function roundRobin(actions, { rounds, burst = 1, warmups = 0 }) {
  const names = Object.keys(actions)
  const samples = Object.fromEntries(names.map((name) => [name, []]))
  for (let round = 0; round < warmups + rounds; round++) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(turn + round) % names.length]
      for (let run = 0; run < burst; run++) {
        const taken = await time(actions[name])
        if (round >= warmups) samples[name].push(taken)
      }
    }
  }
  return samples
}
