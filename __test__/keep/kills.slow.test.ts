/** The rounds of kills.test.ts, many times. NACRE_KILLS sets how many. */
import { describe, it } from 'vitest'
import { withRandom } from '../helpers/random.js'
import { killRounds, type Victims } from './kills.js'

const ROUNDS = Number(process.env.NACRE_KILLS ?? 100)

describe('kills of a host that runs commands without pause', () => {
  for (const victims of ['host', 'host and supervisor', 'supervisor and host'] satisfies Victims[])
    it(
      `leave the state after a command: ${victims}`,
      () => withRandom((random) => killRounds(ROUNDS, victims, random)),
      3_600_000,
    )
})
