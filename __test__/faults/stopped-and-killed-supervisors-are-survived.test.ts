/** A supervisor that is stopped, or killed in the very moment of the end. */
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'

const options = { mayStall: true }

itInEveryMode(
  'a supervisor that a command stops is continued: timeouts, starts and kills work',
  async ({ sandbox }) => {
    const begun = performance.now()
    await sandbox.exec('x=1')
    await sandbox.exec('kill -STOP $PPID')
    expect(await rejectionOf(sandbox.exec('sleep 60', { timeout: 100 }))).toMatchObject({
      code: 'COMMAND_TIMEOUT',
    })
    await sandbox.exec('kill -STOP $PPID')
    const process = await sandbox.startProcess('sleep 60')
    await sandbox.exec('kill -STOP $PPID')
    expect(await process.kill()).toBe(true)
    expect((await sandbox.exec('echo $x')).stdout).toBe('1\n')
    expect(performance.now() - begun).toBeLessThan(6000)
  },
  options,
)

itInEveryMode(
  'a session whose supervisor is stopped can be deleted',
  async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    await session.exec('sleep 60 & kill -STOP $PPID')
    const begun = performance.now()
    await sandbox.deleteSession('one')
    expect(performance.now() - begun).toBeLessThan(4000)
  },
  options,
)

itInEveryMode(
  'a supervisor killed in the instant of the end leaves nothing, and no file of the host is written to',
  async ({ sandbox, directory }) => {
    for (let round = 0; round < 15; round++) {
      const id = `s${round}`
      const session = await sandbox.createSession({ id })
      const { stdout } = await session.exec('sleep 60 & x=1; echo $PPID')
      const running = session.exec('sleep 60').catch(() => undefined)
      if (round % 3 === 0) await session.startProcess('sleep 60')
      proc.kill(Number(stdout))
      const deleted = sandbox.deleteSession(id)
      // Descriptors that have just been closed now stand for files of the host.
      const files = Array.from({ length: 40 }, (_, index) => path.join(directory, `${round}-${index}`))
      for (const file of files) writeFileSync(file, 'mine')
      const opened = files.map((file) => openSync(file, 'r+'))
      await deleted
      await running
      for (const descriptor of opened) closeSync(descriptor)
      for (const file of files) expect(readFileSync(file, 'utf8')).toBe('mine')
    }
  },
  options,
)
