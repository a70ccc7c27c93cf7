/** What the page knows of a sandbox. */
import { expect, it } from 'vitest'
import { withClient } from '../../../__test__/contract/helper.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { holds } from '../../../__test__/helpers/until.js'
import { Model } from '../page/model.js'

it('has a service that is not ready yet, which is there when the page loads', () =>
  withSandbox((workplace) =>
    withClient(workplace, async (client) => {
      const { sandbox } = workplace
      const starting = sandbox
        .startService('exec sleep 600', { processId: 'web', healthCheck: { log: 'ready' } })
        .catch((error) => error)
      await holds(async () => (await client.getProcess('web'))?.status === 'starting')
      const model = new Model()
      await model.load(client)
      expect(model.programs.get('web')).toMatchObject({ isRunning: true, command: 'exec sleep 600' })
      // A second look keeps it.
      await model.load(client)
      expect(model.programs.get('web')).toMatchObject({ isRunning: true })
      await sandbox.killAllProcesses()
      await starting
    }),
  ))

it('keeps the newest requests', () => {
  const model = new Model()
  const same = { type: 'request', time: new Date(), sessionId: 's', host: 'a:443', method: 'GET' } as const
  const numbers = { status: 200, sent: 0, received: 0, ms: 1, protocol: 'h2' } as const
  for (let cursor = 1; cursor <= 1002; cursor++)
    model.receive({ ...same, ...numbers, cursor, path: `/${cursor}` })
  expect(model.requests).toHaveLength(1000)
  expect([model.requests[0]?.path, model.requests.at(-1)?.path]).toEqual(['/3', '/1002'])
})
