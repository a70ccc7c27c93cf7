/** Messages between a program and a process are the same here and over HTTP, with the programs of each runtime. */
import path from 'node:path'
import type { Process } from 'nacre'
import { describe, expect } from 'vitest'
import { rejectionOf, rejectionsOf, thrownBy } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'
import { type AnySandbox, itHolds } from './helper.js'

const bun = path.join(path.dirname(path.dirname(__dirname)), 'node_modules/.bin/bun')
const runtimes = { node: ['node', '-e'], bun: [bun, '-e'] }

/** Sends each message back, and closes its end after 'bye'. */
const echo = `process.on('message', (message) => {
  process.send(message)
  if (message === 'bye') process.disconnect()
})`

function startEcho(sandbox: AnySandbox, options: object = {}): Promise<Process> {
  return sandbox.startProcess(['node', '-e', echo], { ipc: true, ...options })
}

/** Starts shell text whose descriptor 9 is the channel. */
function startText(sandbox: AnySandbox, text: string): Promise<Process> {
  return sandbox.startProcess(`exec 9>&"$NODE_CHANNEL_FD" {NODE_CHANNEL_FD}>&-; ${text}`, { ipc: true })
}

async function take(process: Process, count: number): Promise<unknown[]> {
  const taken: unknown[] = []
  if (count === 0) return taken
  for await (const message of process.messages()) {
    taken.push(message)
    if (taken.length === count) break
  }
  return taken
}

/** All messages until the end, and the codes of errors between them. */
async function all(process: Process): Promise<unknown[]> {
  const taken: unknown[] = []
  for (;;) {
    try {
      for await (const message of process.messages()) taken.push(message)
      return taken
    } catch (error) {
      taken.push((error as { code: unknown }).code)
    }
  }
}

async function untilBye(process: Process): Promise<number[]> {
  const taken = await all(process)
  return taken.filter((message) => message !== 'bye') as number[]
}

const values = [{ a: [1, 'ü\n\u2028"😀'], b: null }, null, true, 0.5, '', [], 'x'.repeat(300_000)]

