import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { overStdio } from './places.js'

it('--keep goes on with the sessions that the model has opened', async () => {
  const base = temporary('nacre-mcp-keep-', '/var/tmp')
  const cwd = path.join(base, 'work')
  mkdirSync(cwd)
  const words = ['--keep', 'agent', '--state-dir', path.join(base, 'state'), '--cwd', cwd]
  await overStdio(
    async ({ call }) => {
      await call('bash', { command: 'mkdir -p deep && cd deep && x=1' })
      await call('sessions', { open: 'other' })
      await call('bash', { command: 'f() { echo from f; }', session: 'other' })
    },
    { words },
  )
  await overStdio(
    async ({ call }) => {
      expect((await call('bash', { command: 'echo "$x"; pwd' })).text).toContain(`1\n${cwd}/deep`)
      expect((await call('bash', { command: 'f', session: 'other' })).text).toContain('from f')
    },
    { words },
  )
})
