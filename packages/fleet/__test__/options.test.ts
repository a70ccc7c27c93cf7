/** Arguments of a fleet are checked before anything is sent. Its options are in __test__/options/refusals.test.ts. */
import { type FleetOptions, SandboxFleet } from '@nacre/fleet'
import { expect, it } from 'vitest'
import { rejectionOf, thrownBy } from '../../../__test__/helpers/thrown.js'

const kubernetes = { warmPool: 'pool' }

it.each<[string, unknown, string]>([
  ['a place', {}, 'needs kubernetes'],
  ['a warm pool', { kubernetes: {} }, 'kubernetes.warmPool is required'],
  ['the URL of a router', { kubernetes: { warmPool: 'a', router: {} } }, 'kubernetes.router.url is required'],
])('new SandboxFleet refuses options without %s', (_, options, message) => {
  expect(thrownBy(() => new SandboxFleet(options as FleetOptions))).toMatchObject({
    ...{ name: 'OptionError', message: expect.stringContaining(message) },
  })
})

it('a fleet refuses a bad id, and everything after close', async () => {
  const fleet = new SandboxFleet({ kubernetes })
  expect(await rejectionOf(fleet.get('../a'))).toMatchObject({ code: 'INVALID_ID' })
  expect(await rejectionOf(fleet.delete('A'))).toMatchObject({ code: 'INVALID_ID' })
  await fleet.close()
  expect(await rejectionOf(fleet.list())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
})
