/** `nacre keep`: what was kept under a name is listed and removed. */
import path from 'node:path'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { withCli } from '../helpers/cli.js'

it('lists and removes sandboxes that were kept', () =>
  withCli(async ({ nacre, root }) => {
    const stateDir = path.join(path.dirname(root), 'state')
    const place = ['--state-dir', stateDir]
    expect(await nacre('keep', 'ls', ...place, '--json')).toEqual({ code: 0, stdout: '[]\n', stderr: '' })
    {
      await using sandbox = new Sandbox({ stateDir, keep: 'agent-7' })
      await sandbox.exec('x=1')
      expect((await nacre('keep', 'ls', ...place)).stdout).toMatch(/^agent-7 +\S+Z +in use *$/m)
      const inUse = await nacre('keep', 'rm', 'agent-7', ...place)
      expect([inUse.code, inUse.stderr]).toEqual([1, expect.stringContaining(`process ${process.pid}`)])
    }
    expect((await nacre('keep', 'ls', ...place)).stdout).toMatch(
      /^NAME +LAST USE +STATE\nagent-7 +\S+Z +kept *\n$/,
    )
    expect(JSON.parse((await nacre('keep', 'ls', ...place, '--json')).stdout)).toEqual([
      { name: 'agent-7', inUse: false, usedAt: expect.any(String) },
    ])
    expect(await nacre('keep', 'rm', 'agent-7', ...place)).toEqual({ code: 0, stdout: '', stderr: '' })
    const gone = await nacre('keep', 'rm', 'agent-7', ...place)
    expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("nothing is kept as 'agent-7'")])
  }))
