/** The open input of a command is the same here and over HTTP. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect } from 'vitest'
import { printed } from '../helpers/stream.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { itHolds } from './helper.js'

const open = { input: 'pipe' } as const

describe("execStream with input: 'pipe'", () => {
  itHolds('keeps the input open, and the state of the session', async ({ sandbox }) => {
    const command = 'cd /usr; read -r first; read -r second; both="$first $second"; echo "$both"; cat'
    const stream = sandbox.execStream(command, open)
    const lines = stream.lines()
    await stream.write('one\n')
    await stream.write(new TextEncoder().encode('two\n'))
    expect((await lines.next()).value).toBe('one two')
    await stream.write('é')
    await stream.write('')
    await stream.write('rest')
    await stream.closeInput()
    expect((await lines.next()).value).toBe('érest')
    expect(await stream.result).toMatchObject({ exitCode: 0, stdout: 'one two\nérest' })
    expect((await sandbox.exec('echo "$PWD $both"')).stdout).toBe('/usr one two\n')
  })

  itHolds('resolves a write when the pipe has accepted the data', async ({ sandbox, directory }) => {
    const command = 'until [ -e go ]; do sleep 0.01; done; cat'
    const stream = sandbox.execStream(command, { ...open, maxBuffer: 4_000_000 })
    const data = Buffer.alloc(3_000_000, 'data of a writer that must wait\n')
    let written = 0
    const writes = [data, Buffer.from('end')].map((piece) => stream.write(piece).then(() => written++))
    const closed = stream.closeInput()
    await using other = await sandbox.createSession()
    expect((await other.exec('echo other')).stdout).toBe('other\n')
    expect(written).toBe(0)
    writeFileSync(path.join(directory, 'go'), '')
    await Promise.all([...writes, closed])
    const { stdout } = await stream.result
    expect(stdout === `${data}end`).toBe(true)
  })

  itHolds('keeps what is written before the command begins', async ({ sandbox }) => {
    const first = sandbox.execStream('read -r line; echo "first $line"', open)
    const second = sandbox.execStream('read -r line; echo "second $line"', open)
    const killed = sandbox.execStream('cat', open)
    const written = [second.write('two\n'), killed.write('three\n')]
    expect(await killed.kill()).toBe(true)
    await first.write('one\n')
    expect((await first.result).stdout).toBe('first one\n')
    expect((await second.result).stdout).toBe('second two\n')
    expect(await killed.result).toMatchObject({ stdout: '', cancelled: true })
    await Promise.all(written)
  })

  itHolds('resolves a pending write when the command ends', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo begun; sleep 600', open)
    await stream[Symbol.asyncIterator]().next()
    const write = stream.write(Buffer.alloc(200_000))
    await stream.kill()
    await write
    expect(await rejectionOf(stream.write('more'))).toMatchObject({ code: 'INPUT_CLOSED' })
    await stream.closeInput()
    expect((await sandbox.exec('cat')).stdout).toBe('')
  })

  itHolds('goes on as the input of the process that the command becomes', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo begun; read -r line; echo "$line"; cat; exit 3', open)
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const first = stream.write('one\n')
    const process = await stream.detach()
    await process.write('two\n')
    await stream.write('three\n')
    await process.write('four\n')
    await process.closeInput()
    await first
    expect(await process.waitForExit()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    expect((await process.getLogs()).stdout).toBe('begun\none\ntwo\nthree\nfour\n')
    expect((await stream.result).stdout).toBe('begun\none\ntwo\nthree\nfour\n')
    for (const error of await rejectionsOf([process.write('five'), stream.write('five')]))
      expect(error).toMatchObject({ code: 'INPUT_CLOSED' })
  })

  itHolds('is closed for both after the detach', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo begun; cat; until [ -e go ]; do sleep 0.01; done', open)
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const process = await stream.detach()
    await stream.closeInput()
    for (const error of await rejectionsOf([process.write('more'), stream.write('more')]))
      expect(error).toMatchObject({ code: 'INPUT_CLOSED' })
    await process.closeInput()
    await sandbox.exec('touch go')
    expect((await stream.result).stdout).toBe('begun\n')
  })

  itHolds('is refused where nothing can be written', async ({ sandbox }) => {
    expect(await rejectionOf(sandbox.exec('cat', open))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('use execStream'),
    })
    expect((await sandbox.exec('cat', { input: Buffer.from('pipe') })).stdout).toBe('pipe')
    const stream = sandbox.execStream('echo begun; until [ -e go ]; do sleep 0.01; done')
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const rule = (method: string, what: string) => ({
      code: 'INVALID_OPTION',
      message: expect.stringContaining(`${method} needs a ${what} that was started with input: 'pipe'`),
    })
    expect(await rejectionOf(stream.write('data'))).toMatchObject(rule('write', 'command'))
    expect(await rejectionOf(stream.closeInput())).toMatchObject(rule('closeInput', 'command'))
    const process = await stream.detach()
    expect(await rejectionOf(process.write('data'))).toMatchObject(rule('write', 'process'))
    await sandbox.exec('touch go')
    await process.waitForExit()
    const tagged = sandbox.$.with(open)`cat`
    expect(await rejectionOf(tagged.write(1 as never))).toMatchObject({ code: 'INVALID_OPTION' })
    await tagged.write('tagged')
    await tagged.closeInput()
    expect((await tagged).stdout).toBe('tagged')
  })
})
