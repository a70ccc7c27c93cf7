/** `WriteStdin`, `SendSignal` and `ResizeTTY` of sandboxd. */
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { begun, ended } from './ended.js'
import { type Place, type Started, statusName, withSandboxd } from './place.js'

const failed = (call: Promise<object>) =>
  call.then(
    () => 'OK',
    (error) => statusName(error),
  )

const signal = (place: Place, process_id: number, number: number) =>
  place.call('SendSignal', { process_id, signal: number })

const resize = (place: Place, process_id: number, cols: number, rows: number) =>
  place.call('ResizeTTY', { process_id, cols, rows })

/** An interactive bash in a terminal, at its prompt. */
async function shell(place: Place, pty: object = { cols: 100, rows: 30 }): Promise<[Started, number]> {
  const started = place.start(
    { command: ['bash', '--norc', '--noprofile', '-i'], env_vars: { PS1: '> ' } },
    { pty },
  )
  const id = await started.id()
  await started.printed('> ')
  return [started, id]
}

describe('WriteStdin', () => {
  it('passes 10 MB through a program exactly', () =>
    withSandboxd(async (place) => {
      const bytes = Buffer.alloc(10_000_000)
      for (let index = 0; index < bytes.length; index++) bytes[index] = (index * 31 + (index >> 9)) & 0xff
      const started = place.start({ command: ['cat'] })
      const id = await started.id()
      const hash = createHash('sha256')
      let length = 0
      const read = (async () => {
        for await (const { stdout, exit } of started) {
          if (exit != null) return exit.exit_code
          if (stdout != null) {
            length += stdout.length
            hash.update(stdout)
          }
        }
        return undefined
      })()
      for (let start = 0; start < bytes.length; start += 1_000_003)
        await place.writeStdin(id, bytes.subarray(start, start + 1_000_003))
      await place.closeInput(id)
      expect(await read).toBe(0)
      expect(length).toBe(bytes.length)
      expect(hash.digest('hex')).toBe(createHash('sha256').update(bytes).digest('hex'))
    }))

  it('keeps the order of calls that do not wait for one another', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['cat'] })
      const id = await started.id()
      const lines = Array.from({ length: 300 }, (_, index) => `line ${index}\n`)
      await Promise.all([...lines.map((line) => place.writeStdin(id, line)), place.closeInput(id)])
      expect((await started.all()).stdout.toString()).toBe(lines.join(''))
    }))

  it('waits for a program that does not read, until the deadline of the call', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sleep', '67'] })
      const id = await started.id()
      const request = { process_id: id, input: Buffer.alloc(2_000_000) }
      const late = place.call('WriteStdin', request, { deadline: Date.now() + 500 })
      expect(await failed(late)).toBe('DEADLINE_EXCEEDED')
      started.stream.cancel()
      await ended(place)
    }))

  it('refuses input beyond what it holds for programs that do not read', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sleep', '67'] })
      const id = await started.id()
      const calls = Array.from({ length: 20 }, () => failed(place.writeStdin(id, Buffer.alloc(4_000_000))))
      expect(
        await Promise.any(
          calls.map(async (call) => ((await call) === 'RESOURCE_EXHAUSTED' ? call : Promise.reject())),
        ),
      ).toBe('RESOURCE_EXHAUSTED')
      started.stream.cancel()
      await ended(place)
      await Promise.all(calls)
    }))

  it('refuses what makes no sense, and accepts a second end', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sh', '-c', 'cat; sleep 67'] })
      const id = await started.id()
      expect(await failed(place.call('WriteStdin', { process_id: id }))).toBe('INVALID_ARGUMENT')
      expect(await failed(place.writeStdin(id, ''))).toBe('OK')
      await place.closeInput(id)
      expect(await failed(place.closeInput(id))).toBe('OK')
      expect(await failed(place.writeStdin(id, 'x'))).toBe('FAILED_PRECONDITION')
      const large = place.writeStdin(id, Buffer.alloc(5_000_000))
      expect(await failed(large)).toBe('RESOURCE_EXHAUSTED')
      started.stream.cancel()
      await ended(place)
    }))
})

describe('an unknown process, or one that has ended', () => {
  it('is NOT_FOUND for every call', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sh', '-c', 'read line; seq 200000'] })
      const id = await started.id()
      await place.writeStdin(id, '\n')
      await started.printed('1')
      // What has been printed may still be on its way.
      await ended(place, /sh -c read|seq/)
      for (const number of [id, 0, -1, 424_242, 2_147_483_647]) {
        const calls = [
          place.writeStdin(number, 'x'),
          place.closeInput(number),
          signal(place, number, 15),
          resize(place, number, 80, 24),
        ]
        for (const code of await Promise.all(calls.map(failed))) expect(code).toBe('NOT_FOUND')
      }
      expect((await started.all()).exitCode).toBe(0)
    }))
})

