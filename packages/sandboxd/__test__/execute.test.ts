/** `Execute` of sandboxd. */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import * as grpc from '@grpc/grpc-js'
import { serve } from '@nacre/server'
import { describe, expect, it } from 'vitest'
import { ended } from './ended.js'
import { type Config, Place, statusName, withSandboxd } from './place.js'

/** The name of the status with which a program is refused. */
async function refusal(place: Place, config: Config): Promise<string> {
  return place.execute(config).then(
    ({ exit_code }) => `ended with ${exit_code}`,
    (error) => statusName(error),
  )
}

describe('Execute', () => {
  it('gives the output of both streams and the exit code', () =>
    withSandboxd(async (place) => {
      const { stdout, stderr, exit_code } = await place.execute({
        command: ['sh', '-c', 'echo out; echo err >&2; exit 7'],
      })
      expect([stdout.toString(), stderr.toString(), exit_code]).toEqual(['out\n', 'err\n', 7])
    }))

  it('passes arguments as they are, and no shell parses them', () =>
    withSandboxd(async (place) => {
      const words = ['x'.repeat(131_071), '$HOME', '`id`', '; echo x', '*', '', 'a b', 'ü', '\'"\\', '-n']
      const { stdout } = await place.execute({ command: ['printf', '%s\\n', ...words] })
      expect(stdout.toString()).toBe(`${words.join('\n')}\n`)
    }))

  it('reports 128 + n for a program that a signal ended', () =>
    withSandboxd(async (place) => {
      for (const [signal, code] of [
        ['TERM', 143],
        ['KILL', 137],
        ['SEGV', 139],
        ['36', 164],
      ])
        expect(await place.execute({ command: ['sh', '-c', `kill -${signal} $$`] })).toMatchObject({
          exit_code: code,
        })
    }))

  it('starts in the root or in cwd, with the variables of the sandbox and of the call', () =>
    withSandboxd(
      async (place) => {
        mkdirSync(path.join(place.root, 'sub/deep'), { recursive: true })
        symlinkSync('sub/deep', path.join(place.root, 'link'))
        const pwd = async (cwd?: string) =>
          (
            await place.execute({ command: ['pwd', '-P'], ...(cwd !== undefined && { cwd }) })
          ).stdout.toString()
        expect(await pwd()).toBe(`${place.root}\n`)
        expect(await pwd('')).toBe(`${place.root}\n`)
        expect(await pwd('sub')).toBe(`${place.root}/sub\n`)
        expect(await pwd('sub/../sub/./deep/')).toBe(`${place.root}/sub/deep\n`)
        expect(await pwd(`${place.root}/sub`)).toBe(`${place.root}/sub\n`)
        expect(await pwd('link')).toBe(`${place.root}/sub/deep\n`)
        const { stdout } = await place.execute({
          command: ['sh', '-c', 'echo $OWN $SANDBOX_NAME'],
          env_vars: { OWN: 'a  "b"\n$c' },
        })
        expect(stdout.toString()).toBe('a "b" $c one\n')
      },
      {},
      { options: { env: { SANDBOX_NAME: 'one' } } },
    ))

  it('takes absolute directories below a root that was given as a link', () =>
    withSandboxd(async (place) => {
      const { sandbox, directory } = place.workplace
      const link = path.join(directory, 'link')
      symlinkSync('root', link)
      mkdirSync(path.join(place.root, 'sub'))
      const sandboxd = { grpcPort: 0, restPort: 0, root: link }
      const serving = await serve(sandbox, { port: 0, sandboxd })
      const linked = new Place(serving, place.workplace)
      try {
        for (const cwd of ['sub', `${link}/sub`, `${place.root}/sub`])
          expect((await linked.execute({ command: ['pwd'], cwd })).stdout.toString()).toBe(
            `${place.root}/sub\n`,
          )
        for (const cwd of [directory, `${link}/../root-evil`, '../link/sub'])
          expect(await refusal(linked, { command: ['pwd'], cwd }), cwd).toBe('PERMISSION_DENIED')
      } finally {
        linked.close()
        await serving.close()
      }
    }))

  it('keeps no state from one call to the next', () =>
    withSandboxd(async (place) => {
      await place.execute({ command: ['bash', '-c', 'cd /; export LEFT=1'] })
      await place.workplace.sandbox.exec('cd /; export LEFT=1; x() { :; }; export -f x')
      const { stdout } = await place.execute({
        command: ['sh', '-c', 'pwd; echo "<$LEFT>"; env | grep -c BASH_FUNC'],
      })
      expect(stdout.toString()).toBe(`${place.root}\n<>\n0\n`)
    }))

  it('reads end of file from its input', () =>
    withSandboxd(async (place) => {
      expect(await place.execute({ command: ['cat'] })).toMatchObject({ exit_code: 0 })
    }))

  it('refuses what cannot run, and says why by its status', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.root, 'text'), '')
      symlinkSync('/', path.join(place.root, 'out'))
      symlinkSync('../..', path.join(place.root, 'up'))
      const command = ['true']
      const cases: Array<[Config, string]> = [
        [{}, 'INVALID_ARGUMENT'],
        [{ command: [] }, 'INVALID_ARGUMENT'],
        [{ command: ['', 'x'] }, 'INVALID_ARGUMENT'],
        [{ command: ['echo', 'a\0b'] }, 'INVALID_ARGUMENT'],
        [{ command, env_vars: { 'A-B': '' } }, 'INVALID_ARGUMENT'],
        [{ command, env_vars: { '': '' } }, 'INVALID_ARGUMENT'],
        [{ command, env_vars: { 'A=B': '' } }, 'INVALID_ARGUMENT'],
        [{ command, env_vars: { A: '\0' } }, 'INVALID_ARGUMENT'],
        [{ command, env_vars: { UID: '7' } }, 'INVALID_ARGUMENT'],
        [{ command, env_vars: { SHELLOPTS: 'x' } }, 'INVALID_ARGUMENT'],
        [{ command, env_vars: { A: 'x'.repeat(131_070) } }, 'INVALID_ARGUMENT'],
        [{ command: ['true', 'x'.repeat(131_072)] }, 'INVALID_ARGUMENT'],
        [{ command: ['true', 'ü'.repeat(65_536)] }, 'INVALID_ARGUMENT'],
        [{ command, cwd: '\0' }, 'INVALID_ARGUMENT'],
        [{ command, cwd: 'text' }, 'INVALID_ARGUMENT'],
        [{ command, cwd: 'none' }, 'NOT_FOUND'],
        [{ command, cwd: '..' }, 'PERMISSION_DENIED'],
        [{ command, cwd: '../..' }, 'PERMISSION_DENIED'],
        [{ command, cwd: '/' }, 'PERMISSION_DENIED'],
        [{ command, cwd: '/etc' }, 'PERMISSION_DENIED'],
        [{ command, cwd: `${place.root}-evil` }, 'PERMISSION_DENIED'],
        [{ command, cwd: 'out' }, 'PERMISSION_DENIED'],
        [{ command, cwd: 'out/etc' }, 'PERMISSION_DENIED'],
        [{ command, cwd: 'up' }, 'PERMISSION_DENIED'],
        [{ command: ['no-such-program'] }, 'NOT_FOUND'],
        [{ command: ['./none'] }, 'NOT_FOUND'],
        [{ command: ['ls'], env_vars: { PATH: '/proc/nowhere' } }, 'NOT_FOUND'],
        [{ command: ['./text'] }, 'PERMISSION_DENIED'],
        [{ command: [place.root] }, 'PERMISSION_DENIED'],
      ]
      for (const [config, status] of cases)
        expect(await refusal(place, config), JSON.stringify(config).slice(0, 100)).toBe(status)
      const missing = await place.call('Execute', {}).catch((error) => error)
      expect(statusName(missing)).toBe('INVALID_ARGUMENT')
      const error = await place.execute({ command: ['nö'.repeat(2000)] }).catch((caught) => caught)
      expect([statusName(error), error.details]).toEqual(['NOT_FOUND', expect.stringContaining('on PATH')])
    }))

  it('finds programs on the PATH of the call, and by a path from cwd', () =>
    withSandboxd(async (place) => {
      mkdirSync(path.join(place.root, 'bin'))
      writeFileSync(path.join(place.root, 'bin/own'), '#!/bin/sh\necho "own $1"\n')
      chmodSync(path.join(place.root, 'bin/own'), 0o755)
      const own = async (command: string, rest: Config = {}) =>
        (await place.execute({ command: [command, 'x'], ...rest })).stdout.toString()
      expect(await own('own', { env_vars: { PATH: `${place.root}/bin:/usr/bin:/bin` } })).toBe('own x\n')
      expect(await own('bin/own')).toBe('own x\n')
      expect(await own('./own', { cwd: 'bin' })).toBe('own x\n')
    }))

  it('returns output of many bytes exactly', () =>
    withSandboxd(async (place) => {
      const { stdout, stderr } = await place.execute({
        command: ['sh', '-c', 'head -c 6000000 /dev/zero | tr "\\0" "\\377"; head -c 3000000 /dev/zero >&2'],
      })
      expect(stdout.equals(Buffer.alloc(6_000_000, 0xff))).toBe(true)
      expect(stderr.equals(Buffer.alloc(3_000_000))).toBe(true)
    }))

  it('kills a program that prints more than it collects', () =>
    withSandboxd(async (place) => {
      const error = await place
        .execute({ command: ['sh', '-c', 'setsid sleep 67 & yes'] })
        .catch((caught) => caught)
      expect([statusName(error), error.details]).toEqual([
        'RESOURCE_EXHAUSTED',
        expect.stringContaining('16777216 bytes'),
      ])
      await ended(place)
    }))

  it('kills the program and all that it has started at the deadline', () =>
    withSandboxd(async (place) => {
      const command = [
        'bash',
        '-c',
        'trap "" TERM INT HUP; setsid sleep 67 & (setsid sleep 67 &) ; touch on; wait',
      ]
      const late = await place.execute({ command }, { deadline: Date.now() + 700 }).catch((error) => error)
      expect(statusName(late)).toBe('DEADLINE_EXCEEDED')
      await ended(place)
    }))

  it('is late at the deadline, whichever timer of the server fires first', () => {
    const lines: string[] = []
    const info = (line: string) => {
      lines.push(line)
      // This holds up the turn of the event loop in which the calls arrive, so the timers of grpc-js fire after sandboxd's.
      if (line.startsWith('grpc Execute 3 ')) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
    }
    return withSandboxd(
      async (place) => {
        await place.execute({ command: ['true'] })
        // Without a deadline at the client, whose own timer would hide the status of the server.
        const deadline = new grpc.Metadata()
        deadline.set('grpc-timeout', '300m')
        const call = (command: string[]) =>
          place.call('Execute', { config: { command } }, {}, deadline).catch(statusName)
        const calls = Array.from({ length: 8 }, () => [call([]), call(['sleep', '67'])])
        expect(new Set(await Promise.all(calls.flat()))).toEqual(
          new Set(['INVALID_ARGUMENT', 'DEADLINE_EXCEEDED']),
        )
        await ended(place)
        for (const line of lines) expect(line).toMatch(/^grpc Execute [034] /)
      },
      { logger: { debug() {}, info, warn() {}, error() {} } },
    )
  })
})
