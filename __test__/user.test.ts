/** Sandboxes that run as another user. They need root; without it they must say so. */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { itInEveryMode } from './helpers/modes.js'
import * as proc from './helpers/proc.js'
import { rejectionOf, thrownBy } from './helpers/thrown.js'

const isRoot = process.getuid?.() === 0
const nobody = { uid: 65534, gid: 65534 }
const options = { user: nobody, cwd: '/' }

describe('the option user', () => {
  it('is refused by name when it is none', () => {
    for (const user of [
      '',
      'a:b',
      7,
      null,
      {},
      { uid: 1 },
      { uid: -1, gid: 0 },
      { uid: 2 ** 32 - 1, gid: 0 },
    ]) {
      const error = thrownBy(() => new Sandbox({ user } as unknown as { user: string })) as Error
      expect(error).toBeInstanceOf(TypeError)
      expect(error.message).toMatch(/^user/)
    }
  })

  it('names a user that is not there, or the missing privilege', () =>
    withSandbox(
      async ({ sandbox }) => {
        const error = await rejectionOf(sandbox.exec('true'))
        expect(error).toMatchObject({ code: 'SPAWN_FAILED' })
        expect(error.message).toMatch(isRoot ? /no user 'nacre-nobody'/ : /runs as root/)
      },
      { options: { user: 'nacre-nobody' }, destroys: true },
    ))
})

if (isRoot) {
  itInEveryMode(
    'everything runs as the user, with nothing of ours, and comes back as him',
    async ({ sandbox }) => {
      const identity =
        'id -u; id -g; grep NoNewPrivs /proc/self/status; cat /etc/shadow; ls -A $HOME | head -1'
      const { stdout, stderr } = await sandbox.exec(identity)
      expect(stdout).toMatch(/^65534\n65534\nNoNewPrivs:\t1\n/)
      expect(stderr).toContain('Permission denied')
      expect((await sandbox.exec('x=1; exit 3')).exitCode).toBe(3)
      expect((await sandbox.exec('kill -9 $$')).exitCode).toBe(137)
      expect((await sandbox.exec('id -u; echo $x; cat', { input: 'in' })).stdout).toBe('65534\n1\nin')
    },
    { options },
  )

  itInEveryMode(
    'processes and terminals are his too, and can be killed',
    async ({ sandbox }) => {
      const [nap, terminal] = [proc.uniqueSleep(), proc.uniqueSleep()]
      const piped = await sandbox.startProcess('id -u; cat; echo end', { input: 'pipe' })
      await piped.write('typed\n')
      await piped.closeInput()
      await piped.waitForExit()
      expect((await piped.getLogs()).stdout).toBe('65534\ntyped\nend\n')
      await sandbox.startProcess(nap)
      await sandbox.startProcess(`id -u; ${terminal}`, { pty: { cols: 80, rows: 24 } })
      await proc.untilRuns(nap)
      await proc.untilRuns(terminal)
      expect(await sandbox.killAllProcesses()).toBe(2)
      expect(proc.runs(nap) || proc.runs(terminal)).toBe(false)
    },
    { options },
  )

  it('a timeout ends his command', () =>
    withSandbox(
      async ({ sandbox }) => {
        const nap = proc.uniqueSleep()
        expect(await rejectionOf(sandbox.exec(nap, { timeout: 200 }))).toMatchObject({
          code: 'COMMAND_TIMEOUT',
        })
        expect(proc.runs(nap)).toBe(false)
      },
      { options },
    ))

  it('a watch says that a program of his has taken all inotify instances', () =>
    withSandbox(
      async ({ sandbox }) => {
        const limit = Number(readFileSync('/proc/sys/fs/inotify/max_user_instances', 'utf8'))
        const listed = '$(find /proc/[0-9]*/fd -lname anon_inode:inotify 2>/dev/null | wc -l)'
        await sandbox.exec(`for ((i = 0; i < ${limit}; i++)); do tail -f /etc/passwd & done >/dev/null 2>&1`)
        await sandbox.exec(`until [ ${listed} -ge ${limit} ]; do sleep 0.1; done`)
        expect(await rejectionOf(sandbox.files.watch('.').next())).toMatchObject({
          code: 'ENGINE_ERROR',
          message: expect.stringContaining('fs.inotify.max_user_instances'),
        })
      },
      // The limit counts what all processes of a user have.
      { options: { user: { uid: 54_322, gid: 54_322 }, cwd: '/' } },
    ))

  it('HOME and USER are his unless env names them', () =>
    withSandbox(
      async ({ sandbox }) => {
        expect((await sandbox.exec('echo $HOME $USER')).stdout).toBe('/tmp nobody\n')
      },
      { options: { user: 'nobody', cwd: '/', env: { HOME: '/tmp' } } },
    ))

  for (const [name, rest] of [
    ['that works', 'exec /bin/bash "$@"'],
    ['that does not start', 'exit 1'],
  ] as const) {
    itInEveryMode(
      `nothing runs a bash of his as root, one ${name}`,
      async ({ directory, sandbox: other }) => {
        await other.destroy()
        const bin = mkdtempSync(path.join(os.tmpdir(), 'nacre-bin-'))
        chmodSync(bin, 0o777)
        const log = path.join(bin, 'log')
        writeFileSync(log, '')
        chmodSync(log, 0o666)
        writeFileSync(path.join(bin, 'bash'), `#!/bin/sh\n/usr/bin/id -u >>${log}\n${rest}\n`, {
          mode: 0o777,
        })
        for (const begin of ['capabilities', 'exec'] as const) {
          const sandbox = new Sandbox({ user: nobody, cwd: '/', stateDir: directory, env: { PATH: bin } })
          if (begin === 'capabilities') await sandbox.capabilities()
          await sandbox.exec('true').catch(() => {})
          await sandbox.capabilities()
          await sandbox.destroy()
        }
        expect([...new Set(readFileSync(log, 'utf8').trim().split('\n'))]).toEqual(['65534'])
        rmSync(bin, { recursive: true })
      },
      { destroys: true },
    )
  }
}