describe('SendSignal', () => {
  it('reaches the process group, and no other process', () =>
    withSandboxd(async (place) => {
      const started = place.start({
        command: [
          'sh',
          '-c',
          'trap "echo caught" INT; sleep 66 & setsid sleep 67 & echo on; wait; wait; echo over',
        ],
      })
      const id = await started.id()
      await started.printed('on')
      await begun(place, /\d [RS] sleep 6[67] $/, 2)
      await signal(place, id, 2)
      await started.printed('caught')
      await signal(place, id, 15)
      expect((await started.all()).exitCode).toBe(143)
      await ended(place, /\d [RS] sleep 66/)
      await begun(place, /\d [RS] sleep 67/)
    }))

  it('sends nothing after a signal that the program survives', () =>
    withSandboxd(async (place) => {
      const started = place.start({
        command: [
          'bash',
          '-c',
          'trap "echo caught" TERM INT; echo on; while read -r line; do echo "$line"; done; echo end',
        ],
      })
      const id = await started.id()
      await started.printed('on')
      for (const number of [2, 15]) {
        await signal(place, id, number)
        await started.printed('caught')
      }
      await place.writeStdin(id, 'still here\n')
      await place.closeInput(id)
      const { stdout, exitCode } = await started.all()
      expect([stdout.toString(), exitCode]).toEqual(['still here\nend\n', 0])
    }))

  it('kills what ignores other signals', () =>
    withSandboxd(async (place) => {
      const started = place.start({
        command: ['sh', '-c', 'trap "" INT TERM; echo on; while :; do sleep 0.1; done'],
      })
      const id = await started.id()
      await started.printed('on')
      await signal(place, id, 9)
      expect((await started.all()).exitCode).toBe(137)
    }))

  it('refuses every other number', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sleep', '67'] })
      const id = await started.id()
      for (const number of [0, 1, 3, 19, 64, -1])
        expect(await failed(signal(place, id, number))).toBe('INVALID_ARGUMENT')
      await signal(place, id, 9)
      expect((await started.all()).exitCode).toBe(137)
    }))
})

describe('a terminal', () => {
  it('has its size, and its program owns it', () =>
    withSandboxd(async (place) => {
      const started = place.start(
        { command: ['sh', '-c', 'stty size; tty; echo err >&2; echo $TERM'] },
        { pty: { cols: 101, rows: 31 } },
      )
      await started.id()
      const { stdout, stderr, exitCode } = await started.all()
      expect(stdout.toString()).toMatch(/^31 101\r\n\/dev\/pts\/\d+\r\nerr\r\n\S+\r\n$/)
      expect([stderr.length, exitCode]).toEqual([0, 0])
    }))

  it('has 80 columns and 24 rows when no size is given', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['stty', 'size'] }, { pty: {} })
      await started.id()
      expect((await started.all()).stdout.toString()).toBe('24 80\r\n')
    }))

  it('is resized, and the program is notified', () =>
    withSandboxd(async (place) => {
      const started = place.start(
        { command: ['bash', '-c', 'trap "stty size" WINCH; echo on; while :; do sleep 0.05; done'] },
        { pty: { cols: 80, rows: 24 } },
      )
      const id = await started.id()
      await started.printed('on')
      await resize(place, id, 132, 43)
      await started.printed('43 132')
      for (const [cols, rows] of [
        [0, 24],
        [80, 0],
        [70_000, 24],
      ])
        expect(await failed(resize(place, id, cols ?? 0, rows ?? 0))).toBe('INVALID_ARGUMENT')
      started.stream.cancel()
      await ended(place)
    }))

  it('refuses sizes that no terminal has', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['true'] }, { pty: { cols: 65_536, rows: 24 } })
      expect(statusName(await started.all().catch((error) => error))).toBe('INVALID_ARGUMENT')
    }))

  it('is missing without pty, which ResizeTTY refuses', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sleep', '67'] })
      const id = await started.id()
      expect(await failed(resize(place, id, 80, 24))).toBe('FAILED_PRECONDITION')
      started.stream.cancel()
      await ended(place)
    }))

  it('reaches its end of input by eof, also in the middle of a line', () =>
    withSandboxd(async (place) => {
      for (const [input, output] of [
        ['', 'over\r\n'],
        ['line\n', 'line\r\nline\r\nover\r\n'],
        ['part', 'partpartover\r\n'],
      ] as const) {
        const started = place.start({ command: ['sh', '-c', 'cat; echo over; cat'] }, { pty: {} })
        const id = await started.id()
        let seen = ''
        if (input !== '') await place.writeStdin(id, input)
        // The terminal echoes the input, and cat the lines.
        while (!seen.endsWith(output.slice(0, output.indexOf('over')).replace('partpart', 'part')))
          seen += ((await started.next()).stdout ?? '').toString()
        await place.closeInput(id)
        seen += await started.printed('over\r\n')
        expect(seen).toBe(output)
        // The second cat waits: it has not received an end of its own.
        await begun(place, /\d [RS] cat/)
        started.stream.cancel()
        await ended(place)
      }
    }))

  it('interrupts by Ctrl-C what runs in the foreground, and not the shell', () =>
    withSandboxd(async (place) => {
      const [started, id] = await shell(place)
      await place.writeStdin(id, 'sleep 67\n')
      await begun(place, /sleep 67/)
      await place.writeStdin(id, '\x03')
      await ended(place, /sleep 67/)
      await place.writeStdin(id, 'echo "code $?"\n')
      await started.printed('code 130')
      await place.writeStdin(id, 'exit 3\n')
      expect((await started.all()).exitCode).toBe(3)
    }))

  it('has job control', () =>
    withSandboxd(async (place) => {
      const [started, id] = await shell(place)
      await place.writeStdin(id, 'sleep 67\n')
      await begun(place, /sleep 67/)
      await place.writeStdin(id, '\x1a')
      await started.printed('Stopped')
      await place.writeStdin(id, 'jobs; kill %1; wait; echo over\n')
      await started.printed('over\r\n')
      await ended(place, /sleep 67/)
      // End of file, as Ctrl-D.
      await place.closeInput(id)
      expect((await started.all()).exitCode).toBe(0)
    }))
})
