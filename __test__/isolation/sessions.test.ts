/** The rules hold for everything in a session, and for as long as it lives. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { inspect } from 'node:util'
import { type Isolation, Sandbox, type SandboxOptions } from 'nacre'
import { beforeAll, describe, expect, it } from 'vitest'
import { refusedConnection } from '../helpers/denials.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const strict: Isolation = { filesystem: { write: ['.'] }, network: 'none', processes: 'own' }

function isolated(
  isolation: SandboxOptions['isolation'],
  test: (sandbox: Sandbox, directory: string) => Promise<void>,
) {
  return () => withSandbox(({ sandbox, directory }) => test(sandbox, directory), { options: { isolation } })
}

/** Writes inside, fails outside. */
const PROBE = 'echo in > in; echo out > /var/tmp/nacre-isolation-out; echo $?'

const refused = (text: string) => {
  expect(text).toContain('1')
  expect(text).toMatch(/Read-only file system|Permission denied/)
  expect(existsSync('/var/tmp/nacre-isolation-out')).toBe(false)
}

// The thread of all proxies stays once it has been started.
beforeAll(async () => {
  const sandbox = new Sandbox({ isolation: { network: { allow: [] } } })
  await sandbox.exec('true')
  await sandbox.destroy()
})

describe('isolation', () => {
  it(
    'reports a missing directory as without isolation',
    isolated('workspace', async (sandbox, directory) => {
      const cwd = path.join(directory, 'missing')
      const message = `the working directory '${cwd}' does not exist; create it, or choose another directory`
      const missing = { code: 'CWD_NOT_FOUND', message }
      expect(await rejectionOf(sandbox.createSession({ cwd }))).toMatchObject(missing)
      expect(await rejectionOf(sandbox.jobs.start({ command: 'true', cwd }))).toMatchObject(missing)
      await using other = new Sandbox({ cwd, isolation: 'workspace' })
      expect(await rejectionOf(other.exec('true'))).toMatchObject(missing)
      mkdirSync(cwd)
      expect(await other.exec('pwd')).toMatchObject({ stdout: `${cwd}\n` })
    }),
  )

  it(
    'holds after exit, a syntax error, exec, kill -9 and the death of the supervisor',
    isolated(strict, async (sandbox, directory) => {
      for (const command of [
        'exit 3',
        'exit 0; :',
        'kill -9 $$',
        'exec true',
        "echo 'unclosed",
        'set -e; false',
      ]) {
        await sandbox.exec(`state=kept; export STATE=kept`)
        await sandbox.exec(command)
        const { all } = await sandbox.exec(`set +e; ${PROBE}; echo "$state $STATE"`)
        refused(all)
        expect(all, command).toContain('kept kept')
      }
      // Other sandboxes of this process may still have theirs, which started before.
      const supervisor = proc
        .listProcesses()
        .filter(({ pid, parent }) => parent === process.pid && proc.commandLine(pid) === 'nacre-supervisor')
        .sort((a, b) => Number(a.started) - Number(b.started) || a.pid - b.pid)
        .at(-1)
      await sandbox.exec('state=saved')
      // It runs behind a standby with that state.
      await sandbox.exec('true')
      const killed = supervisor?.pid ?? 0
      proc.kill(killed)
      // Before the engine notices, the old shell can still answer, and commands can fail.
      let last: unknown
      const answer = async () => {
        const result = await sandbox.exec('echo $state').catch((error: Error) => error)
        last = result
        return !(result instanceof Error) && result.sessionRestarted ? result : undefined
      }
      const { stdout } = await until(answer, () => `the session does not come back: ${inspect(last)}`)
      expect(stdout).toBe('saved\n')
      refused((await sandbox.exec(PROBE)).all)
      expect(readFileSync(path.join(directory, 'in'), 'utf8')).toBe('in\n')
    }),
  )

  it(
    'holds for processes, services, terminals and durable jobs',
    isolated(strict, async (sandbox) => {
      for (const options of [{}, { pty: true }]) {
        const started = await sandbox.startProcess(PROBE, options)
        await started.waitForExit()
        refused((await started.getLogs()).stdout + (await started.getLogs()).stderr)
      }
      const service = await sandbox.startService(`${PROBE}; echo ready; sleep 60`, {
        healthCheck: { log: 'ready' },
      })
      await service.kill()
      const { jobId } = await sandbox.jobs.start({
        command: `${PROBE} 2>&1; kill -0 ${process.pid} && echo ESCAPED`,
      })
      await sandbox.jobs.wait(jobId)
      const { raw: output } = await sandbox.jobs.read(jobId, 0)
      refused(output)
      expect(output).not.toContain('ESCAPED')
      await sandbox.jobs.remove(jobId)
      expect(existsSync('/var/tmp/nacre-isolation-out')).toBe(false)
    }),
  )

  it.each([...modes, ...plain])(
    'lets a process have a terminal beside a command that ends its shell, $name',
    (mode) => {
      const test = async ({ sandbox }: Workplace) => {
        for (let round = 0; round < 30; round++) {
          const command = sandbox.exec(round % 2 === 0 ? 'kill -9 $$' : 'exit 1')
          const process = await sandbox.startProcess('true', { pty: true })
          expect(await process.waitForExit()).toMatchObject({ exitCode: 0 })
          await command
        }
      }
      return withSandboxIn(mode, test, { options: { isolation: { processes: 'own' } } })
    },
  )

  it(
    'gives each session temporary files of its own, which are deleted with it',
    isolated(strict, async (sandbox) => {
      await sandbox.exec('true')
      const listed = () => readdirSync(os.tmpdir()).filter((name) => name.startsWith(`nacre-${process.pid}-`))
      const before = listed()
      const other = await sandbox.createSession()
      const { stdout } = await sandbox.exec(
        'echo mine > "$TMPDIR/file"; echo x > /dev/null; cat "$TMPDIR/file"',
      )
      expect(stdout).toBe('mine\n')
      expect((await other.exec('cat "$TMPDIR/file"')).exitCode).toBe(1)
      await sandbox.deleteSession(other.id)
      expect(listed()).toEqual(before)
    }),
  )

  it(
    'keeps state, jobs and background processes as other sessions do',
    isolated(strict, async (sandbox) => {
      await sandbox.exec('f() { echo "f $1"; }; x=1; cd /; sleep 60 & disown')
      expect((await sandbox.exec('f $x; pwd; kill $!')).stdout).toBe('f 1\n/\n')
      const started = await sandbox.startProcess('f $x; pwd; sleep 60 & echo $!; wait')
      await started.waitForLog('/')
      expect(proc.isAlive(started.pid)).toBe(true)
      expect(await started.kill()).toBe(true)
      const timedOut = await rejectionOf(sandbox.exec('sleep 60 & sleep 60', { timeout: 100 }))
      expect(timedOut).toMatchObject({ code: 'COMMAND_TIMEOUT' })
      expect((await sandbox.exec('f $x')).stdout).toBe('f 1\n')
    }),
  )

  it(
    'waits for a port and a page inside',
    isolated(strict, async (sandbox) => {
      const server = `require('http').createServer((q, s) => s.writeHead(q.url === '/ok' ? 200 : 500).end()).listen(8080)`
      const started = await sandbox.startProcess(['node', '-e', server])
      await started.waitForPort(8080)
      await started.waitForPort(8080, { mode: 'http', path: '/ok', status: 200 })
      const missing = started.waitForPort(8080, { mode: 'http', path: '/', status: 200, timeout: 300 })
      expect(await rejectionOf(missing)).toMatchObject({ code: 'PROCESS_READY_TIMEOUT' })
      await started.kill()
    }),
  )

  it(
    'opens a lost channel anew from inside',
    isolated(strict, async (sandbox) => {
      const { stdout, exitCode } = await sandbox.exec(
        'x=5; for n in {3..255}; do eval "exec $n>&-"; done; echo closed',
      )
      expect([stdout, exitCode]).toEqual(['closed\n', 0])
      expect(await sandbox.exec('echo $x')).toMatchObject({ stdout: '5\n', sessionRestarted: false })
    }),
  )

  it('reads only the trees of a list, and what programs need to start', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const readable = path.join(directory, 'readable')
      mkdirSync(path.join(directory, 'work'))
      mkdirSync(readable)
      writeFileSync(path.join(readable, 'file'), 'yes')
      writeFileSync(path.join(directory, 'other'), 'no')
      const session = await sandbox.createSession({
        cwd: 'work',
        isolation: { filesystem: { read: ['readable'], write: ['work'] } },
      })
      const { stdout, stderr } = await session.exec(
        'cat ../readable/file ../other; echo x > file; date +%Y; ls /home',
      )
      expect(stdout).toMatch(/^yes\d{4}\n$/)
      expect(stderr).toMatch(/other/)
      expect(existsSync(path.join(directory, 'work/file'))).toBe(true)
    }))

  it('lets programs reach allowed hosts by the proxy, and reports the others', () => {
    const server = http.createServer((request, response) => response.end(`hello ${request.url}`))
    return new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)).then(async () => {
      const { port } = server.address() as AddressInfo
      const isolation: Isolation = { network: { allow: [`127.0.0.1:${port}`] } }
      try {
        await isolated(isolation, async (sandbox) => {
          const request = (url: string) =>
            `exec 3<>"/dev/tcp/127.0.0.1/\${HTTP_PROXY##*:}"; printf 'GET ${url} HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3; exec 3<&-`
          const allowed = await sandbox.exec(request(`http://127.0.0.1:${port}/page`))
          expect(allowed.stdout).toContain('hello /page')
          expect(allowed.denials).toEqual([])
          const denied = await sandbox.exec(request('http://example.invalid/'))
          expect(denied.stdout).toContain('403 Forbidden')
          expect(denied.denials).toEqual([refusedConnection('example.invalid:80', 'bash')])
          for await (const event of sandbox.events({ since: 0 })) {
            if (event.type !== 'denied') continue
            expect(event.denial).toEqual(refusedConnection('example.invalid:80', 'bash'))
            break
          }
          const past = await sandbox.exec(`exec 3<>/dev/tcp/127.0.0.1/${port}`)
          expect(past.exitCode).toBe(1)
          const ignorant = await sandbox.exec('for i in 1 2; do (: <>/dev/tcp/192.0.2.1/80); done')
          expect(ignorant.denials).toEqual([refusedConnection('192.0.2.1:80', 'bash')])
          expect((await sandbox.exec('true')).denials).toEqual([])
        })()
      } finally {
        server.close()
      }
    })
  })

  it('resolves the links of a rule before anything runs', () =>
    withSandbox(async ({ sandbox, directory }) => {
      for (const name of ['real', 'elsewhere']) mkdirSync(path.join(directory, name))
      symlinkSync('real', path.join(directory, 'link'))
      const session = await sandbox.createSession({ isolation: { filesystem: { write: ['link'] } } })
      await session.exec('echo x > link/file; echo x > elsewhere/file; echo x > new')
      expect(readdirSync(path.join(directory, 'real'))).toEqual(['file'])
      expect(readdirSync(path.join(directory, 'elsewhere'))).toEqual([])
      expect(existsSync(path.join(directory, 'new'))).toBe(false)
    }))

  it(
    'may be stricter for a session, never looser',
    isolated({ filesystem: { write: ['.'], hide: ['/srv'] }, network: 'none' }, async (sandbox) => {
      const session = await sandbox.createSession({
        isolation: { filesystem: { write: [], hide: ['/srv'] }, network: 'none', processes: 'own' },
      })
      expect((await session.exec('echo x > file')).exitCode).toBe(1)
      for (const [isolation, rule] of [
        [{ network: 'none', filesystem: { write: ['/'], hide: ['/srv'] } }, 'filesystem.write'],
        [{ filesystem: { hide: [] } }, 'filesystem.hide'],
        [{ network: 'host' }, 'network'],
        [{ network: { allow: ['a:1'] } }, 'network'],
        ['workspace+network', 'network'],
        [{ bestEffort: true }, 'bestEffort'],
      ] as Array<[Isolation, string]>) {
        const error = await rejectionOf(sandbox.createSession({ isolation }))
        expect(error).toMatchObject({
          code: 'INVALID_OPTION',
          message: expect.stringContaining(`isolation.${rule}`),
        })
      }
    }),
  )

  it(
    'is inherited by a session where the session gives no rule',
    isolated({ filesystem: { write: ['.'], hide: ['/srv'] }, network: 'none' }, async (sandbox) => {
      const probe = 'echo x > file && echo written; ls -A /srv | wc -l; tail -n +3 /proc/net/dev | wc -l'
      const same = { stdout: (await sandbox.exec(probe)).stdout }
      expect(same.stdout).toMatch(/^written\n0\n/)
      for (const isolation of [
        {},
        { filesystem: {} },
        { filesystem: { read: 'all' } },
        { processes: 'host' },
        { network: 'none' },
        { preset: 'workspace' },
        'workspace',
      ] as Isolation[]) {
        const session = await sandbox.createSession({ isolation })
        expect(await session.exec(probe), JSON.stringify(isolation)).toMatchObject(same)
      }
    }),
  )

  it('runs a shell whose path is a link that a private directory covers', () =>
    withSandbox(async ({ directory }) => {
      const link = path.join(mkdtempSync(path.join(os.tmpdir(), 'nacre-link-')), 'bash')
      try {
        symlinkSync('/bin/bash', link)
        await using sandbox = new Sandbox({ cwd: directory, shell: link, isolation: 'workspace' })
        expect((await sandbox.exec(`[ -e ${link} ] || echo covered`)).stdout).toBe('covered\n')
        const job = await sandbox.jobs.start({ command: 'echo $BASH' })
        await sandbox.jobs.wait(job)
        expect((await sandbox.jobs.read(job)).raw).toBe(`${realpathSync('/bin/bash')}\n`)
      } finally {
        rmSync(path.dirname(link), { recursive: true })
      }
    }))

  it('reports what enforces it', () =>
    withSandbox(async ({ sandbox }) => {
      const { filesystem, network, processes, notes } = (await sandbox.capabilities()).isolation
      expect(['namespace', 'landlock', 'none']).toContain(filesystem)
      expect(['namespace', 'landlock+seccomp', 'seccomp', 'none']).toContain(network)
      expect(['namespace', 'landlock', 'none']).toContain(processes)
      expect(Array.isArray(notes)).toBe(true)
    }))
})
