/** killCommand and destroy: nothing runs in the background after they resolve. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { ExecEvent } from 'nacre/container'
import { describe, expect } from 'vitest'
import { type Session, SessionGone, textIn } from '../helpers/container.js'
import { itInSession } from '../helpers/drop-in.js'
import * as proc from '../helpers/proc.js'
import { all, made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { blockUntil, until } from '../helpers/until.js'

/** A tree with everything that usually escapes: a session of its own, a double fork, nohup. */
const tree = `setsid sleep 601 & ( ( sleep 602 & ) & ); nohup sleep 603 >/dev/null & ( trap '' HUP; sleep 604 ) & touch up; wait`

function sleepers(tag: string): string[] {
  return proc
    .tagged(tag)
    .map(proc.show)
    .filter((line) => / sleep 60\d /.test(line))
}

/** The stream of the command `a`, which has set this trap and runs until it is killed. */
async function trapping(session: Session, trap: string): Promise<AsyncGenerator<ExecEvent>> {
  const command = `trap '${trap}' TERM; echo set; while :; do sleep 0.01; done`
  const stream = session.execStream(command, { commandId: 'a' })
  await stream.next()
  await stream.next()
  return stream
}

describe('killCommand', () => {
  itInSession('ends the whole tree before it resolves', async ({ session, tag, directory }) => {
    const stream = session.execStream(tree, { commandId: 'tree' })
    await stream.next()
    await made(directory, 'up')
    await until(
      () => sleepers(tag).length === 4 || undefined,
      () => sleepers(tag).join('\n'),
    )
    expect(session.getRunningCommandIds()).toEqual(['tree'])
    expect(await session.killCommand('tree')).toBe(true)
    expect(sleepers(tag)).toEqual([])
    expect(session.getRunningCommandIds()).toEqual([])
    expect((await all(stream)).at(-1)).toMatchObject({ type: 'complete', exitCode: 143 })
    expect(await session.killCommand('tree')).toBe(false)
  })

  itInSession('lets a command end by itself within 5 s, which is no success', async ({ session }) => {
    for (const [trap, text, exitCode] of [
      ['echo cleaned; exit 9', 'cleaned\n', 9],
      ['exit 0', '', 143],
    ] as const) {
      const stream = await trapping(session, trap)
      expect(await session.killCommand('a')).toBe(true)
      const events = await all(stream)
      expect(textIn(events)).toBe(text)
      expect(events.at(-1)).toMatchObject({ type: 'complete', exitCode, result: { success: false } })
    }
  })

  itInSession('kills a command that does not want to end after 5 s', async ({ session }) => {
    const stream = await trapping(session, '')
    const begun = performance.now()
    expect(await session.killCommand('a')).toBe(true)
    expect(performance.now() - begun).toBeGreaterThan(4900)
    expect((await all(stream)).at(-1)).toMatchObject({ type: 'complete', exitCode: 137 })
  })

  itInSession('does not wait when it is not to', async ({ session }) => {
    const stream = await trapping(session, 'sleep 0.3; exit 1')
    expect(await session.killCommand('a', false)).toBe(true)
    expect(session.getRunningCommandIds()).toEqual(['a'])
    expect((await all(stream)).at(-1)).toMatchObject({ type: 'complete', exitCode: 1 })
    expect(session.getRunningCommandIds()).toEqual([])
  })

  itInSession('is false for what is unknown, has ended or runs in the foreground', async ({ session }) => {
    expect(await session.killCommand('nobody')).toBe(false)
    expect(await session.killCommand('nobody', false)).toBe(false)
    await all(session.execStream('true', { commandId: 'over' }))
    expect(await session.killCommand('over')).toBe(false)
    expect(await session.killCommand('')).toBe(false)
  })

  itInSession('knows a command before it has a process', async ({ session }) => {
    const stream = session.execStream('sleep 600', { commandId: 'early' })
    const first = stream.next()
    expect(session.getRunningCommandIds()).toEqual(['early'])
    expect(await session.killCommand('early')).toBe(true)
    expect(await first).toMatchObject({ value: { type: 'start' } })
    expect((await all(stream)).at(-1)).toMatchObject({ type: 'complete', exitCode: 143 })
  })
})

