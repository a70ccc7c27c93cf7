/** A Redis that refuses commands for a while, since a script occupies it. */
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { holds } from '../../../__test__/helpers/until.js'
import { ended, withQueue } from './place.js'

it('fails the calls of that time, and no later ones', () =>
  withQueue(async ({ queue, redis, worker }) => {
    const [client, other] = [new Redis(redis.port), new Redis(redis.port)]
    try {
      await worker('one')
      await queue.add({ id: 'first', command: 'echo out' })
      await client.config('SET', 'busy-reply-threshold', '20')
      const busy = client.eval('while true do end', 0).catch(() => {})
      await holds(
        async () => (await other.ping().catch((error: Error) => error.message.startsWith('BUSY'))) === true,
      )
      await expect(queue.wait('first')).rejects.toThrow('BUSY')
      await expect(queue.logs('first').next()).rejects.toThrow('BUSY')
      await other.script('KILL')
      await busy
      expect(await ended(queue, 'first')).toMatchObject({ state: 'completed' })
      const { value } = await queue.logs('first').next()
      expect(value?.raw).toBe('out\n')
    } finally {
      client.disconnect()
      other.disconnect()
    }
  }))