describe('messages', () => {
  for (const [name, command] of Object.entries(runtimes)) {
    itHolds(`arrive in order, as they were sent, with ${name}`, async ({ sandbox }) => {
      const process = await sandbox.startProcess([...command, echo], { ipc: true })
      await Promise.all(values.map((value) => process.send(value)))
      expect(await take(process, values.length)).toEqual(values)
      await process.send('bye')
      expect(await all(process)).toEqual(['bye'])
      expect(await process.waitForExit({ timeout: 30_000 })).toMatchObject({ exitCode: 0 })
    })

    itHolds(`show a child its disconnection behind all messages, with ${name}`, async ({ sandbox }) => {
      const program = `let count = 0
        process.on('message', () => count++)
        process.on('disconnect', () => console.log(count, process.connected))`
      const process = await sandbox.startProcess([...command, program], { ipc: true })
      const sent = Array.from({ length: 100 }, (_, index) =>
        process.send({ index, text: 'x'.repeat(10_000) }),
      )
      await Promise.all([...sent, process.disconnect()])
      expect(await process.waitForExit({ timeout: 30_000 })).toMatchObject({ exitCode: 0 })
      expect((await process.getLogs()).stdout).toBe('100 false\n')
      expect(await rejectionOf(process.send(1))).toMatchObject({ code: 'CHANNEL_CLOSED' })
      await process.disconnect()
    })
  }

  itHolds('can be left and read on, by any of several loops, each once', async ({ sandbox }) => {
    const process = await startEcho(sandbox)
    const numbers = Array.from({ length: 1000 }, (_, index) => index)
    const sending = Promise.all(numbers.map((number) => process.send(number)))
    expect(await take(process, 10)).toEqual(numbers.slice(0, 10))
    expect(await take(process, 1)).toEqual([10])
    expect((await process.messages().next()).value).toBe(11)
    const again = await sandbox.getProcess(process.id)
    const [one, two] = await Promise.all([take(process, 100), take(process, 100)])
    expect([...one, ...two].sort((a, b) => Number(a) - Number(b))).toEqual(numbers.slice(12, 212))
    await sending
    expect(await take(again as Process, 700)).toEqual(numbers.slice(212, 912))
    await process.kill()
  })

  itHolds('are not lost when a wait for them is aborted, or a loop ends meanwhile', async ({ sandbox }) => {
    const process = await startEcho(sandbox)
    const controller = new AbortController()
    const waiting = process.messages({ signal: controller.signal }).next()
    const ended = process.messages()
    const ending = ended.next()
    controller.abort('enough')
    expect(await rejectionOf(waiting)).toMatchObject({ code: 'ABORT_ERR', cause: 'enough' })
    expect(await ended.return?.()).toEqual({ done: true, value: undefined })
    expect(await ending).toEqual({ done: true, value: undefined })
    expect(await ended.next()).toEqual({ done: true, value: undefined })
    const aborted = process.messages({ signal: AbortSignal.abort('before') })
    expect(await rejectionOf(aborted.next())).toMatchObject({ code: 'ABORT_ERR', cause: 'before' })
    await process.send('kept')
    expect(await take(process, 1)).toEqual(['kept'])
    await process.kill()
  })

  itHolds('end with the process, after those that it has sent', async ({ sandbox }) => {
    const process = await startText(sandbox, 'echo 1 >&9; echo 2 >&9; sleep 600 & exit 3')
    await process.waitForExit({ timeout: 30_000 })
    expect(await all(process)).toEqual([1, 2])
    expect(await all(process)).toEqual([])
    expect(await rejectionOf(process.send(1))).toMatchObject({ code: 'CHANNEL_CLOSED' })
    const closed = await sandbox.startProcess('exec {NODE_CHANNEL_FD}>&-; exec sleep 600', { ipc: true })
    expect(await all(closed)).toEqual([])
    expect(await rejectionOf(closed.send(1))).toMatchObject({ code: 'CHANNEL_CLOSED' })
    await closed.kill()
  })

  itHolds('are refused with the reason if JSON does not have them', async ({ sandbox }) => {
    const process = await startEcho(sandbox)
    const circle: { self?: unknown } = {}
    circle.self = circle
    const bad = [1n, circle, undefined, () => {}, Symbol('s'), { toJSON: () => undefined }]
    for (const error of await rejectionsOf(bad.map((value) => process.send(value)))) {
      expect(error).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
      expect(error.message).toMatch(/^message (cannot be written as JSON|must be a value that JSON has)/)
    }
    const own = await rejectionOf(process.send({ cmd: 'NODE_HANDLE' }))
    expect(own).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining('NODE_') })
    const large = await rejectionOf(process.send('ü'.repeat(8 * 1024 * 1024)))
    expect(large).toMatchObject({ code: 'MESSAGE_TOO_LARGE' })
    await process.send({ cmd: 'NODE_', text: '{"cmd":"NODE_X"}' })
    expect(await take(process, 1)).toEqual([{ cmd: 'NODE_', text: '{"cmd":"NODE_X"}' }])
    await process.kill()
  })

  itHolds('need a process with `ipc`, which no service has', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo "${NODE_CHANNEL_FD-none}"; exec sleep 600')
    const calls = [process.send(1), process.messages().next(), process.disconnect()]
    for (const error of await rejectionsOf(calls))
      expect(error).toMatchObject({
        name: 'OptionError',
        message: expect.stringContaining('needs a process that was started with ipc: true'),
      })
    await process.waitForLog('none')
    await process.kill()
    const options = { healthCheck: { log: 'x' }, ipc: true } as unknown as Parameters<
      AnySandbox['startService']
    >[1]
    expect(await rejectionOf(sandbox.startService('echo x', options))).toMatchObject({
      name: 'OptionError',
      message: expect.stringContaining('ipc must be false'),
    })
    expect(thrownBy(() => process.messages({ from: 1 } as object))).toMatchObject({ code: 'INVALID_OPTION' })
  })

  itHolds('report lines that are none, and go on behind them', async ({ sandbox }) => {
    const lines = [
      '1',
      'two',
      '{"a"',
      '',
      '3',
      "{cmd:'NODE_X'}",
      '"\\xff"',
      '[',
      '{"cmd":"NODE_OWN"}',
      '\\x02{}',
      '4',
    ]
    const process = await startText(
      sandbox,
      `printf '${lines.join('\\n').replaceAll("'", "'\\''")}\\n[5' >&9`,
    )
    const invalid = 'INVALID_MESSAGE'
    const expected = [1, invalid, invalid, invalid, 3, invalid, '\ufffd', invalid, 4, invalid]
    expect(await all(process)).toEqual(expected)
    const named = await startText(sandbox, 'echo "{oops" >&9')
    const error = await rejectionOf(named.messages().next())
    expect(error).toMatchObject({ code: 'INVALID_MESSAGE' })
    expect(error.message).toBe(`process '${named.id}' has sent a line that is no JSON: "{oops"`)
  })

  itHolds('report lines that are none once, also behind lines of the runtime', async ({ sandbox }) => {
    const own = '{"cmd":"NODE_OWN"}\\n\\x02{}\\n'
    const process = await startText(sandbox, `printf '${own}bad\\n${own}bad\\n1\\n' >&9`)
    expect(await all(process)).toEqual(['INVALID_MESSAGE', 'INVALID_MESSAGE', 1])
    expect(await all(process)).toEqual([])
  })

  itHolds('have at most 1000 levels, so that all programs can write them as JSON', async ({ sandbox }) => {
    const text = `deep() { printf '[%.0s' $(seq $1); printf ']%.0s' $(seq $1); echo; }
      for n in 1000 1001 8000 100000; do deep $n; echo $n; done >&9`
    const taken = await all(await startText(sandbox, text))
    const invalid = 'INVALID_MESSAGE'
    expect(JSON.stringify(taken.shift())).toHaveLength(2000)
    expect(taken).toEqual([1000, invalid, 1001, invalid, 8000, invalid, 100_000])
    const process = await startEcho(sandbox)
    const deep = (levels: number) => JSON.parse('['.repeat(levels) + ']'.repeat(levels))
    for (const levels of [1001, 100_000]) {
      const error = await rejectionOf(process.send({ wide: Array(1000).fill(1), deep: deep(levels - 1) }))
      expect(error).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
      expect(error.message).toMatch(/^message (must have at most 1000 levels|cannot be written as JSON)/)
    }
    await process.send({ wide: Array(1000).fill(1), deep: deep(999) })
    expect(await take(process, 1)).toHaveLength(1)
    await process.kill()
  })

  itHolds('of one process reach the loops of several clients together', async ({ sandbox }) => {
    const process = await startEcho(sandbox)
    const other = (await sandbox.getProcess(process.id)) as Process
    const numbers = Array.from({ length: 200 }, (_, index) => index)
    const reading = Promise.all([process, other].map(untilBye))
    await Promise.all(numbers.map((number) => process.send(number)))
    await process.send('bye')
    const taken = await reading
    // None is lost, and each gets its own in order.
    expect([...new Set(taken.flat())].sort((a, b) => a - b)).toEqual(numbers)
    for (const own of taken) expect(own).toEqual([...own].sort((a, b) => a - b))
  })

  itHolds('do not include those of Node.js itself; its sockets are refused', async ({ sandbox }) => {
    const program = `
      const server = require('node:net').createServer().listen(0, '127.0.0.1', () => {
        process.send('with a server', server)
        process.send('behind it')
      })
      process.on('message', () => process.exit(7))
      process.send({ cmd: 'NODE_DEBUG_ENABLED' })
      process.send('before')`
    const process = await sandbox.startProcess(['node', '-e', program], { ipc: true })
    expect(await take(process, 2)).toEqual(['before', 'behind it'])
    await process.send('end')
    expect(await process.waitForExit({ timeout: 30_000 })).toMatchObject({ exitCode: 7 })
  })

  itHolds('make the process wait while nothing reads them', async ({ sandbox }) => {
    const process = await startText(
      sandbox,
      'for ((i = 0; i < 300; i++)); do printf "\\"%065536d\\"\\n" "$i" >&9; done; echo written',
    )
    expect(Number((await process.messages().next()).value)).toBe(0)
    // 20 MB fit nowhere between the two.
    expect((await process.getLogs()).stdout).toBe('')
    expect((await take(process, 299)).map(Number)).toEqual(
      Array.from({ length: 299 }, (_, index) => index + 1),
    )
    await process.waitForLog('written')
  })

  itHolds('wait while the process does not read, up to a limit', async ({ sandbox }) => {
    const process = await sandbox.startProcess('exec sleep 600', { ipc: true })
    // More than the kernel takes.
    const large = 'x'.repeat(10_000_000)
    let isSent = false
    const first = process.send(large).then(() => {
      isSent = true
    })
    const rest = rejectionsOf([first, ...Array.from({ length: 3 }, () => process.send(large))])
    await sandbox.exec('true')
    expect(isSent).toBe(false)
    await process.kill()
    for (const error of await rest) expect(error).toMatchObject({ code: 'CHANNEL_CLOSED' })
  })

  itHolds('of more than 16 MiB close the channel', async ({ sandbox }) => {
    const text = `echo 1 >&9; head -c 20000000 /dev/zero | tr '\\0' 1 >&9 2>/dev/null; echo "end \${PIPESTATUS[1]}"`
    const process = await startText(sandbox, text)
    expect(await all(process)).toEqual([1, 'MESSAGE_TOO_LARGE'])
    // It does not wait for ever.
    await process.waitForExit({ timeout: 30_000 })
    expect((await process.getLogs()).stdout).toMatch(/^end [1-9]/)
    expect(await rejectionOf(process.send(1))).toMatchObject({ code: 'CHANNEL_CLOSED' })
    const largest = 'x'.repeat(16 * 1024 * 1024 - 2)
    const echoing = await startEcho(sandbox)
    await echoing.send(largest)
    expect((await take(echoing, 1))[0] === largest).toBe(true)
    const error = await rejectionOf(echoing.send(`${largest}x`))
    expect(error).toMatchObject({ code: 'MESSAGE_TOO_LARGE', message: expect.stringContaining('16777216') })
    await echoing.kill()
  })

  itHolds('do not concern other programs of the session, and work with a terminal', async ({ sandbox }) => {
    const look = 'echo "${NODE_CHANNEL_FD-none}"; ls -l /proc/self/fd | grep -c socket:'
    const before = (await sandbox.exec(look)).stdout
    const process = await startEcho(sandbox, { pty: true })
    expect((await sandbox.exec(look)).stdout).toBe(before)
    expect(before).toMatch(/^none\n/)
    await process.send('in a terminal')
    expect(await take(process, 1)).toEqual(['in a terminal'])
    await process.send('bye')
    await process.waitForExit({ timeout: 30_000 })
  })

  itHolds('are kept from a session that forbids their variable', async ({ sandbox }) => {
    await sandbox.exec('readonly NODE_CHANNEL_FD=3')
    const error = await rejectionOf(startEcho(sandbox))
    expect(error).toMatchObject({
      code: 'INVALID_ENV_NAME',
      message: expect.stringContaining('NODE_CHANNEL_FD'),
    })
  })
})

itHolds('a message is sent to what reads it late', async ({ sandbox }) => {
  const process = await sandbox.startProcess('read -r wait; exec node -e "$PROGRAM"', {
    ...{ ipc: true, input: 'pipe' as const },
    env: { PROGRAM: echo },
  })
  await process.send('early')
  await process.write('\n')
  expect(await take(process, 1)).toEqual(['early'])
  await holds(() => process.status === 'running')
  await process.kill()
})