describe('ids of commands', () => {
  itInSession('can be anything and lead nowhere', async ({ session }) => {
    for (const commandId of ['../../x', 'a/b', '/etc/passwd', 'é \n\0', 'x'.repeat(5000), '__proto__']) {
      const stream = session.execStream('sleep 600', { commandId })
      await stream.next()
      expect(session.getRunningCommandIds()).toEqual([commandId])
      expect(await session.killCommand(commandId)).toBe(true)
      expect((await all(stream)).at(-1)).toMatchObject({ exitCode: 143 })
    }
    expect((await session.exec('ls -a | wc -l')).stdout.trim()).toBe('2')
  })

  itInSession('are not taken from a command that runs', async ({ session }) => {
    const first = session.execStream('sleep 600', { commandId: 'a' })
    await first.next()
    const { message } = await rejectionOf(session.execStream('touch ran', { commandId: 'a' }).next())
    expect(message).toBe("commandId 'a' belongs to a running command")
    expect(await session.killCommand('a')).toBe(true)
    const again = await all(session.execStream('echo again', { commandId: 'a' }))
    expect(textIn(again)).toBe('again\n')
    await all(first)
  })
})

describe('destroy', () => {
  itInSession(
    'ends open streams in an error, whatever their commands make of the signal',
    async ({ session, tag }) => {
      const commands = [
        tree,
        "trap 'exit 0' TERM; echo set; while :; do sleep 0.01; done",
        "trap '' TERM; sleep 600",
      ]
      const streams = commands.map((command) => session.execStream(command))
      for (const stream of streams) await stream.next()
      const [ends] = await Promise.all([Promise.all(streams.map((stream) => all(stream))), session.destroy()])
      for (const events of ends)
        expect(events.at(-1)).toMatchObject({ type: 'error', error: 'drop-in is gone' })
      expect(sleepers(tag)).toEqual([])
      expect(session.getRunningCommandIds()).toEqual([])
      expect(await session.killCommand('any')).toBe(false)
    },
  )

  itInSession('takes along what a finished command has left', async ({ session, tag }) => {
    await session.exec('sleep 601 & disown; setsid nohup sleep 602 >/dev/null 2>&1 &')
    await session.destroy()
    expect(sleepers(tag)).toEqual([])
  })

  itInSession(
    'is the reason that open calls report, also if their events arrive when nothing is left',
    async ({ session, tag }) => {
      const streams = ['echo set; sleep 600', 'yes', 'true'].map((command) => session.execStream(command))
      for (const stream of streams) await stream.next()
      const reading = Promise.all(streams.map((stream) => all(stream)))
      const queued = Promise.all(['sleep 600', 'true'].map((command) => rejectionOf(session.exec(command))))
      const destroying = session.destroy()
      const killing = Promise.all(session.getRunningCommandIds().map((id) => session.killCommand(id)))
      blockUntil(() => proc.tagged(tag).length === 0)
      for (const events of await reading)
        expect(events.at(-1)).toMatchObject({ type: 'error', error: 'drop-in is gone' })
      for (const error of await queued) expect(error).toBeInstanceOf(SessionGone)
      expect(new Set(await killing)).toEqual(new Set([false]))
      await destroying
    },
    {},
  )

  itInSession(
    'is the reason that open calls report, also if the shell has just exited',
    async ({ session, directory }) => {
      const calls = Promise.all(
        ['touch on; exit 3', 'true'].map((command) => rejectionOf(session.exec(command))),
      )
      blockUntil(() => existsSync(path.join(directory, 'on')))
      await session.destroy()
      for (const error of await calls) expect(error).toBeInstanceOf(SessionGone)
    },
    {},
  )

  itInSession('leaves no command in the list of running ones', async ({ session }) => {
    const streams = Array.from({ length: 20 }, () => session.execStream('sleep 600'))
    await Promise.all(streams.map((stream) => stream.next()))
    expect(session.getRunningCommandIds()).toHaveLength(20)
    await session.destroy()
    expect(session.getRunningCommandIds()).toEqual([])
    await Promise.all(streams.map((stream) => stream.return()))
  })

  itInSession(
    'lets calls that kill a command meanwhile resolve once it has ended',
    async ({ session, tag }) => {
      const command = "trap '' TERM; echo set; sleep 601"
      const [killed, left] = [
        session.execStream(command, { commandId: 'killed' }),
        session.execStream(command, { commandId: 'left' }),
      ]
      for (const stream of [killed, left]) for (let events = 0; events < 2; events++) await stream.next()
      const destroying = session.destroy()
      const checked = async (call: Promise<unknown>) => {
        await call
        expect(sleepers(tag)).toEqual([])
      }
      await Promise.all([checked(session.killCommand('killed')), checked(left.return())])
      expect(await session.killCommand('killed')).toBe(false)
      await destroying
      await killed.return()
    },
  )
})
