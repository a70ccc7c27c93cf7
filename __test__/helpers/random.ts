/** Random inputs of tests. NACRE_SEED sets the seed; without it, each test uses a fresh seed. A failure names the seed. */

export interface Random {
  /** A number from 0 up to, but not including, 1. */
  next(): number
  /** An integer from 0 up to, but not including, `bound`. */
  below(bound: number): number
  /** Bytes that are hard to decode: ASCII, continuation bytes and first bytes of characters, in any order. */
  bytes(length: number): Buffer
}

/** Runs a test with random inputs. A failure's message ends with the seed that repeats them. */
export async function withRandom(test: (random: Random) => void | Promise<void>): Promise<void> {
  const seed = readSeed() ?? Math.floor(Math.random() * 2 ** 32)
  try {
    await test(createRandom(seed))
  } catch (error) {
    if (error instanceof Error) error.message += `\nrepeat these inputs with NACRE_SEED=${seed}`
    throw error
  }
}

function readSeed(): number | undefined {
  const text = process.env.NACRE_SEED
  if (text === undefined) return undefined
  if (!/^\d{1,10}$/.test(text)) throw new Error(`NACRE_SEED must be a number of at most 10 digits: ${text}`)
  return Number(text)
}

/** Creates a generator (mulberry32): the same seed gives the same numbers. */
function createRandom(seed: number): Random {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (bound: number) => Math.floor(next() * bound)
  const byte = () => {
    const kind = next()
    if (kind < 0.4) return 0x41
    return kind < 0.7 ? 0x80 + below(0x40) : 0xc0 + below(0x40)
  }
  return { next, below, bytes: (length) => Buffer.from(Uint8Array.from({ length }, byte)) }
}
