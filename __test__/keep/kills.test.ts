/** A host that runs commands without pause is killed: the next sandbox of the name has the state after one command, and the last. */
import { describe, it } from 'vitest'
import { enter, modes, plain } from '../helpers/modes.js'
import { withRandom } from '../helpers/random.js'
import { killRounds, type Victims } from './kills.js'

describe('kills of a host that runs commands without pause', () => {
  for (const mode of [...modes, ...plain.slice(0, 1)])
    it(`leave the state after the last answer, or the command that ran, ${mode.name}`, async () => {
      const leave = enter(mode)
      try {
        await withRandom((random) => killRounds(12, 'host', random))
      } finally {
        leave()
      }
    })

  for (const victims of ['host and supervisor', 'supervisor and host'] satisfies Victims[])
    it(`leave the state after a command, also if both are killed: ${victims}`, () =>
      withRandom((random) => killRounds(4, victims, random)))
})
