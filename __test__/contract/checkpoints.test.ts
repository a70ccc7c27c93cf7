/** Checkpoints are the same here and over HTTP. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { type ContractPlace, itHolds } from './helper.js'

function holds(name: string, test: (place: ContractPlace) => Promise<void>): void {
  itHolds(name, test, { options: { workspace: 'copy-on-write' } })
}

describe('a checkpoint', () => {
  holds('is listed, brought back and deleted', async ({ sandbox }) => {
    expect(await sandbox.checkpoints()).toEqual([])
    await sandbox.exec('echo one > a; v=1; cd ..')
    const first = await sandbox.checkpoint({ name: 'first' })
    await sandbox.createSession({ id: 'other' })
    const second = await sandbox.checkpoint()
    expect(first).toEqual({
      ...{ id: first.id, name: 'first', sessions: ['default'] },
      createdAt: expect.any(Date),
    })
    expect(second).toMatchObject({ name: null, sessions: ['default', 'other'] })
    expect(await sandbox.checkpoints()).toEqual([first, second])

    await sandbox.exec('v=2')
    const { id } = await sandbox.startProcess(['sleep', '1000'])
    expect(await sandbox.rollback(first.id)).toEqual({
      ...{ checkpoint: first, endedProcesses: [id], endedSessions: ['other'], missing: [] },
    })
    expect((await sandbox.exec('cat $OLDPWD/a; echo $v')).stdout).toBe('one\n1\n')
    expect(await sandbox.getSession('other')).toBeNull()
    await sandbox.rollback(second)
    expect(await sandbox.getSession('other')).not.toBeNull()
    expect((await sandbox.exec('echo $v')).stdout).toBe('1\n')

    await sandbox.deleteCheckpoint(first)
    expect(await sandbox.checkpoints()).toEqual([second])
    for (const gone of [first, first.id, '../1'])
      for (const call of ['deleteCheckpoint', 'rollback'] as const)
        expect(await rejectionOf(sandbox[call](gone))).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
    for (const bad of [1, null, {}])
      expect(await rejectionOf(sandbox.rollback(bad as never))).toBeInstanceOf(TypeError)
    expect(await rejectionOf(sandbox.checkpoint({ name: 'a\nb' }))).toBeInstanceOf(TypeError)
  })

  holds('is not made after an abort, and everything goes on', async ({ sandbox, directory }) => {
    const running = sandbox.exec('until [ -e ../go ]; do sleep 0.01; done; echo end')
    const controller = new AbortController()
    const ended = rejectionOf(sandbox.checkpoint({ signal: controller.signal }))
    controller.abort('why')
    expect(await ended).toMatchObject({
      ...{ name: 'AbortError', cause: 'why', message: 'the checkpoint was aborted' },
    })
    writeFileSync(path.join(directory, '../go'), '')
    expect((await running).stdout).toBe('end\n')
    expect(await sandbox.checkpoints()).toEqual([])
  })
})

describe('a rollback', () => {
  holds('names the jobs and descriptors that the shells had', async ({ sandbox }) => {
    await sandbox.exec('exec 7< /dev/null; sleep 1000 & sleep 1001 | cat & (exit 3) &')
    const other = await sandbox.createSession({ id: 'other' })
    await other.exec('exec 12> /dev/null; set -m; cat < /dev/zero > /dev/null & kill -STOP $!')
    const point = await sandbox.checkpoint()
    const missing = [
      ...['job 1: sleep 1000', 'job 2: sleep 1001 | cat', 'descriptor 7'],
      ...["session 'other': job 1: cat < /dev/zero > /dev/null", "session 'other': descriptor 12"],
    ]
    expect((await sandbox.rollback(point)).missing).toEqual(missing)
    // They are still those of the checkpoint.
    await sandbox.exec('exec 8< /dev/null')
    expect((await sandbox.rollback(point)).missing).toEqual(missing)
    const again = await sandbox.checkpoint()
    expect((await sandbox.rollback(again)).missing).toEqual([])
  })

  holds('rejects the commands that run or wait, also those in a client', async ({ sandbox }) => {
    await sandbox.exec('echo kept > a')
    const point = await sandbox.checkpoint()
    const other = await sandbox.createSession({ id: 'other' })
    const elsewhere = rejectionOf(other.exec('sleep 1000'))
    const running = rejectionOf(sandbox.exec('echo running >> a; sleep 1000'))
    const waiting = ['echo waiting >> a', 'echo more >> a'].map((command) =>
      rejectionOf(sandbox.exec(command)),
    )
    await until(
      async () => String(await sandbox.files.read('a')).includes('running') || undefined,
      () => 'no output of the command',
    )
    expect((await sandbox.rollback(point)).endedSessions).toEqual(['other'])
    for (const error of await Promise.all([running, ...waiting]))
      expect(error).toMatchObject({ name: 'SandboxError', code: 'ROLLED_BACK' })
    expect(await elsewhere).toMatchObject({ name: 'SandboxError' })
    expect((await sandbox.exec('echo later >> a; cat a')).stdout).toBe('kept\nlater\n')
  })

  holds('to an unknown checkpoint ends nothing', async ({ sandbox, directory }) => {
    const running = sandbox.exec('until [ -e ../go ]; do sleep 0.01; done; echo one')
    const waiting = sandbox.exec('echo two')
    const refused = rejectionOf(sandbox.rollback('7'))
    const later = sandbox.exec('echo three')
    const elsewhere = await sandbox.createSession()
    expect((await elsewhere.exec('echo elsewhere')).stdout).toBe('elsewhere\n')
    expect(await refused).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
    writeFileSync(path.join(directory, '../go'), '')
    const results = await Promise.all([running, waiting, later])
    expect(results.map(({ stdout }) => stdout)).toEqual(['one\n', 'two\n', 'three\n'])
  })

  itHolds(
    'ends a service that waits for its next start, unless it fails',
    async ({ sandbox }) => {
      const point = await sandbox.checkpoint()
      const options = { healthCheck: { log: 'up' }, restart: 'on-failure', restartDelay: 60_000 } as const
      const service = await sandbox.startService('echo up; read -r code; exit "$code"', {
        ...options,
        input: 'pipe',
        processId: 'web',
      })
      const untilState = (state: string) =>
        until(
          async () => (await service.getStatus()) === state || undefined,
          () => service.status,
        )
      for (const rollBack of [() => sandbox.rollback(point), () => sandbox.undo()]) {
        await service.write('7\n')
        await untilState('starting')
        await sandbox.exec('echo step')
        expect(await rejectionOf(sandbox.rollback('9'))).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
        expect(await service.getStatus()).toBe('starting')
        expect((await rollBack()).endedProcesses).toEqual(['web'])
        await untilState('failed')
        expect(await service.kill()).toBe(false)
        await service.restart()
        expect(await service.getStatus()).toBe('running')
      }
      await service.kill()
    },
    { options: { workspace: { mode: 'copy-on-write', undoSteps: 5 } } },
  )

  holds('ends streams, watches, and processes with their output', async ({ sandbox }) => {
    await sandbox.exec('echo kept > a')
    const point = await sandbox.checkpoint()
    const process = await sandbox.startProcess('echo up; while :; do echo x >> b; sleep 0.02; done')
    const terminal = await sandbox.startProcess('echo up; sleep 1000', { pty: true })
    await Promise.all([process.waitForLog('up'), terminal.waitForLog('up')])
    const changes = sandbox.files.watch('.')
    await changes.next()
    const watching = rejectionOf(
      (async () => {
        while (!(await changes.next()).done);
      })(),
    )
    const outputs = [process, terminal].map(async (one) => {
      for await (const event of one.output()) if (event.type === 'exit') return event
      return undefined
    })
    const stream = sandbox.execStream('echo up; sleep 1000')
    const events: unknown[] = []
    for await (const event of stream) {
      events.push(event.type === 'error' ? event.error : event.type)
      if (event.type === 'stdout') await sandbox.rollback(point)
    }
    expect(events.slice(0, 2)).toEqual(['start', 'stdout'])
    expect(events.at(-1)).toMatchObject({ code: 'ROLLED_BACK' })
    expect(await rejectionOf(stream.result)).toMatchObject({ code: 'ROLLED_BACK' })
    expect(await watching).toMatchObject({ code: 'ROLLED_BACK' })
    for (const exit of await Promise.all(outputs)) expect(exit).toMatchObject({ signal: 'SIGKILL' })
    expect(await process.waitForExit()).toMatchObject({ signal: 'SIGKILL' })
    expect(await terminal.waitForExit()).toMatchObject({ signal: 'SIGKILL' })
    expect((await sandbox.exec('cat a')).stdout).toBe('kept\n')
  })
})
