/** From new to destroyed: what a session answers in each state, and where it starts. */

import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { inspect } from 'node:util'
import { OptionError } from 'nacre'
import {
  createSessionClass,
  Session as PlainSession,
  SessionDestroyedError,
  ShellTerminatedError,
} from 'nacre/container'
import { describe, expect, it } from 'vitest'
import { SessionGone, ShellEnded } from '../helpers/container.js'
import { itInSession, newSession } from '../helpers/drop-in.js'
import { withSandbox } from '../helpers/invariants.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all, made } from '../helpers/stream.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const NOT_READY = /is not ready or shell has died/

describe('a new session', () => {
  itInSandbox('does nothing and refuses commands before it is initialized', async (workplace) => {
    const session = newSession(workplace)
    expect([session.isReady(), session.wasDestroyed(), session.getShellExitCode(), session.pty]).toEqual([
      false,
      false,
      null,
      null,
    ])
    await expect(session.exec('true')).rejects.toThrow(NOT_READY)
    await expect(all(session.execStream('true'))).rejects.toThrow(NOT_READY)
    expect(session.getRunningCommandIds()).toEqual([])
    await session.destroy()
    await expect(session.initialize()).rejects.toBeInstanceOf(SessionGone)
  })

  itInSandbox('is destroyed by `await using`', async (workplace) => {
    const session = newSession(workplace)
    {
      await using used = session
      await used.initialize()
    }
    expect(session.wasDestroyed()).toBe(true)
  })

  itInSandbox('starts in its home, with a warning, when its directory is not there', async (workplace) => {
    const { directory } = workplace
    const home = path.join(directory, 'home')
    mkdirSync(home)
    const warnings: string[] = []
    const note = () => {}
    const logger = {
      debug: note,
      info: note,
      warn: (text: string) => void warnings.push(text),
      error: note,
    }
    const session = newSession(workplace, { cwd: path.join(directory, 'no'), env: { HOME: home }, logger })
    await session.initialize()
    expect(session.isReady()).toBe(true)
    expect((await session.exec('pwd')).stdout).toBe(home)
    expect(warnings.join()).toContain('its directory does not exist')
    await session.destroy()
  })

  itInSandbox('starts in /root or / when there is no home either', async (workplace) => {
    const session = newSession(workplace, { cwd: '/no/such', env: { HOME: '/no/such/home' } })
    await session.initialize()
    expect(['/root', '/']).toContain((await session.exec('pwd')).stdout)
    await session.destroy()
  })

  itInSandbox('has LANG and LC_ALL, unless they are set', async (workplace) => {
    const before = { LANG: process.env.LANG, LC_ALL: process.env.LC_ALL }
    delete process.env.LANG
    delete process.env.LC_ALL
    const plain = newSession(workplace)
    const own = newSession(workplace, { env: { LANG: 'C', LC_ALL: 'POSIX' } })
    await Promise.all([plain.initialize(), own.initialize()])
    for (const [name, value] of Object.entries(before)) if (value !== undefined) process.env[name] = value
    expect((await plain.exec('echo $LANG $LC_ALL')).stdout).toBe('C.UTF-8 C.UTF-8')
    expect((await own.exec('echo $LANG $LC_ALL')).stdout).toBe('C POSIX')
    await Promise.all([plain.destroy(), own.destroy()])
  })
})

describe('a session shows', () => {
  itInSession('its id and nothing else', async ({ session }) => {
    session.pty = { secret: 1 }
    expect(JSON.stringify(session)).toBe('{"id":"drop-in"}')
    expect(inspect(session, { depth: 9 })).toBe("Session { id: 'drop-in' }")
  })
})

describe('a logger', () => {
  itInSandbox(
    'receives how commands end, at the level of their origin, and nothing of their text',
    async (workplace) => {
      const lines: string[] = []
      const note = (level: string) => (message: string) => void lines.push(`${level} ${message}`)
      const logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') }
      const session = newSession(workplace, { logger, env: { SECRET: 'secret' } })
      await session.initialize()
      lines.length = 0
      await session.exec('echo secret; (exit 3)')
      await session.exec('echo secret', { origin: 'internal' })
      await rejectionOf(session.exec('echo secret; sleep 600', { timeoutMs: 50 }))
      await all(session.execStream('echo secret', { commandId: 'a', origin: 'internal' }))
      const own = lines.filter((line) => line.includes("session 'drop-in'"))
      expect(own.map((line) => line.replace(/\d+ ms/, 'n ms'))).toEqual([
        "info session 'drop-in': exit code 3 after n ms",
        "debug session 'drop-in': exit code 0 after n ms",
        "info session 'drop-in': Command timeout after 50ms",
        "debug session 'drop-in': command 'a' starts in the background",
      ])
      expect(lines.join()).not.toContain('secret')
      await session.destroy()
    },
  )

  itInSandbox('that throws makes no failure of a command', async (workplace) => {
    const fail = () => {
      throw new Error('the logger')
    }
    const logger = { debug: fail, info: fail, warn: fail, error: fail }
    const session = newSession(workplace, { logger, cwd: '/no/such' })
    await session.initialize()
    expect((await session.exec('echo on')).stdout).toBe('on')
    expect((await all(session.execStream('true'))).at(-1)).toMatchObject({ type: 'complete', exitCode: 0 })
    await session.destroy()
  })
})

