/** RLIMIT_NOFILE 64 and 40 concurrent commands. Each is done or refused with a code, and nothing is lost for good. */
import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { modes } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { holds } from '../helpers/until.js'

/** A session has some 25 descriptors in the host, a runtime about 20 of its own. */
const limited = ['bash', '-c', 'ulimit -n 64; exec "$0" "$@"']

const program = `
  const fs = require('fs')
  const stateDir = fs.mkdtempSync('/tmp/nacre-descriptors-')
  const sandbox = new Sandbox({ cwd: '/tmp', stateDir })
  const files = () => fs.readdirSync('/proc/self/fd').length
  const outcome = (run, expected) => run.then(({ stdout }) => stdout === expected ? 'done' : 'wrong: ' + stdout, (error) => error.name + ' ' + error.code + ' ' + (/Too many open files/.exec(error.message) ?? error.message))
  const count = async (runs) => {
    const counts = {}
    for (const one of await Promise.all(runs)) counts[one] = (counts[one] ?? 0) + 1
    return counts
  }
  const numbers = Array.from({ length: 40 }, (_, index) => index)
  const own = async (number) => (await sandbox.createSession({ id: 's' + number })).exec('echo in; /bin/echo out')
  const main = async () => {
    const other = new Sandbox({ cwd: '/tmp' })
    await other.exec('true')
    await other.destroy()
    const before = files()
    await sandbox.exec('x=kept')
    const parallel = await count(numbers.map((number) => outcome(own(number), 'in\\nout\\n')))
    // The session from before has what it needs, or reports what is missing.
    const crowded = await count(numbers.map((number) => outcome(sandbox.exec('cat; echo ' + number, { input: 'x' }), 'x' + number + '\\n')))
    for (const { id } of await sandbox.listSessions()) if (id !== 'default') await sandbox.deleteSession(id)
    const queued = await count(numbers.map((number) => outcome(sandbox.exec('cat; /bin/echo $x ' + number, { input: 'x' }), 'xkept ' + number + '\\n')))
    await sandbox.destroy()
    const deadline = performance.now() + 10_000
    while (files() > before && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 5))
    const left = { files: Math.max(0, files() - before), stateDir: fs.readdirSync(stateDir) }
    fs.rmSync(stateDir, { recursive: true })
    print('RESULT ' + JSON.stringify({ parallel, crowded, queued, left }))
  }
  main()
`

for (const mode of modes) {
  describe(`64 descriptors and 40 concurrent commands, ${mode.name}`, () => {
    it('are done or refused, and all are done when there is room again', async () => {
      const host = startHost(program, limited, mode.env)
      expect(await host.ended(), host.output()).toBe(0)
      await expectGone(host.tag)
      const { parallel, crowded, queued, left } = JSON.parse(/RESULT (.*)/.exec(host.output())?.[1] ?? '{}')
      const allowed = /^(done|SandboxError (SPAWN_FAILED|ENGINE_ERROR) Too many open files)$/
      for (const kind of [...Object.keys(parallel), ...Object.keys(crowded)]) expect(kind).toMatch(allowed)
      expect(Object.keys(parallel).join()).toContain('SPAWN_FAILED')
      expect(queued).toEqual({ done: 40 })
      expect(left).toEqual({ files: 0, stateDir: [] })
    })
  })
}

const orphaned = `
  const fs = require('fs')
  const sandbox = new Sandbox({ cwd: '/tmp' })
  const main = async () => {
    const supervisor = Number((await sandbox.exec('sleep 60 & echo $PPID')).stdout)
    const taken = []
    const take = () => { try { for (;;) taken.push(fs.openSync('/dev/null', 'r')) } catch {} }
    take()
    process.kill(supervisor, 'SIGKILL')
    // The recovery gives descriptors back, which are taken at once.
    for (const end = performance.now() + 500; performance.now() < end; ) take()
    process.once('SIGUSR2', async () => {
      for (const file of taken) fs.closeSync(file)
      // A call during the recovery fails, and the next one succeeds.
      await sandbox.exec('true').catch(() => undefined)
      print((await sandbox.exec('echo works')).stdout)
      await sandbox.destroy()
      clearInterval(alive)
    })
    print('KILLED ' + supervisor)
  }
  main()
  const alive = setInterval(() => undefined, 1000)
`

it('a supervisor that dies while no descriptor is left leaves nothing', async () => {
  const host = startHost(orphaned, limited, { NACRE_CONTAINMENT: 'subreaper' })
  await host.printed('KILLED')
  const supervisor = Number(/KILLED (\d+)/.exec(host.output())?.[1])
  await holds(() => !proc.isAlive(supervisor))
  host.child.kill('SIGUSR2')
  expect(await host.ended(), host.output()).toBe(0)
  expect(host.output()).toContain('works')
  await expectGone(host.tag)
})

const crowded = `
  const sandbox = new Sandbox({ cwd: '/tmp' })
  const main = async () => {
    // At the end of the command, this process can open nothing.
    const take = 'prlimit --pid ' + process.pid + ' --nofile=3:'
    print('BACKGROUND ' + (await sandbox.exec('sleep 63 >/dev/null 2>&1 & echo $!; ' + take)).stdout)
    print(await sandbox.exec('true').catch(({ code, message }) => code + ' ' + message))
    process.once('SIGUSR2', async () => {
      print(await sandbox.exec('sleep 64', { timeout: 100 }).catch(({ code }) => code))
    })
    print('CROWDED')
  }
  main()
  // Until it is killed: its end would end the background process.
  setInterval(() => undefined, 1000)
`

it('a kill spares what an earlier command left while no descriptor was left', async () => {
  const host = startHost(crowded, limited, { NACRE_CONTAINMENT: 'subreaper' })
  await host.printed('CROWDED')
  expect(host.output()).toMatch(/ENGINE_ERROR .*Too many open files/)
  const background = Number(/BACKGROUND (\d+)/.exec(host.output())?.[1])
  execFileSync('prlimit', ['--pid', String(host.pid), '--nofile=64:'])
  host.child.kill('SIGUSR2')
  await host.printed('COMMAND_TIMEOUT')
  expect(proc.isAlive(background)).toBe(true)
  host.child.kill('SIGKILL')
  await host.ended()
  await expectGone(host.tag)
})
