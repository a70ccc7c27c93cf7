/** exec is the same here and over HTTP. */
import { getEventListeners } from 'node:events'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { AbortError, SandboxError } from 'nacre'
import { describe, expect } from 'vitest'
import { all, endOf, printed, shapeOf, textOf } from '../helpers/stream.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { itHolds, processIn, running } from './helper.js'

describe('exec', () => {
  itHolds('gives the whole result, and keeps state', async ({ sandbox, directory }) => {
    const result = await sandbox.exec('X=5; echo out; echo err >&2; (exit 3)')
    expect(result).toMatchObject({
      success: false,
      exitCode: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'err\n',
      command: 'X=5; echo out; echo err >&2; (exit 3)',
      sessionId: 'default',
      cwd: directory,
      timedOut: false,
      cancelled: false,
      truncated: null,
      truncatedAt: null,
      sessionRestarted: false,
      denials: [],
    })
    expect(result.all).toMatch(/^(out\nerr|err\nout)\n$/)
    expect(result.duration).toBeGreaterThan(0)
    expect(Math.abs(Date.now() - Date.parse(result.timestamp))).toBeLessThan(60_000)
    expect(await sandbox.exec(['echo', '$X', "it's"])).toMatchObject({
      ...{ stdout: "$X it's\n", command: "echo '$X' 'it'\\''s'" },
    })
    expect((await sandbox.exec('true', { check: true })).success).toBe(true)
    expect((await sandbox.exec('echo $X', { stripFinalNewline: true })).all).toBe('5')
    expect((await sandbox.exec('kill -9 $$')).sessionRestarted).toBe(true)
  })

  itHolds('names what could not be restored', async ({ sandbox }) => {
    // bash prints this function in a form that it cannot read.
    await sandbox.exec('f() { cat <<A && cat <<B && cat <<C\n1\nA\n2\nB\n3\nC\n}')
    await rejectionOf(sandbox.exec('kill -9 $PPID; sleep 60'))
    const { lostState } = await sandbox.exec('true')
    expect(lostState).toEqual([{ kind: 'function', name: 'f', reason: expect.any(String) }])
  })

  itHolds('shows the line of the call in the stack of an error', async ({ sandbox }) => {
    const session = await sandbox.createSession()
    const ended = await sandbox.startProcess('exit 1')
    const calls: Array<[code: string, call: () => PromiseLike<unknown>]> = [
      ['COMMAND_FAILED', () => sandbox.exec('exit 1', { check: true })],
      ['COMMAND_FAILED', () => session.exec('exit 1', { check: true })],
      ['COMMAND_FAILED', () => sandbox.execStream('exit 1', { check: true }).result],
      ['COMMAND_FAILED', () => all(sandbox.execStream('exit 1', { check: true }).lines())],
      ['COMMAND_FAILED', () => sandbox.$.with({ check: true })`false`],
      ['COMMAND_TIMEOUT', () => sandbox.exec('sleep 60', { timeout: 20 })],
      ['OUTPUT_LIMIT', () => sandbox.exec('yes', { outputLimit: 100 })],
      ['PROCESS_EXITED_BEFORE_READY', () => sandbox.startService('exit 1', { healthCheck: { log: 'x' } })],
      ['SESSION_NOT_FOUND', () => sandbox.setEnvVars({ A: '1' }, { sessionId: 'none' })],
      ['JOB_NOT_FOUND', () => sandbox.jobs.wait('none')],
      ['CWD_NOT_FOUND', () => sandbox.startProcess('true', { cwd: '/missing' })],
      ['FILE_NOT_FOUND', () => sandbox.files.read('missing')],
      ['PROCESS_EXITED_BEFORE_READY', () => ended.waitForLog('never')],
    ]
    for (const [code, call] of calls) {
      const error = await rejectionOf(call())
      expect(error).toMatchObject({ code })
      expect(error.stack, `${code}: ${call}`).toContain('exec.test.ts')
    }
  })

  itHolds('gives lines instead of text', async ({ sandbox }) => {
    const command = "printf 'a\\r\\n\\nb\\n\\n'; printf 'c\\nd' >&2"
    const { stdout, stderr, all } = await sandbox.exec(command, { lines: true })
    expect([stdout, stderr]).toEqual([
      ['a', '', 'b', ''],
      ['c', 'd'],
    ])
    expect(all.toSorted()).toEqual(['', '', 'a', 'b', 'c', 'd'])
    const whole = await sandbox.exec(command, { lines: true, stripFinalNewline: false })
    expect([whole.stdout, whole.stderr]).toEqual([
      ['a\r\n', '\n', 'b\n', '\n'],
      ['c\n', 'd'],
    ])
    const bare = await sandbox.exec(command, { lines: true, stripFinalNewline: true })
    expect(bare.stdout).toEqual(stdout)
    expect(await sandbox.exec('true', { lines: true })).toMatchObject({ stdout: [], stderr: [], all: [] })
    expect((await sandbox.exec('echo; echo', { lines: true })).all).toEqual(['', ''])
    expect((await sandbox.$.with({ lines: true })`seq ${3}`).stdout).toEqual(['1', '2', '3'])
    const session = await sandbox.createSession()
    expect((await session.exec('seq 2', { lines: true })).all).toEqual(['1', '2'])
  })

  itHolds('shows callbacks text, and onComplete and errors lines', async ({ sandbox }) => {
    const seen: unknown[] = []
    await sandbox.exec('seq 2', {
      lines: true,
      onStdout: (text) => seen.push(text),
      onComplete: ({ stdout }) => seen.push(stdout),
    })
    expect(seen).toEqual(['1\n2\n', ['1', '2']])
    const options = { lines: true, check: true } as const
    const error = (await rejectionOf(sandbox.exec('seq 2; echo no >&2; exit 3', options))) as SandboxError
    expect(error.message).toMatch(/^`seq 2; .* exit code 3 after .*\nno$/)
    expect(error.result).toMatchObject({ stdout: ['1', '2'], stderr: ['no'], exitCode: 3 })
    const stream = sandbox.execStream('seq 2', { lines: true })
    const pieces: unknown[] = []
    for await (const event of stream) {
      if (event.type === 'stdout') pieces.push(event.data)
      if (event.type === 'complete') pieces.push(event.result.stdout)
    }
    expect(pieces).toEqual(['1\n2\n', ['1', '2']])
    expect((await stream.result).all).toEqual(['1', '2'])
  })

  itHolds('shows the place of omitted output as a line', async ({ sandbox }) => {
    for (const onStdout of [undefined, () => {}]) {
      const { stdout, truncated } = await sandbox.exec('seq 1 10000', {
        lines: true,
        maxBuffer: 200,
        onStdout,
      })
      expect(truncated?.stdout).toBeGreaterThan(48_000)
      const marker = `[${truncated?.stdout.toLocaleString('en-US')} bytes omitted]`
      expect(stdout.filter((line) => !/^\d+$/.test(line))).toEqual([marker])
      expect([stdout.at(0), stdout.at(-1)]).toEqual(['1', '10000'])
    }
  })

  itHolds(
    "keeps what the sandbox's maxBuffer says, with callbacks too",
    async ({ sandbox }) => {
      const plain = await sandbox.exec('seq 100000')
      const live = await sandbox.exec('seq 100000', { onStdout: () => {} })
      expect(live.stdout).toBe(plain.stdout)
      expect(live.truncated).toEqual(plain.truncated)
      expect(plain.stdout.length).toBeLessThan(1100)
      expect((await sandbox.execStream('seq 100000').result).stdout).toBe(plain.stdout)
      const own = await sandbox.exec('seq 100000', { maxBuffer: 5000, onStdout: () => {} })
      expect(own.stdout.length).toBeGreaterThan(4000)
    },
    { options: { maxBuffer: 1000 } },
  )

  itHolds('keeps megabytes by default, with callbacks too', async ({ sandbox }) => {
    let seen = 0
    const onStdout = ({ length }: { length: number }) => {
      seen += length
    }
    const options = { encoding: 'buffer', onStdout } as const
    const { stdout, truncated } = await sandbox.exec('head -c 10000000 /dev/zero', options)
    expect([stdout.length, seen, truncated]).toEqual([10_000_000, 10_000_000, null])
  })

  itHolds('refuses lines of bytes', async ({ sandbox }) => {
    const message = "lines must not be true with encoding 'buffer': only text has lines"
    const options = { lines: true, encoding: 'buffer' } as const
    for (const run of [
      () => sandbox.exec('touch ran', options),
      async () => sandbox.execStream('touch ran', options),
    ])
      expect(await rejectionOf(run())).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION', message })
    expect((await sandbox.exec('ls')).stdout).toBe('')
  })

  itHolds('keeps bytes exact', async ({ sandbox }) => {
    const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256)
    const { stdout, all } = await sandbox.exec('cat', { input: bytes, encoding: 'buffer' })
    expect(Buffer.compare(stdout, bytes)).toBe(0)
    expect(Buffer.compare(all, bytes)).toBe(0)
    const text = await sandbox.exec("printf 'a\\xffb\\r\\n\\0c'")
    expect(text.stdout).toBe('a\uFFFDb\r\n\0c')
  })

  itHolds('takes input of every kind, of any size', async ({ sandbox }) => {
    async function* items() {
      yield 'a\n'
      yield new Uint8Array([98, 10])
      yield ''
    }
    for (const input of [items(), Readable.from(['a\n', 'b\n']), new Blob(['a\nb\n']).stream(), 'a\nb\n'])
      expect((await sandbox.exec('cat', { input })).stdout).toBe('a\nb\n')
    const large = 'x'.repeat(3_000_000)
    expect((await sandbox.exec('wc -c', { input: large })).stdout.trim()).toBe('3000000')
    async function* numbered() {
      for (let block = 0; block < 64; block++) yield Buffer.alloc(65_536, block)
    }
    const { stdout } = await sandbox.exec('cat', { input: numbered(), encoding: 'buffer' })
    expect([stdout.length, stdout.every((byte, index) => byte === index >> 16)]).toEqual([2 ** 22, true])
    expect((await sandbox.exec('cat; echo end')).stdout).toBe('end\n')
  })

  itHolds('kills what reads from a source that fails', async ({ sandbox }) => {
    const error = new Error('no more')
    async function* broken() {
      yield 'a\n'
      throw error
    }
    const command = 'cat; sleep 60'
    expect(await rejectionOf(sandbox.exec(command, { input: broken() }))).toBe(error)
    const events = await all(sandbox.execStream(command, { input: broken() }))
    expect(endOf(events)).toBe(error)
    const errors: unknown[] = []
    const onError = (reported: unknown) => errors.push(reported)
    const process = await sandbox.startProcess(command, { input: broken(), onError })
    expect(await process.waitForExit()).toMatchObject({ reason: 'killed' })
    expect(errors).toEqual([error])
    const locked = new Blob(['x']).stream()
    locked.getReader()
    expect(await rejectionOf(sandbox.exec('touch ran', { input: locked }))).toBeInstanceOf(TypeError)
    const items = Readable.from([5])
    expect(await rejectionOf(sandbox.exec(command, { input: items }))).toMatchObject({
      ...{ code: 'INVALID_OPTION', message: expect.stringContaining('input must give') },
    })
    expect((await sandbox.exec('ls')).stdout).toBe('')
  })

  itHolds('closes the source of input at the end, and does not wait for it', async ({ sandbox }) => {
    let closed = 0
    async function* endless() {
      try {
        for (;;) yield 'y\n'
      } finally {
        closed++
      }
    }
    expect((await sandbox.exec('head -n 1', { input: endless() })).stdout).toBe('y\n')
    const process = await sandbox.startProcess('head -n 1', { input: endless() })
    expect(await process.waitForExit()).toMatchObject({ exitCode: 0 })
    expect((await process.getLogs()).stdout).toBe('y\n')
    await until(
      () => closed === 2 || undefined,
      () => `${closed} sources were closed`,
    )
    async function* stuck() {
      yield 'x\n'
      await new Promise(() => {})
    }
    expect((await sandbox.exec('read x; echo $x', { input: stuck() })).stdout).toBe('x\n')
  })

  itHolds('calls back for each stream, and line by line', async ({ sandbox }) => {
    const calls: Record<'out' | 'err' | 'lines', string[]> = { out: [], err: [], lines: [] }
    await sandbox.exec("printf 'ä\\r\\nb'; sleep 0.01; printf 'c\\n\\nd'; echo e >&2", {
      onStdout: (data) => calls.out.push(data),
      onStderr: (data) => calls.err.push(data),
      onLine: (line, stream) => calls.lines.push(`${stream} ${line}`),
    })
    expect([calls.out.join(''), calls.err.join('')]).toEqual(['ä\r\nbc\n\nd', 'e\n'])
    const linesOf = (stream: string) => calls.lines.filter((line) => line.startsWith(stream))
    expect(linesOf('stdout')).toEqual(['stdout ä', 'stdout bc', 'stdout ', 'stdout d'])
    expect(linesOf('stderr')).toEqual(['stderr e'])
  })

  itHolds('rejects with what a callback throws, and kills the command', async ({ sandbox }) => {
    for (const name of ['onStart', 'onOutput', 'onLine', 'onComplete']) {
      const error = new Error(`thrown in ${name}`)
      const callback = () => {
        throw error
      }
      const reports: unknown[] = []
      const options = { [name]: callback, onError: (reported: unknown) => reports.push(reported) }
      const command = name === 'onComplete' ? 'true' : 'echo x; sleep 60'
      expect(await rejectionOf(sandbox.exec(command, options))).toBe(error)
      if (name !== 'onOutput') continue
      const events = await all(sandbox.execStream('while :; do echo y; done', options))
      expect(shapeOf(events)).toBe('start error')
      expect([endOf(events), ...reports]).toEqual([error, error, error])
    }
  })

  itHolds('runs tagged templates, in which values are words and never parsed', async ({ sandbox }) => {
    const hostile = `$(id) "'; rm -rf / #\n\\`
    const { stdout } = await sandbox.$`printf '%s|' ${hostile} ${['a b', 7, '']} ${[]} ${10n} "\$HOME"`
    expect(stdout).toBe(`${hostile}|a b|7||10|$HOME|`)
    const $ = sandbox.$.with({ check: true }).with({ cwd: '/' })
    const error = await rejectionOf($`pwd; exit ${3}`)
    expect(error).toMatchObject({ code: 'COMMAND_FAILED', result: { stdout: '/\n', exitCode: 3 } })
    const session = await sandbox.createSession({ env: { NAME: 'one' } })
    expect((await session.$.with({ stripFinalNewline: true })`echo $NAME ${'two three'}`).stdout).toBe(
      'one two three',
    )
    const wrong = { not: 'a value' } as unknown as string
    expect(thrownBy(() => sandbox.$`echo ${'a'} ${wrong}`)).toMatchObject({
      code: 'INVALID_COMMAND',
      message: 'value 2 of a template must be a string, a number or a list of them, not an object',
    })
    expect(thrownBy(() => sandbox.$('ls' as never))).toMatchObject({
      code: 'INVALID_COMMAND',
      message: '$ must be the tag of a template; options go to $.with(options)',
    })
    expect(thrownBy(() => sandbox.$.with('ls' as never))).toMatchObject({ code: 'INVALID_OPTION' })
    expect(thrownBy(() => session.$.with({ timeOut: 1 } as never)`touch ran`)).toMatchObject({
      message: expect.stringMatching(/^session\.\$ has no option "timeOut"/),
    })
    expect((await sandbox.exec('ls')).stdout).toBe('')
  })

  itHolds('starts a template immediately, once, however it is read', async ({ sandbox }) => {
    const run = sandbox.$`echo ran >> runs; seq ${2}; echo e >&2`
    expect((await sandbox.exec('cat runs')).stdout).toBe('ran\n')
    const types: string[] = []
    for await (const event of run) types.push(event.type)
    expect([types.at(0), types.at(-1)]).toEqual(['start', 'complete'])
    const [one, two, three] = await Promise.all([run, run, run.result])
    expect(one).toMatchObject({ stdout: '1\n2\n', stderr: 'e\n', exitCode: 0 })
    expect([two, three]).toEqual([one, one])
    expect((await sandbox.exec('cat runs')).stdout).toBe('ran\n')
    const lines: string[] = []
    for await (const line of sandbox.$`seq 3`.lines()) lines.push(line)
    expect(lines).toEqual(['1', '2', '3'])
    expect((await sandbox.$`head -c 10000000 /dev/zero`).stdout).toHaveLength(10_000_000)
    const slow = sandbox.$`echo begun; sleep 60`
    for await (const event of slow) if (event.type === 'stdout') break
    expect(await slow).toMatchObject({ stdout: 'begun\n', signal: 'SIGTERM', cancelled: true })
  })

  itHolds('raises no unhandled rejection for a template that nothing awaits', async ({ sandbox }) => {
    const unhandled: unknown[] = []
    const note = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', note)
    try {
      const errors: unknown[] = []
      const run = sandbox.$.with({ check: true, onError: (error) => errors.push(error) })`exit 3`
      await holds(() => errors.length === 1)
      await new Promise(setImmediate)
      expect(await rejectionOf(run)).toBe(errors[0])
    } finally {
      process.off('unhandledRejection', note)
    }
    expect(unhandled).toEqual([])
  })

  itHolds('keeps the exact order of both streams with mergeOutput', async ({ sandbox }) => {
    const command =
      'for n in {1..200}; do echo $n; echo -$n >&2; done; bash -c "echo a >&2; echo b; echo c >&2"'
    const expected = Array.from({ length: 200 }, (_, at) => `${at + 1}\n-${at + 1}\n`).join('')
    const pieces: Array<[string, string]> = []
    const onOutput = (stream: string, text: string) => pieces.push([stream, text])
    const result = await sandbox.exec(command, { mergeOutput: true, onOutput })
    expect(result.stdout).toBe(`${expected}a\nb\nc\n`)
    expect(result.all).toBe(result.stdout)
    expect(result.stderr).toBe('')
    expect(new Set(pieces.map(([stream]) => stream))).toEqual(new Set(['stdout']))
    expect(pieces.map(([, text]) => text).join('')).toBe(result.stdout)
    expect((await sandbox.exec('echo out; echo err >&2')).stderr).toBe('err\n')
  })

  itHolds('cuts the middle out of output that is too long', async ({ sandbox }) => {
    const whole = Array.from({ length: 10_000 }, (_, index) => `${index + 1}\n`).join('')
    for (const maxBuffer of [0, 1, 10, 1000]) {
      const { stdout, stderr, truncated } = await sandbox.exec('seq 10000; echo e >&2', { maxBuffer })
      const missing = truncated?.stdout ?? 0
      const marker = `[${missing.toLocaleString('en-US')} bytes omitted]\n`
      const [head = '', tail = ''] = maxBuffer === 0 ? [] : stdout.split(marker)
      expect(stdout).toBe(maxBuffer === 0 ? '' : head + marker + tail)
      expect([whole.startsWith(head), whole.endsWith(tail)]).toEqual([true, true])
      expect(head === '' || head.endsWith('\n')).toBe(true)
      expect(missing).toBe(whole.length - head.length - tail.length)
      expect(head.length + tail.length).toBeGreaterThan(maxBuffer - 12)
      expect([maxBuffer > 1, truncated?.stderr]).toEqual(stderr === 'e\n' ? [true, 0] : [false, 2])
    }
    const { stdout, truncated } = await sandbox.exec('seq 100000', { maxBuffer: 100 })
    expect(truncated).toEqual({ stdout: 588_798, stderr: 0 })
    // With a callback the output is on its way as bytes.
    const live = await sandbox.exec('seq 100000', { maxBuffer: 100, onOutput() {} })
    expect([live.stdout, live.truncated]).toEqual([stdout, truncated])
    const bytes = await sandbox.exec('printf 0123456789', { maxBuffer: 5, encoding: 'buffer' })
    expect([Buffer.from(bytes.stdout).toString(), bytes.truncated]).toEqual([
      '01789',
      { stdout: 5, stderr: 0 },
    ])
    expect(bytes.truncatedAt).toEqual({ stdout: 2, stderr: 0 })
    const letters = await sandbox.exec("printf 'äöüäöü'", { maxBuffer: 6 })
    expect([letters.stdout, letters.all]).toEqual(Array(2).fill('ä\n[8 bytes omitted]\nü'))
    const exact = await sandbox.exec('printf 12345', { maxBuffer: 5 })
    expect([exact.stdout, exact.truncated]).toEqual(['12345', null])
  })

  itHolds('ends a command that prints more than outputLimit, and keeps that much', async ({ sandbox }) => {
    const endless = await rejectionOf(sandbox.exec('yes', { outputLimit: 1000 }))
    const result = { stdout: 'y\n'.repeat(500), stderr: '', success: false }
    expect(endless).toMatchObject({ code: 'OUTPUT_LIMIT', result })
    const both = 'printf 12345; printf 67890 >&2'
    expect(await sandbox.exec(both, { outputLimit: 10 })).toMatchObject({ stdout: '12345', stderr: '67890' })
    const over = (await rejectionOf(sandbox.exec(both, { outputLimit: 9 }))) as SandboxError
    expect([over.code, over.result?.all.length]).toEqual(['OUTPUT_LIMIT', 9])
    const events = await all(sandbox.execStream('yes', { outputLimit: 100_000 }))
    expect(textOf(events)).toHaveLength(100_000)
    expect(endOf(events)).toMatchObject({ code: 'OUTPUT_LIMIT' })
  })

  itHolds('says where output is missing, and marks it in `all`, with callbacks too', async ({ sandbox }) => {
    const command = 'echo é; seq 1000; seq 1000 >&2; echo e >&2'
    for (const options of [{}, { onOutput() {} }]) {
      const { stdout, stderr, all, truncated, truncatedAt } = await sandbox.exec(command, {
        ...options,
        maxBuffer: 30,
      })
      const at = {
        stdout: Buffer.from(stdout).indexOf('['),
        stderr: Buffer.from(stderr).indexOf('['),
      }
      expect([truncatedAt, at.stdout > 10, at.stderr > 10]).toEqual([at, true, true])
      const marks = [truncated?.stdout, truncated?.stderr].map(
        (bytes) => `[${bytes?.toLocaleString('en-US')} bytes omitted]`,
      )
      const lines = all.split('\n')
      expect(lines.filter((line) => line.startsWith('[')).toSorted()).toEqual(marks.toSorted())
      expect(lines.toSorted()).toEqual((stdout + stderr).split('\n').toSorted())
    }
    const one = await sandbox.exec('seq 1000; echo e >&2', { maxBuffer: 20 })
    expect([one.truncatedAt?.stderr, one.truncated?.stderr]).toEqual([0, 0])
    expect((await sandbox.exec('seq 3', { onOutput() {} })).truncatedAt).toBeNull()
    const none = await sandbox.exec('seq 3', { maxBuffer: 0 })
    expect(none).toMatchObject({ truncated: { stdout: 6, stderr: 0 }, truncatedAt: { stdout: 0, stderr: 0 } })
  })

  itHolds('calls back while it runs', async ({ sandbox }) => {
    const calls: unknown[] = []
    const { stdout } = await sandbox.exec('echo $$; echo b >&2', {
      onStart: ({ command, pid, sessionId }) => calls.push([command, `${pid}\n`, sessionId]),
      onOutput: (stream, data) => calls.push([stream, data]),
      onComplete: ({ exitCode }) => calls.push(exitCode),
      onError: () => calls.push('error'),
    })
    expect(calls[0]).toEqual(['echo $$; echo b >&2', stdout, 'default'])
    expect(calls).toContainEqual(['stdout', stdout])
    expect(calls).toContainEqual(['stderr', 'b\n'])
    expect([calls.length, calls.at(-1)]).toEqual([4, 0])
  })

  itHolds('joins both streams in `all` as they came', async ({ sandbox, directory }) => {
    for (const odd of ['', '\\xff']) {
      // Each piece is printed when the callback has received the one before: only then is their order sure.
      const prints = ['echo 1', 'echo 2 >&2', `printf 'ü${odd}\\n'`, 'echo 4 >&2']
      const gate = (index: number) => path.join(directory, `gate${odd.length}-${index}`)
      const command = prints.map((print, at) => `${print}; until [ -e ${gate(at)} ]; do sleep 0.01; done`)
      const run = async <E extends 'utf8' | 'buffer'>(encoding: E) => {
        let pieces = 0
        const onOutput = () => writeFileSync(gate(pieces++), '')
        const result = await sandbox.exec(command.join('; '), { encoding, onOutput, stripFinalNewline: true })
        await sandbox.exec('rm gate*')
        return result
      }
      const text = odd === '' ? 'ü' : 'ü\ufffd'
      const { stdout, stderr, all } = await run('utf8')
      expect([stdout, stderr, all]).toEqual([`1\n${text}`, '2\n4', `1\n2\n${text}\n4`])
      expect(Buffer.from((await run('buffer')).all).toString()).toBe(all)
    }
    // Without a callback, nothing says when a line has arrived: the command waits for far longer than that takes.
    const { all } = await sandbox.exec('echo 1; sleep 0.3; echo 2 >&2; sleep 0.3; echo ü')
    expect(all).toBe('1\n2\nü\n')
  })

  itHolds('rejects with the same errors', async ({ sandbox }) => {
    const errors: unknown[] = []
    const failed = await rejectionOf(
      sandbox.exec('echo x; exit 3', { check: true, onError: (e) => errors.push(e) }),
    )
    expect(failed).toBeInstanceOf(SandboxError)
    expect(failed).toMatchObject({
      name: 'SandboxError',
      code: 'COMMAND_FAILED',
      result: { stdout: 'x\n', exitCode: 3 },
    })
    expect(errors).toEqual([failed])
    const late = await rejectionOf(sandbox.exec('echo x; sleep 60', { timeout: 1000 }))
    expect(late).toMatchObject({
      ...{ code: 'COMMAND_TIMEOUT', message: expect.stringContaining('1000 ms') },
      result: { stdout: 'x\n', timedOut: true, cancelled: false },
    })
    expect(await rejectionOf(sandbox.exec('true', { sessionId: 'none' }))).toMatchObject({
      code: 'SESSION_NOT_FOUND',
    })
    expect(await rejectionOf(sandbox.exec('touch ran', { cwd: '/proc/does/not/exist' }))).toMatchObject({
      ...{ code: 'CWD_NOT_FOUND', message: expect.stringContaining('/proc/does/not/exist') },
    })
    expect((await sandbox.exec('ls')).stdout).toBe('')
  })

  itHolds(
    'has the timeout of the sandbox, and none with 0',
    async ({ sandbox }) => {
      expect(await rejectionOf(sandbox.exec('sleep 60'))).toMatchObject({ code: 'COMMAND_TIMEOUT' })
      expect(await sandbox.exec('sleep 1; echo x', { timeout: 0 })).toMatchObject({ stdout: 'x\n' })
    },
    { options: { timeout: 300 } },
  )

  itHolds('counts the timeout from the call, and names what the command waited for', async ({ sandbox }) => {
    await sandbox.exec('true')
    const long = sandbox.execStream('echo up; read line', { input: 'pipe' })
    await printed(long[Symbol.asyncIterator]())
    const error = await rejectionOf(sandbox.exec('touch ran', { timeout: 200 }))
    expect(error).toMatchObject({
      code: 'COMMAND_TIMEOUT',
      result: { timedOut: true, exitCode: null, killedBy: { by: 'timeout' } },
    })
    expect(error.message).toMatch(
      /did not start within its timeout, since the command `echo up; read line` has run in its session since \d{4}-/,
    )
    await long.closeInput()
    await long.result
    expect((await sandbox.exec('ls', { timeout: 60_000 })).stdout).toBe('')
  })

  itHolds(
    'counts the wait for an earlier command and the run as one time',
    async ({ sandbox, directory }) => {
      await sandbox.exec('true')
      const long = sandbox.execStream(`until [ -e ${directory}/go ]; do sleep 0.01; done`).result
      const late = rejectionOf(sandbox.exec(`touch ${directory}/go`, { timeout: 200 }))
      expect((await late).message).toContain('since the command `until')
      const next = rejectionOf(sandbox.exec('echo begun; sleep 600', { timeout: 2000 }))
      writeFileSync(path.join(directory, 'go'), '')
      await long
      expect(await next).toMatchObject({
        code: 'COMMAND_TIMEOUT',
        result: { stdout: 'begun\n', signal: 'SIGTERM' },
      })
    },
  )
})

describe('aborting', () => {
  itHolds(
    'kills the command with its tree, and rejects when nothing is left',
    async ({ sandbox, directory }) => {
      const controller = new AbortController()
      let child: string | undefined
      const run = rejectionOf(
        sandbox.exec('sleep 62 & echo $! > child; echo x; wait', {
          signal: controller.signal,
          onOutput: () => {
            child = processIn(path.join(directory, 'child'))
            controller.abort('why')
          },
        }),
      )
      const error = await run
      expect(error).toBeInstanceOf(AbortError)
      expect(error).toMatchObject({
        name: 'AbortError',
        code: 'ABORT_ERR',
        cause: 'why',
        result: { stdout: 'x\n', cancelled: true },
      })
      expect(child).toBeDefined()
      expect(running()).not.toContain(child)
      const timed = await rejectionOf(sandbox.exec('sleep 60', { signal: AbortSignal.timeout(50) }))
      expect([timed.name, (timed.cause as Error).name]).toEqual(['AbortError', 'TimeoutError'])
    },
  )

  itHolds('input of any size arrives', async ({ sandbox }) => {
    const piece = 'ab\n'.repeat(6_000_000)
    async function* pieces() {
      yield piece
      yield 'end'
    }
    expect((await sandbox.exec('wc -c; echo', { input: pieces() })).stdout.trim()).toBe('18000003')
    const process = await sandbox.startProcess('wc -c', { input: piece })
    await process.waitForExit()
    expect((await process.getLogs()).stdout.trim()).toBe('18000000')
  })

  itHolds('runs nothing when it came first, or while it waits for its turn', async ({ sandbox }) => {
    const error = await rejectionOf(sandbox.exec('touch ran', { signal: AbortSignal.abort('no') }))
    expect(error).toMatchObject({ name: 'AbortError', cause: 'no' })
    const controller = new AbortController()
    const first = sandbox.exec('read -r line < /dev/null; sleep 0.3')
    const second = rejectionOf(sandbox.exec('touch ran', { signal: controller.signal }))
    controller.abort()
    expect(await second).toMatchObject({ name: 'AbortError' })
    expect('result' in (await second)).toBe(false)
    await first
    expect((await sandbox.exec('ls')).stdout).toBe('')
    const late = new AbortController()
    expect((await sandbox.exec('echo x', { signal: late.signal })).stdout).toBe('x\n')
    expect(getEventListeners(late.signal, 'abort')).toEqual([])
    late.abort()
    expect((await sandbox.exec('echo y')).stdout).toBe('y\n')
  })
})
