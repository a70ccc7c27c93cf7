import { describe, it } from 'vitest'
import { withRandom } from '../../../__test__/helpers/random.js'
import { checkRegistry } from './registry-model.js'
import { daytona, e2b } from './registry-times.js'

describe('a sandbox ends or pauses by its own time or by a call only', () => {
  it('for E2B', () => withRandom((random) => checkRegistry(e2b, random, 3000)))
  it('for Daytona', () => withRandom((random) => checkRegistry(daytona, random, 3000)))
})
