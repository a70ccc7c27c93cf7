import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { Logs, type Output } from '../lib/daytona/log.js'
import { runProgram } from '../lib/daytona/process.js'
import type { Call } from '../lib/e2b/connect.js'
import { processMethods } from '../lib/e2b/process.js'
import { Hosted, type SandboxRecord } from '../lib/hosted.js'

const never = new AbortController().signal

const textOf = (outputs: Output[]) => outputs.map(({ stream, data }) => `${stream}:${data}`).join(' ')

it('output that arrives in many small pieces needs few of them', () => {
  const logs = new Logs()
  const log = logs.open()
  for (let count = 0; count < 100_000; count++) log.add('stdout', Buffer.from('x'))
  expect(log.length).toBe(2)
  log.add('stderr', Buffer.from('e'))
  log.add('stdout', Buffer.from('a'))
  log.add('stdout', Buffer.from('b'))
  expect(log.length).toBe(4)
  expect(textOf(log.newest(4))).toBe('stdout:x stderr:e stdout:ab')
  logs.forget(log)
  expect(log.length).toBe(0)
})

it('the newest output begins with a whole character, also between pieces', () => {
  const log = new Logs().open()
  log.add('stdout', Buffer.from('a€'))
  for (const most of [3, 4]) expect(textOf(log.newest(most))).toBe(most === 3 ? 'stdout:€' : 'stdout:a€')
  for (const most of [1, 2]) expect(textOf(log.newest(most))).toBe('stdout:')
  const other = new Logs().open()
  const euro = Buffer.from('€')
  other.add('stdout', Buffer.concat([Buffer.alloc(64 * 1024 - 1, 'x'), euro.subarray(0, 1)]))
  other.add('stdout', Buffer.concat([euro.subarray(1), Buffer.from('y')]))
  expect(textOf(other.newest(3))).toBe('stdout:y')
  expect(Buffer.concat(other.newest(4).map(({ data }) => data)).toString()).toBe('€y')
  // Other encodings keep all but three bytes.
  const bytes = new Logs().open()
  bytes.add('stdout', Buffer.alloc(10, 0x80))
  expect(bytes.newest(10)[0]?.data).toHaveLength(10)
  expect(bytes.newest(9)[0]?.data).toHaveLength(6)
})

it('a log is followed through what is added to a piece, and dropped behind the limit', async () => {
  const logs = new Logs()
  const log = logs.open()
  const received: string[] = []
  const followed = (async () => {
    for await (const { stream, data } of log.read(true, never)) received.push(`${stream[3]}${data}`)
  })()
  const parts = ['a', 'b', 'cc', 'ddd']
  for (const part of parts) {
    log.add('stdout', Buffer.from(part))
    await until(
      () => received.at(-1) === `o${part}` || undefined,
      () => received.join(),
    )
  }
  log.add('stderr', Buffer.from('e'))
  log.end()
  await followed
  expect(received).toEqual([...parts.map((part) => `o${part}`), 'ee'])
  const other = logs.open()
  const mebibyte = Buffer.alloc(1024 * 1024)
  for (let count = 0; count < 80; count++) other.add('stdout', mebibyte)
  expect(log.length).toBe(0)
  expect(other.length).toBe(63)
})

async function withHosted(test: (hosted: Hosted) => Promise<void>): Promise<void> {
  const sandboxes = temporary('nacre-hosted-')
  const record: SandboxRecord = { id: 'own', env: {}, startedAt: 0, network: 'host' as const }
  const open = async ({ view }: Hosted) => new Sandbox({ cwd: view.home })
  const place = { open, sandboxes, records: sandboxes, home: '/home/user', user: 'user', isMounted: false }
  const hosted = new Hosted(record, place)
  try {
    await hosted.createDirectory()
    await hosted.start('filesystem')
    await test(hosted)
  } finally {
    await hosted.halt()
  }
}

it('a process is forgotten when the reply has its output', () =>
  withHosted(async (hosted) => {
    const { stdout, exitCode } = await runProgram(hosted, ['bash', '-c', 'echo out; exit 3'])
    expect([stdout, exitCode]).toEqual(['out\n', 3])
    expect(await hosted.sandbox.listProcesses()).toEqual([])
    const start = processMethods.Start
    if (start?.kind !== 'replies') throw new Error('Start has other replies')
    const call: Call = { hosted, headers: {}, gone: never }
    const given = { process: { cmd: '/bin/bash', args: ['-c', 'echo out'] }, stdin: false }
    const replies = []
    for await (const reply of start.run(given, call)) replies.push(reply)
    expect(replies.at(-1)).toMatchObject({ event: { end: { exitCode: 0 } } })
    await holds(async () => (await hosted.sandbox.listProcesses()).length === 0)
  }))
