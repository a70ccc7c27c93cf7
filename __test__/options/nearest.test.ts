import { describe, expect, it } from 'vitest'
import { execOptions } from '../../lib/calls/exec.js'
import { sandboxOptions } from '../../lib/calls/sandbox.js'
import { nearestName } from '../../lib/schema/nearest.js'

describe('nearestName', () => {
  const exec = Object.keys(execOptions)
  for (const [given, meant] of Object.entries({
    timeoutMs: 'timeout',
    timeOut: 'timeout',
    timeuot: 'timeout',
    evn: 'env',
    envs: 'env',
    CWD: 'cwd',
    session: 'sessionId',
    forceKillDelay: 'forceKillAfterDelay',
    maxbufer: 'maxBuffer',
    onstdout: 'onStdout',
    reject: 'check',
    stdin: 'input',
    workdir: 'cwd',
    workingDirectory: 'cwd',
  }))
    it(`takes ${given} for ${meant}`, () => expect(nearestName(given, exec)).toBe(meant))

  it('takes cmd for command, and not for cwd', () =>
    expect(nearestName('cmd', ['command', ...exec])).toBe('command'))

  it('finds nothing for a name that is not near', () => {
    for (const name of ['reject', 'x', '', 'other', 'localDir', 'timeout'.repeat(20)])
      expect(nearestName(name, Object.keys(sandboxOptions)), name).toBeUndefined()
  })
})