describe('the end of the shell', () => {
  itInSession(
    'rejects the command that exits with the error of the container, and the session is over',
    async ({ session }) => {
      const waiting = session.exec('sleep 0.1; exit 3')
      const behind = rejectionOf(session.exec('echo never'))
      const error = await rejectionOf(waiting)
      expect(error).toBeInstanceOf(ShellEnded)
      expect(error).toMatchObject({ sessionId: 'drop-in', exitCode: 3 })
      expect(await behind).toMatchObject({ sessionId: 'drop-in', exitCode: 3 })
      expect([session.isReady(), session.wasDestroyed(), session.getShellExitCode()]).toEqual([
        false,
        false,
        3,
      ])
      await expect(session.exec('true')).rejects.toThrow(NOT_READY)
    },
  )

  it('has its code', () =>
    withSandbox(async (workplace) => {
      for (const [command, code] of [
        ['set -e; false', 1],
        ['exec true', 0],
        ['kill -9 $$', 137],
        ['f() { exit 7; }; f', 7],
      ] as const) {
        const session = newSession(workplace)
        await session.initialize()
        expect(await rejectionOf(session.exec(command)), command).toMatchObject({ exitCode: code })
        expect(session.getShellExitCode()).toBe(code)
        await session.destroy()
      }
    }))

  itInSession(
    'is not an unhandled rejection when nothing runs, and is reported by the next command',
    async ({ session }) => {
      const unhandled: unknown[] = []
      const note = (reason: unknown) => void unhandled.push(reason)
      process.on('unhandledRejection', note)
      const shell = Number((await session.exec('echo $$')).stdout)
      process.kill(shell, 'SIGKILL')
      const error = await until(
        () =>
          session.exec('true').then(
            () => undefined,
            (reason) => reason as Error,
          ),
        () => 'the shell lives on',
      )
      expect(error).toBeInstanceOf(ShellEnded)
      // 137 when the command was sent before the death was known.
      expect([null, 137]).toContain(session.getShellExitCode())
      expect(session.isReady()).toBe(false)
      await new Promise(setImmediate)
      process.off('unhandledRejection', note)
      expect(unhandled).toEqual([])
    },
  )
})

describe('destroy', () => {
  itInSession(
    'can be called again and ends what runs, with the error of the container',
    async ({ session, directory }) => {
      const running = rejectionOf(session.exec('touch begun; sleep 600 & setsid sleep 600 & sleep 600'))
      await made(directory, 'begun')
      const first = session.destroy()
      expect(session.destroy()).toBe(first)
      await first
      expect(await running).toBeInstanceOf(SessionGone)
      expect([session.isReady(), session.wasDestroyed()]).toEqual([false, true])
      await expect(session.exec('true')).rejects.toThrow(NOT_READY)
      await expect(all(session.execStream('true'))).rejects.toThrow(NOT_READY)
    },
  )

  itInSandbox('works while the session is being initialized', async (workplace) => {
    const session = newSession(workplace, { cwd: '/no/such' })
    const starting = rejectionOf(session.initialize())
    await session.destroy()
    expect(await starting).toBeInstanceOf(SessionGone)
    expect(session.isReady()).toBe(false)
  })
})

describe('the classes', () => {
  it("are nacre's own where the container brings none", async () => {
    const session = new PlainSession({ id: 'plain' })
    await session.initialize()
    const ended = await rejectionOf(session.exec('exit 4'))
    expect(ended).toBeInstanceOf(ShellTerminatedError)
    expect(ended).toMatchObject({ sessionId: 'plain', exitCode: 4, name: 'ShellTerminatedError' })
    await session.destroy()
    expect(new SessionDestroyedError('x')).toMatchObject({ sessionId: 'x', name: 'SessionDestroyedError' })
  })

  it('are refused when they are none', () => {
    const refused = (errors: unknown) => String(thrownBy(() => createSessionClass(errors as never)))
    expect(refused({ ShellTerminatedError: 5 })).toMatch(/ShellTerminatedError must be a function/)
    expect(refused({ Other: Error })).toMatch(/createSessionClass has no option "Other"/)
  })
})

describe('bad options', () => {
  const bad: Array<[string, unknown, RegExp]> = [
    ['no options', undefined, /an id is required/],
    ['no id', {}, /id must be a non-empty string/],
    ['an empty id', { id: '' }, /id must be/],
  ]
  for (const [name, options, message] of bad) {
    it(`are refused before anything runs: ${name}`, () => {
      const error = thrownBy(() => new PlainSession(options as never))
      expect(error).toBeInstanceOf(OptionError)
      expect(String(error)).toMatch(message)
    })
  }

  itInSession('of commands are rejections that name them', async ({ session }) => {
    const refused = async (options: unknown) =>
      (await rejectionOf(session.exec('touch ran', options as never))).message
    expect(await refused({ timeoutMs: -1 })).toMatch(/timeoutMs must be/)
    expect((await rejectionOf(session.exec(' '))).message).toMatch(/must not be blank/)
    const stream = session.execStream('true', { commandId: '' })
    expect((await rejectionOf(stream.next())).message).toMatch(/commandId must be a non-empty string/)
    expect((await session.exec('ls')).stdout).toBe('')
  })
})
