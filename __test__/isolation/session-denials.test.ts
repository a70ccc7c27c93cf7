/** `session.denials()`: what was refused in a session, of commands and of what runs in the background. */

import { existsSync } from 'node:fs'
import path from 'node:path'
import { serve } from '@nacre/server'
import { Sandbox, type SandboxEvent } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { expect, it } from 'vitest'
import { refusedConnection } from '../helpers/denials.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const isolation = { network: { allow: ['allowed.test:80'] }, filesystem: { write: ['.'] } }
const connection = (target: string) => refusedConnection(target, 'bash')
const connect = (target: string) => `bash -c '</dev/tcp/${target.replace(':', '/')}'`

it('lists the refusals of commands and processes in their order, for clients, too', async () => {
  const cwd = temporary('nacre-session-denials-')
  await using sandbox = new Sandbox({ cwd, isolation })
  const session = await sandbox.createSession({ id: 'one' })
  expect(await session.denials()).toEqual([])
  const events: SandboxEvent[] = []
  const stop = new AbortController()
  const reading = (async () => {
    for await (const event of sandbox.events({ since: 0, signal: stop.signal }))
      if (event.type === 'denied') events.push(event)
  })()
  await session.exec(connect('192.0.2.1:80'))
  // The same again, and something else, while no command runs.
  await session.startProcess(`${connect('192.0.2.2:81')}; ${connect('192.0.2.2:81')}; touch asked; sleep 60`)
  await holds(() => existsSync(path.join(cwd, 'asked')))
  expect((await session.denials()).length).toBe(2)
  await session.exec('touch /usr/new')
  const target = '/usr/new'
  const option = 'isolation.filesystem.write'
  const expected = [
    connection('192.0.2.1:80'),
    connection('192.0.2.2:81'),
    { kind: 'write', target, rule: option, fix: { option, add: '/usr' } },
  ]
  expect(await session.denials()).toEqual(expected)
  // Nothing of another session, and the default session has not begun.
  expect(await (await sandbox.createSession()).denials()).toEqual([])
  expect(await (await sandbox.getSession('default'))?.denials()).toEqual([])
  await using serving = await serve(sandbox, { port: 0 })
  const client = new SandboxClient({ url: serving.url })
  expect(await (await client.getSession('one'))?.denials()).toEqual(expected)
  await client.close()
  await holds(() => events.length === 3)
  expect(events.map((event) => event.type === 'denied' && event.denial)).toEqual(expected)
  await sandbox.deleteSession('one')
  await sandbox.createSession({ id: 'one' })
  expect(await (await sandbox.getSession('one'))?.denials()).toEqual([])
  stop.abort()
  expect(await rejectionOf(reading)).toMatchObject({ name: 'AbortError' })
})
