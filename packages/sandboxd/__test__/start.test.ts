/** `Start` of sandboxd: order, bytes, ends of calls. */
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { bytes } from '../../../__test__/helpers/proc.js'
import { until } from '../../../__test__/helpers/until.js'
import { begun, ended, running } from './ended.js'
import { Place, statusName, withSandboxd } from './place.js'
import { relayTo } from './relay.js'

/** It resists signals and has children that have left its group, its session and its parent. */
const ESCAPING = [
  'bash',
  '-c',
  'trap "" TERM INT HUP; setsid sleep 67 & (setsid nohup sleep 67 >/dev/null 2>&1 &); sleep 67 & wait',
]

describe('Start', () => {
  it('sends init first, then the output, then exit', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sh', '-c', 'echo out; echo err >&2; exit 7'] })
      expect(await started.id()).toBeGreaterThan(0)
      const { stdout, stderr, exitCode } = await started.all()
      expect([stdout.toString(), stderr.toString(), exitCode]).toEqual(['out\n', 'err\n', 7])
    }))

  it('sends output when it is printed, not when the program has ended', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sh', '-c', 'echo first; read line; echo "got $line"'] })
      const id = await started.id()
      expect(await started.printed('first')).toBe('first\n')
      await place.writeStdin(id, 'more\n')
      expect((await started.all()).stdout.toString()).toBe('got more\n')
    }))

  it('sends binary output exactly, in messages of at most 64 KiB', () =>
    withSandboxd(async (place) => {
      const bytes = Buffer.alloc(5_000_000)
      for (let index = 0; index < bytes.length; index++) bytes[index] = (index * 7 + (index >> 8)) & 0xff
      writeFileSync(path.join(place.root, 'binary'), bytes)
      const started = place.start({ command: ['sh', '-c', 'cat binary; cat binary >&2'] })
      await started.id()
      const { stdout, stderr, largest } = await started.all()
      expect([stdout.equals(bytes), stderr.equals(bytes)]).toEqual([true, true])
      expect(largest).toBeLessThanOrEqual(65_536)
    }))

  it('delivers everything that was printed before the exit, also without pauses', () =>
    withSandboxd(async (place) => {
      for (let round = 0; round < 20; round++) {
        const started = place.start({ command: ['sh', '-c', 'seq 20000; printf END'] })
        await started.id()
        expect((await started.all()).stdout.toString().endsWith('\n20000\nEND')).toBe(true)
      }
    }))

  it('reports 128 + n for a program that a signal ended, and the codes of programs', () =>
    withSandboxd(async (place) => {
      for (const [script, code] of [
        ['kill -KILL $$', 137],
        ['kill -INT $$', 130],
        ['exit 255', 255],
        ['true', 0],
      ] as const) {
        const started = place.start({ command: ['sh', '-c', script] })
        await started.id()
        expect((await started.all()).exitCode).toBe(code)
      }
    }))

  it('ends with the program, whatever it leaves in the background', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sh', '-c', 'sleep 67 & echo $!'] })
      await started.id()
      const { stdout, exitCode } = await started.all()
      expect(exitCode).toBe(0)
      process.kill(Number(stdout.toString()), 'SIGKILL')
    }))

  it('refuses a program that is not there by the status of the stream, without init', () =>
    withSandboxd(async (place) => {
      for (const [config, status] of [
        [{ command: ['no-such-program'] }, 'NOT_FOUND'],
        [{ command: [] }, 'INVALID_ARGUMENT'],
        [{ command: ['true'], cwd: '/etc' }, 'PERMISSION_DENIED'],
      ] as const) {
        const events: string[] = []
        const read = async () => {
          for await (const { event } of place.start({ ...config, command: [...config.command] }))
            events.push(event)
        }
        expect(statusName(await read().catch((error) => error))).toBe(status)
        expect(events).toEqual([])
      }
    }))

  it('gives each of 50 programs at a time its own number and its own output', () =>
    withSandboxd(async (place) => {
      const calls = Array.from({ length: 50 }, async (_, index) => {
        const started = place.start({ command: ['sh', '-c', `read line; echo "${index} $line"`] })
        const id = await started.id()
        return { started, id, index }
      })
      const all = await Promise.all(calls)
      expect(new Set(all.map(({ id }) => id)).size).toBe(50)
      await Promise.all(all.map(({ id }) => place.writeStdin(id, `line of ${id}\n`)))
      for (const { started, id, index } of all)
        expect((await started.all()).stdout.toString()).toBe(`${index} line of ${id}\n`)
    }))
})

