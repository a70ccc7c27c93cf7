/** Arguments of a fleet are checked before anything is sent. */
import { type FleetOptions, OptionError, SandboxFleet } from '@nacre/fleet'
import { describe, expect, it } from 'vitest'
import { rejectionOf, thrownBy } from '../../../__test__/helpers/thrown.js'

const kubernetes = { warmPool: 'pool' }

describe('new SandboxFleet', () => {
  it.each<[string, unknown, string]>([
    ['without a place', {}, 'needs kubernetes'],
    ['without a warm pool', { kubernetes: {} }, 'kubernetes.warmPool is required'],
    [
      'with a warm pool that is no DNS label',
      { kubernetes: { warmPool: 'A' } },
      'kubernetes.warmPool must be',
    ],
    ['with a router without a URL', { kubernetes: { warmPool: 'a', router: {} } }, 'kubernetes.router.url'],
    ['with a bad port', { kubernetes: { warmPool: 'a', port: 0 } }, 'kubernetes.port'],
    ['with a bad kubeConfig', { kubernetes: { warmPool: 'a', kubeConfig: {} } }, 'kubernetes.kubeConfig'],
    ['with an unknown option', { kubernetes: { warmPool: 'a', pool: 'b' } }, 'no option "pool"'],
    ['with a list of hosts', { kubernetes, hosts: ['http://127.0.0.1:1'] }, 'no option "hosts"'],
    ['with a short time to live', { kubernetes, ttl: 999 }, 'ttl must be'],
    ['with a token that no header can have', { kubernetes, token: 'a b' }, 'token must be'],
  ])('refuses options %s', (_, options, message) => {
    const error = thrownBy(() => new SandboxFleet(options as FleetOptions))
    expect(error).toBeInstanceOf(OptionError)
    expect((error as OptionError).message).toContain(message)
  })
})

describe('the calls of a fleet', () => {
  const fleet = new SandboxFleet({ kubernetes })

  it.each<[string, object, string]>([
    ['an id that is no DNS label', { id: 'No' }, 'id must be'],
    ['labels that Kubernetes refuses', { labels: { a: 'b c' } }, 'labels.a must be'],
    ['names of labels that Kubernetes refuses', { labels: { 'a/b/c': 'd' } }, 'labels must have names'],
    ['a timeout of 0', { timeout: 0 }, 'timeout must be'],
  ])('refuse %s', async (_, options, message) => {
    expect((await rejectionOf(fleet.create(options))).message).toContain(message)
  })

  it('refuse a bad id, and everything after close', async () => {
    expect(await rejectionOf(fleet.get('../a'))).toMatchObject({ code: 'INVALID_ID' })
    expect(await rejectionOf(fleet.delete('A'))).toMatchObject({ code: 'INVALID_ID' })
    await fleet.close()
    expect(await rejectionOf(fleet.list())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
  })
})
