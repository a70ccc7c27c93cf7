/** A seeded random number generator: the same seed gives the same run. */

/** Creates a generator (mulberry32). */
export function createRandom(seed) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (bound) => Math.floor(next() * bound)
  return {
    /** A number from 0 up to, but not including, 1. */
    next,
    /** An integer from 0 up to, but not including, `bound`. */
    below,
    /** An element of a list. */
    pick: (list) => list[below(list.length)],
    /** True with this probability. */
    chance: (probability) => next() < probability,
    /** Between `least` and `most`; small values are more frequent. */
    skewed: (least, most) => least + next() ** 3 * (most - least),
    /** A list of `least` to `most` items. */
    list: (least, most, make) => Array.from({ length: least + below(most - least + 1) }, make),
    /** A key of a table of weights. */
    weighted(weights) {
      const entries = Object.entries(weights)
      let at = next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
      for (const [name, weight] of entries) {
        at -= weight
        if (at < 0) return name
      }
      return entries[0][0]
    },
  }
}
