/** The log of a stream is the same here and over HTTP. */
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { all } from '../helpers/stream.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'
import { itHolds } from './helper.js'

describe('the log of a stream', () => {
  itHolds(
    'is read while the command runs, beside its reader, and after its end',
    async ({ sandbox, directory }) => {
      const stream = sandbox.execStream(
        `echo out; echo err >&2; until [ -e ${directory}/go ]; do sleep 0.01; done; seq 3`,
        { logLimit: 1_000_000 },
      )
      const events = stream[Symbol.asyncIterator]()
      await holds(async () => (await stream.getLogLines()).total === 2)
      expect(await stream.getLogs()).toEqual({ stdout: 'out\n', stderr: 'err\n' })
      await Promise.all([
        sandbox.files.write(`${directory}/go`, ''),
        all({ [Symbol.asyncIterator]: () => events }),
      ])
      const { stdout, stderr } = await stream.getLogs({ encoding: 'buffer' })
      expect([Buffer.from(stdout).toString(), Buffer.from(stderr).toString()]).toEqual([
        'out\n1\n2\n3\n',
        'err\n',
      ])
      const { lines, matches, total } = await stream.getLogLines({ grep: '[23]' })
      expect([lines.map(({ text }) => text), matches, total]).toEqual([['2', '3'], 2, 5])
      expect((await stream.result).stdout).toBe('out\n1\n2\n3\n')
    },
  )

  itHolds('begins with the command when it becomes a process', async ({ sandbox, directory }) => {
    const stream = sandbox.execStream(
      `seq 1000; until [ -e ${directory}/go ]; do sleep 0.01; done; echo end`,
      { logLimit: 1_000_000, maxBuffer: 10, outputLimit: 100_000 },
    )
    await holds(async () => (await stream.getLogLines()).total === 1000)
    const process = await stream.detach()
    await sandbox.exec(`touch ${directory}/go`)
    await process.waitForExit()
    const log = await process.getLogLines({ fromLine: -3 })
    expect(log).toMatchObject({ total: 1001, first: 1 })
    expect(log.lines.map(({ text }) => text)).toEqual(['999', '1000', 'end'])
    expect(await stream.getLogLines({ fromLine: -3 })).toEqual(log)
  })

  itHolds('counts its own limit, and leaves that of the output alone', async ({ sandbox }) => {
    const stream = sandbox.execStream('seq -w 2000; sleep 600', { logLimit: 500, outputLimit: 5000 })
    await all(stream)
    expect(await rejectionOf(stream.result)).toMatchObject({ code: 'OUTPUT_LIMIT' })
    expect(await stream.getLogLines({ lines: 1 })).toMatchObject({ total: 1000, first: 901 })
  })

  itHolds('is there for a command that never ran', async ({ sandbox, directory }) => {
    const first = sandbox.execStream(`until [ -e ${directory}/go ]; do sleep 0.01; done`)
    const queued = sandbox.execStream('echo never', { logLimit: 100, cwd: `${directory}/missing` })
    await sandbox.files.write(`${directory}/go`, '')
    await first.result
    expect(await rejectionOf(queued.result)).toMatchObject({ code: 'CWD_NOT_FOUND' })
    expect(await queued.getLogs()).toEqual({ stdout: '', stderr: '' })
    expect(await queued.waitFor()).toMatchObject({ by: 'exit', exit: { reason: null } })
  })

  itHolds('needs the option', async ({ sandbox }) => {
    const stream = sandbox.execStream('true')
    const logged = sandbox.execStream('true', { logLimit: 100 })
    const errors = await rejectionsOf([
      stream.getLogs(),
      stream.getLogLines(),
      logged.getLogLines({ grep: '(' }),
      sandbox.exec('true', { logLimit: 100 }),
    ])
    expect(errors).toMatchObject(errors.map(() => ({ name: 'OptionError', code: 'INVALID_OPTION' })))
    await Promise.all([stream.result, logged.result])
  })
})

describe('the logs of ended streams', () => {
  it('are dropped beyond the newest 1000, even while the program keeps the streams', () =>
    withSandbox(async ({ sandbox }) => {
      const waiting = sandbox.execStream('echo waits; read line', { input: 'pipe', logLimit: 100 })
      await waiting.waitFor({ log: 'waits' })
      const session = await sandbox.createSession()
      const streams = []
      for (let index = 0; index <= 1001; index++) {
        const stream = session.execStream(`echo ${index}`, { logLimit: 100 })
        streams.push(stream)
        await stream.result
      }
      for (const index of [1, 1000]) expect((await streams[index]?.getLogs())?.stdout).toBe(`${index}\n`)
      expect(await rejectionOf(Promise.resolve(streams[0]?.getLogs()))).toMatchObject({
        code: 'PROCESS_NOT_FOUND',
      })
      expect((await waiting.getLogs()).stdout).toBe('waits\n')
      await waiting.write('x\n')
      await waiting.result
    }))
})
