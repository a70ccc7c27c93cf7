/** How a host answers the readers of its logs. */
import { Sandbox } from 'nacre'
import { it } from 'vitest'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { holds } from '../../../__test__/helpers/until.js'
import { Names } from '../lib/keys.js'
import { LogServer } from '../lib/log-server.js'
import { decodeAnswer } from '../lib/log-wire.js'

it('hundreds of readers that wait for news hold up no other reader', () =>
  withSandbox(async ({ directory }) => {
    await using sandbox = new Sandbox({ jobsRoot: `${directory}/jobs` })
    const names = new Names('bull', 'test')
    const ref = { id: 'quiet', attempt: 1 }
    const job = await sandbox.jobs.start({
      jobId: names.durableId(ref),
      command: 'echo out; sleep 60',
      cwd: '/',
    })
    await sandbox.jobs.follow(job, 0).next()
    const answered = new Map<number, number>()
    const redis = {
      async publish(_: string, message: Buffer) {
        const { answer, bytes } = decodeAnswer(message) ?? {}
        answered.set(answer?.call ?? 0, bytes?.length ?? 0)
      },
    }
    const stop = new AbortController()
    const server = new LogServer(redis as never, names, sandbox.jobs, stop.signal)
    const served = Array.from({ length: 300 }, (_, call) =>
      server.serve({ ...ref, op: 'news', cursor: 4, maxBytes: 1, reader: 'one', call: call + 1 }),
    )
    void server.serve({ ...ref, op: 'read', cursor: 0, maxBytes: 100, reader: 'one', call: 1000 })
    await holds(() => answered.get(1000) === 4)
    await holds(() => answered.has(300))
    stop.abort()
    await Promise.all(served)
    await sandbox.jobs.cancel(job, { forceKillAfterDelay: 100 })
  }))
