/** A directory is on a file system that does not respond: calls that need it fail, and all others go on. */
import { mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { canHang, withHungDirectory } from '../helpers/namespaces.js'
import { temporary } from '../helpers/temporary.js'

/** Uses a session while calls of others hang. */
const goOn = `
  const goOn = async (sandbox) => {
    for (let count = 0; count < 200; count++) await sandbox.exec('true')
    return 'went on'
  }`

if (!canHang) console.warn('a hung file system is not tested: it needs access to /dev/fuse')

/** Runs a program and expects that it prints this, ends well and leaves nothing. */
async function expectOutput(program: string, wrapper: string[], output: string): Promise<void> {
  const host = startHost(goOn + program, wrapper)
  expect([await host.ended(), host.output()]).toEqual([0, output])
  await expectGone(host.tag)
}

/** Runs a test with a directory of its own. */
async function withDirectory(test: (directory: string) => Promise<void>): Promise<void> {
  const directory = temporary('nacre-hung-')
  await test(directory)
}

it.skipIf(!canHang)('as the directory of sessions, commands, processes and jobs', () =>
  withDirectory(async (directory) => {
    const hung = path.join(directory, 'hung')
    mkdirSync(hung)
    const program = `
      const cwd = '${hung}'
      const jobSandbox = new Sandbox({ cwd: '/', jobsRoot: '${directory}/jobs' })
      const sandbox = new Sandbox({ cwd: '/', jobsRoot: cwd + '/jobs' })
      const code = (promise) => promise.then(() => 'none', (error) => error.code)
      ;(async () => {
        await sandbox.exec('x=1')
        const plain = sandbox.createSession({ id: 'plain', cwd }).catch((error) => error)
        const isolated = code(sandbox.createSession({ id: 'isolated', cwd, isolation: { preset: 'workspace', filesystem: { write: ['/'] } } }))
        const job = jobSandbox.jobs.start({ command: 'true', cwd }).catch((error) => error)
        // Never answered.
        code(sandbox.jobs.list())
        const other = await sandbox.createSession({ id: 'other' })
        await other.exec('y=2')
        const entering = code(other.exec('true', { cwd, timeout: 50 }))
        const process = code(sandbox.startProcess('true', { cwd }))
        print(await goOn(sandbox))
        print(await code(sandbox.exec('sleep 60', { timeout: 50 })))
        print((await sandbox.exec('echo x=$x')).stdout.trim())
        print(await entering)
        print((await other.exec('echo y=$y')).stdout.trim())
        for (const { code: kind, message } of [await plain, await job])
          print(kind + (message.includes(cwd + "'") && message.includes('does not respond')))
        await sandbox.destroy()
        print([await isolated, await process].join())
        globalThis.process.exit()
      })()`
    const output =
      'went on\nCOMMAND_TIMEOUT\nx=1\nCOMMAND_TIMEOUT\ny=2\nSPAWN_FAILEDtrue\nSPAWN_FAILEDtrue\nSANDBOX_DESTROYED,SANDBOX_DESTROYED\n'
    await expectOutput(program, withHungDirectory(hung), output)
    expect(readdirSync(path.join(directory, 'jobs'))).toEqual([])
  }),
)

it.skipIf(!canHang)('as the directory of isolated sessions', () =>
  withDirectory(async (directory) => {
    const hung = path.join(directory, 'hung')
    mkdirSync(hung)
    const program = `
      const options = { cwd: '${hung}', isolation: { preset: 'workspace', filesystem: { write: ['/'] } } }
      const sandbox = new Sandbox({ cwd: '/', jobsRoot: '${directory}/jobs' })
      const closing = new Sandbox({ cwd: '/', jobsRoot: '${directory}/jobs' })
      const jobSandbox = new Sandbox({ ...options, jobsRoot: '${directory}/jobs' })
      const code = (promise) => promise.then(() => 'none', (error) => error.code)
      ;(async () => {
        await Promise.all([sandbox.exec('true'), closing.exec('true')])
        const refused = sandbox.createSession({ ...options, id: 'refused' }).catch((error) => error)
        const closed = code(closing.createSession({ ...options, id: 'closed' }))
        const job = jobSandbox.jobs.start({ command: 'true' }).catch((error) => error)
        print(await goOn(sandbox))
        await closing.destroy()
        print(await closed)
        for (const { code: kind, message } of [await refused, await job])
          print(kind + message.endsWith('a path of the isolation does not respond'))
        await sandbox.destroy()
        await jobSandbox.destroy()
        globalThis.process.exit()
      })()`
    const output = 'went on\nSANDBOX_DESTROYED\nSPAWN_FAILEDtrue\nSPAWN_FAILEDtrue\n'
    await expectOutput(program, withHungDirectory(hung), output)
    expect(readdirSync(path.join(directory, 'jobs'))).toEqual([])
  }),
)

it.skipIf(!canHang)('as the directory of jobs, for more calls than the engine has threads', () =>
  withDirectory(async (directory) => {
    const hung = path.join(directory, 'hung')
    mkdirSync(hung)
    const program = `
      const jobSandbox = new Sandbox({ cwd: '/', jobsRoot: '${hung}/jobs' })
      const sandbox = new Sandbox({ cwd: '/', jobsRoot: '${directory}/jobs' })
      ;(async () => {
        await sandbox.exec('true')
        for (let count = 0; count < 1000; count++) jobSandbox.jobs.list().catch(() => {})
        print(await goOn(sandbox))
        const job = await sandbox.jobs.start({ command: 'true' })
        print(String((await sandbox.jobs.wait(job.jobId)).exitCode))
        const process = await sandbox.startProcess('true')
        print(String((await process.waitForExit()).exitCode))
        print(await sandbox.files.read('/proc/sys/kernel/ostype'))
        await sandbox.destroy()
        await jobSandbox.destroy()
        globalThis.process.exit()
      })()`
    await expectOutput(program, withHungDirectory(hung), 'went on\n0\n0\nLinux\n\n')
  }),
)

it.skipIf(!canHang)('as the state directory', () =>
  withDirectory(async (directory) => {
    const state = path.join(directory, 'state')
    mkdirSync(state, { mode: 0o700 })
    const program = `
      const stateDir = '${state}'
      const sandbox = new Sandbox({ cwd: '/', stateDir })
      ;(async () => {
        await (await sandbox.startProcess('true')).waitForExit()
        const mounted = await sandbox.exec(
          'exec 8<>/dev/fuse; mount -i -t fuse -o fd=8,rootmode=40000,user_id=0,group_id=0 none ' + stateDir)
        print(String(mounted.exitCode))
        const process = await sandbox.startProcess('yes')
        let bytes = 0
        for await (const event of process.output()) if ((bytes += event.data.length) > 600000) break
        const other = new Sandbox({ cwd: '/', stateDir: stateDir + '/deeper' })
        const refused = other.startProcess('true').catch((error) => error)
        print(await goOn(sandbox))
        print((await process.getLogs()).stdout.length < 2 ** 20 ? 'bounded' : 'unbounded')
        await process.kill()
        print((await process.waitForExit()).signal)
        const { code, message } = await refused
        print(code + message.endsWith('does not respond'))
        await other.destroy()
        await sandbox.destroy()
        globalThis.process.exit()
      })()`
    const output = '0\nwent on\nbounded\nSIGTERM\nSTATE_DIR_UNAVAILABLEtrue\n'
    await expectOutput(program, ['unshare', '--mount', '--map-root-user'], output)
  }),
)