describe('the end of a call of Start', () => {
  it('kills the whole tree when the client cancels', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ESCAPING })
      const id = await started.id()
      await begun(place, /sleep/, 3)
      started.stream.cancel()
      await ended(place)
      expect(statusName(await place.writeStdin(id, 'x').catch((error) => error))).toBe('NOT_FOUND')
    }))

  it('kills the whole tree at the deadline', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ESCAPING }, {}, { deadline: Date.now() + 600 })
      await started.id()
      await begun(place, /sleep/, 3)
      expect(statusName(await started.all().catch((error) => error))).toBe('DEADLINE_EXCEEDED')
      await ended(place)
    }))

  it('kills the whole tree at the deadline of a client that does not read', () =>
    withSandboxd(async (place) => {
      const command = ['sh', '-c', 'setsid sleep 67 & yes']
      const started = place.start({ command }, {}, { deadline: Date.now() + 1000 })
      await started.id()
      await begun(place, /yes/)
      await ended(place)
    }))

  it('kills the whole tree when the connection breaks', () =>
    withSandboxd(async (place) => {
      const relay = await relayTo(place.sandboxd.grpcPort)
      const other = new Place(place.serving, place.workplace, relay.port)
      try {
        const started = other.start({ command: ESCAPING })
        await started.id()
        await begun(place, /sleep/, 3)
        relay.cut()
        await ended(place)
      } finally {
        other.close()
        await relay.close()
      }
    }))

  it('starts nothing that outlives a call which is cancelled at once', () =>
    withSandboxd(async (place) => {
      for (let round = 0; round < 30; round++) {
        const started = place.start({ command: ['sleep', '67'] })
        setTimeout(() => started.stream.cancel(), round / 2)
        await started.all().catch(() => {})
      }
      // A program whose start was under way is killed as soon as it runs.
      await place.execute({ command: ['true'] })
      await ended(place)
    }))
})

describe('a slow reader', () => {
  it('holds the program back, and gets every byte when it reads on', () =>
    withSandboxd(async (place) => {
      const count = 3_000_000
      const started = place.start({
        command: ['sh', '-c', `seq -f %015.0f ${count}; echo done >done`],
      })
      await started.id()
      // 48 MB do not fit anywhere on the way: the program cannot end while nothing is read.
      const position = () => written(place)
      let last = -1
      await until(
        () => {
          const now = position()
          const isHeld = now > 0 && now === last
          last = now
          return isHeld || undefined
        },
        () => `the program goes on writing: ${last}`,
      )
      expect(existsSync(path.join(place.root, 'done'))).toBe(false)
      expect(last).toBeLessThan(16_000_000)
      const { stdout, exitCode } = await started.all()
      expect([stdout.length, exitCode]).toEqual([count * 16, 0])
      expect(stdout.subarray(-16).toString()).toBe('000000003000000\n')
    }))

  it('does not keep other calls waiting', () =>
    withSandboxd(async (place) => {
      const slow = Array.from({ length: 10 }, () => place.start({ command: ['yes'] }))
      for (const started of slow) await started.id()
      const { stdout } = await place.execute({ command: ['echo', 'quick'] })
      expect(stdout.toString()).toBe('quick\n')
      for (const started of slow) started.stream.cancel()
      await ended(place)
    }))

  it('can still signal the program that is held back', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['yes'] })
      const id = await started.id()
      await place.call('SendSignal', { process_id: id, signal: 15 })
      await ended(place)
      expect((await started.all()).exitCode).toBe(143)
    }))
})

/** The bytes that `seq` has written. */
function written(place: Place): number {
  const [shown = ''] = running(place, /seq -f/).filter((line) => !line.includes('sh -c'))
  return bytes('wchar', Number.parseInt(shown, 10))
}
