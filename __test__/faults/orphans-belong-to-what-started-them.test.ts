/** Processes that lose their parents while a later command runs, with a session of their own and without an environment. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { itInEveryMode, type Mode, modes, plain, withoutPidfds, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const quiet = '> /dev/null 2>&1'
const waits = 'until [ -e go ]; do sleep 0.01; done'
/** Runs a program as another user, if the command is root's. */
const changed = '$(test $(id -u) != 0 || echo setpriv --reuid=65534 --regid=65534 --clear-groups)'

/** What starts `nap` or loses it when there is a file `go`. */
const forms: Record<string, (nap: string) => string> = {
  'a child of a job that ends': (nap) => `sh -c '${nap} & ${waits}'`,
  'a grandchild of a job that ends': (nap) => `sh -c 'sh -c "${nap} & ${waits}"; ${waits}; exit'`,
  'a daemon of a job': (nap) => `sh -c '${waits}; setsid -f ${nap}; sleep 600'`,
  'a daemon of a job that has ended': (nap) => `sh -c '${waits}; setsid -f ${nap}'`,
  'a daemon without an environment': (nap) =>
    `sh -c '${waits}; env -i "$(which setsid)" -f ${nap}; sleep 600'`,
  'a daemon of another user': (nap) => `sh -c '${waits}; setsid -f ${changed} ${nap}; sleep 600'`,
  'a daemon of a daemon': (nap) => `env -i "$(which setsid)" -f sh -c '${waits}; setsid -f ${nap}'`,
}

const isOrphan = (nap: string, supervisor: number) =>
  proc.children(supervisor).some((pid) => proc.commandLine(pid) === nap)

const all: Mode[] = withoutPidfds ? modes : [...modes, ...plain]

describe.each(all)('$name', (mode) => {
  it.each(Object.entries(forms))('an abort spares %s', (_, form) =>
    withSandboxIn(mode, async ({ sandbox, directory }) => {
      for (const by of ['a command', 'a command after which the shell died', 'a process']) {
        const session = await sandbox.createSession({ id: by.replaceAll(' ', '-'), cwd: directory })
        const [nap, present] = [proc.uniqueSleep(), proc.uniqueSleep()]
        const text = `${form(nap)} ${quiet} &`
        const supervisor = Number((await session.exec('echo $PPID')).stdout)
        if (by === 'a process') await session.startProcess(`${text} wait; exec sleep 600`)
        else await session.exec(text)
        if (by.endsWith('died')) await session.exec('kill -9 $$')
        const controller = new AbortController()
        const running = rejectionOf(session.exec(present, { signal: controller.signal }))
        await proc.untilRuns(present)
        writeFileSync(path.join(directory, 'go'), '')
        await holds(() => isOrphan(nap, supervisor))
        controller.abort()
        expect(await running).toMatchObject({ name: 'AbortError' })
        expect([isOrphan(nap, supervisor), proc.runs(present)], by).toEqual([true, false])
        await sandbox.deleteSession(session.id)
        expect(proc.runs(nap), by).toBe(false)
        await sandbox.files.remove(path.join(directory, 'go'))
      }
    }),
  )

  it.each(Object.entries(forms))('a kill of a process ends %s', (_, form) =>
    withSandboxIn(mode, async ({ sandbox, directory }) => {
      const [nap, other] = [proc.uniqueSleep(), proc.uniqueSleep()]
      const supervisor = Number((await sandbox.exec(`echo $PPID; setsid -f ${other} ${quiet}`)).stdout)
      await holds(() => isOrphan(other, supervisor))
      const process = await sandbox.startProcess(`${form(nap)} ${quiet} & wait; exec sleep 600`)
      writeFileSync(path.join(directory, 'go'), '')
      await holds(() => isOrphan(nap, supervisor))
      await process.kill()
      expect([proc.runs(nap), isOrphan(other, supervisor)]).toEqual([false, true])
    }),
  )
})

itInEveryMode('a limit of resident memory that a command sets stays', async ({ sandbox }) => {
  await sandbox.exec('ulimit -S -m 1000000')
  await sandbox.exec(`sleep 600 ${quiet} & sleep 0.01`)
  await sandbox.exec('kill -9 $$')
  expect((await sandbox.exec('ulimit -S -m; kill %1 2>&1; (ulimit -S -m)')).stdout).toContain('1000000\n')
})

itInEveryMode('an abort ends a program with sessions of its own', async ({ sandbox, directory }) => {
  const nap = proc.uniqueSleep()
  const program = `
    const { Sandbox } = require(${JSON.stringify(path.dirname(path.dirname(__dirname)))})
    new Sandbox({ cwd: '/', stateDir: ${JSON.stringify(`${directory}/inner`)} }).exec('setsid -f ${nap}; sleep 600')
  `
  writeFileSync(path.join(directory, 'program.cjs'), program)
  const controller = new AbortController()
  const text = `NACRE_NATIVE=${process.env.NACRE_NATIVE ?? ''} '${process.execPath}' program.cjs ${quiet}`
  const running = rejectionOf(sandbox.exec(text, { signal: controller.signal }))
  await proc.untilRuns(nap)
  controller.abort()
  expect(await running).toMatchObject({ name: 'AbortError' })
  expect(proc.runs(nap)).toBe(false)
})
