/** Trees with more processes than a supervisor may open descriptors are ended, with control groups and without. */
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { expect, it } from 'vitest'
import * as proc from '../helpers/proc.js'

const NACRE = path.resolve(import.meta.dirname, '../../dist/index.js')

for (const containment of ['', 'subreaper']) {
  it(`a time-out ends 300 processes with 120 descriptors ${containment}`, () => {
    const nap = proc.uniqueSleep()
    const command = `for i in $(seq 300); do setsid ${nap} & done; ${nap}`
    const program = `
      const { Sandbox } = await import(${JSON.stringify(NACRE)})
      const sandbox = new Sandbox()
      const error = await sandbox.exec(${JSON.stringify(command)}, { timeout: 4000, forceKillAfterDelay: 200 }).catch((error) => error)
      const { stdout } = await sandbox.exec('echo alive')
      await sandbox.destroy()
      console.log(error.code, stdout.trim())`
    const limited = [
      '-c',
      'ulimit -n 120; exec "$@"',
      'bash',
      process.execPath,
      '--input-type=module',
      '-e',
      program,
    ]
    const { stdout, stderr } = spawnSync('bash', limited, {
      encoding: 'utf8',
      timeout: 40_000,
      env: { ...process.env, NACRE_CONTAINMENT: containment },
    })
    expect([stdout, stderr]).toEqual(['COMMAND_TIMEOUT alive\n', ''])
    expect(proc.runs(nap)).toBe(false)
  })
}
