/** Random inputs of tests. NACRE_SEED sets the seed; without it, each test uses a fresh seed. A failure names the seed. */
import { createRandom } from '../../scripts/fuzz/random.mjs'

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
    await test(withBytes(createRandom(seed)))
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

function withBytes({ next, below }: Omit<Random, 'bytes'>): Random {
  const byte = () => {
    const kind = next()
    if (kind < 0.4) return 0x41
    return kind < 0.7 ? 0x80 + below(0x40) : 0xc0 + below(0x40)
  }
  return { next, below, bytes: (length) => Buffer.from(Uint8Array.from({ length }, byte)) }
}
