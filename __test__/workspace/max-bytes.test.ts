/** Layers on disk with `maxBytes`: what lets them grow beyond it is killed. */
import { execFile } from 'node:child_process'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Sandbox, SandboxError } from 'nacre'
import { expect, it } from 'vitest'
import { processIn } from '../contract/helper.js'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const MIB = 1 << 20
const limited = { options: { workspace: { mode: 'copy-on-write', maxBytes: 8 * MIB } } } as const
const REASON = { by: 'budget', reason: `workspace.maxBytes is ${8 * MIB}` }
/** Writes 1 MiB after the other, for ever. */
const WRITE = 'for ((i = 0; ; i++)); do head -c 1048576 /dev/zero >> big; done'

it('a command that writes too much is killed, with what else runs, and the session goes on', () =>
  withSandbox(async ({ sandbox, directory }) => {
    const other = await sandbox.createSession()
    const idle = await other.startProcess('sleep 600')
    await sandbox.exec('x=1')
    const error = (await rejectionOf(sandbox.exec(`echo out; ${WRITE}`))) as SandboxError
    expect(error).toMatchObject({ code: 'BUDGET_EXCEEDED', result: { stdout: 'out\n', killedBy: REASON } })
    expect(error.message).toContain(`workspace.maxBytes is ${8 * MIB}`)
    expect(await idle.waitForExit()).toMatchObject({ signal: 'SIGKILL' })
    expect((await sandbox.getProcess(idle.id))?.killedBy).toEqual(REASON)
    const left = Number((await sandbox.exec('echo $x; stat -c %s big')).stdout.split('\n')[1])
    expect(left).toBeGreaterThan(7 * MIB)
    expect((await sandbox.workspace.usage()).bytes).toBeGreaterThan(8 * MIB)
    expect(() => statSync(path.join(directory, 'big'))).toThrow('ENOENT')
    expect(await rejectionOf(sandbox.exec(WRITE))).toMatchObject({ code: 'BUDGET_EXCEEDED' })
    expect((await sandbox.exec('rm big; sleep 0.2; head -c 1000 /dev/zero > small; echo ok')).stdout).toBe(
      'ok\n',
    )
    expect(await rejectionOf(sandbox.exec(WRITE))).toMatchObject({ code: 'BUDGET_EXCEEDED' })
  }, limited))

it('background processes and daemons end, too', () =>
  withSandbox(async ({ sandbox, stateDir }) => {
    const pid = path.join(path.dirname(stateDir), 'pid')
    const writer = await sandbox.startProcess(WRITE)
    expect(await writer.waitForExit()).toMatchObject({ signal: 'SIGKILL', reason: 'killed' })
    await settled(sandbox)
    const go = `${pid}-go`
    const daemon = `echo $$ > ${pid}; until [ -e ${go} ]; do sleep 0.01; done; ${WRITE}`
    await sandbox.exec(`rm big; (setsid bash -c '${daemon}' &)`)
    await until(
      () => existsSync(pid) || undefined,
      () => 'the daemon has not begun',
    )
    writeFileSync(go, '')
    await until(
      () => processIn(pid) === undefined || undefined,
      () => 'the daemon lives',
    )
    await settled(sandbox)
  }, limited))

/** What comes while the others are still being killed is given up, too. */
const settled = (sandbox: Sandbox) =>
  until(
    () =>
      sandbox.exec('true').then(
        () => true,
        () => undefined,
      ),
    () => 'no command runs any more',
  )

it('below the limit, nothing is killed, whatever other programs write to the disk', () =>
  withSandbox(async ({ sandbox, stateDir }) => {
    const beside = `for ((i = 0; i < 20; i++)); do head -c 1048576 /dev/zero >> ${stateDir}/../beside; sleep 0.01; done`
    const [result] = await Promise.all([
      sandbox.exec(
        'for ((i = 0; i < 40; i++)); do head -c 100000 /dev/zero > file-$i; sleep 0.01; done; echo ok',
      ),
      promisify(execFile)('bash', ['-c', beside]),
    ])
    expect(result.stdout).toBe('ok\n')
  }, limited))
