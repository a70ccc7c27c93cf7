/** A server whose sandbox has a name is killed and started again while a client runs commands. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { SandboxClient } from 'nacre/client'
import { expect, it } from 'vitest'
import { withCli } from '../helpers/cli.js'
import { freePort } from '../helpers/serving.js'
import { holds } from '../helpers/until.js'

it('no command of a client runs twice, each lost one is reported, and sessions go on', () =>
  withCli(async ({ start, root }) => {
    const port = String(await freePort())
    const base = path.dirname(root)
    const state = path.join(base, 'state')
    const words = ['serve', '--port', port, '--keep', 'agent', '--state-dir', state, '--cwd', base]
    const begin = async () => {
      const server = start(words, '')
      await server.printed('nacre listens')
      return server
    }
    let server = await begin()
    const client = new SandboxClient({ url: `http://127.0.0.1:${port}`, resume: true })
    await (await client.createSession({ id: 's' })).exec('count=0')
    const [answered, lost] = [[] as number[], [] as number[]]
    let [number, isOver] = [0, false]
    const errors = new Set<string>()
    const running = (async () => {
      while (!isOver) {
        const own = number++
        try {
          const session = await client.getSession('s')
          const { stdout } = (await session?.exec(`last=${own}; echo ${own} >> log; echo $last $count`)) ?? {}
          expect(stdout).toBe(`${own} 0\n`)
          answered.push(own)
        } catch (error) {
          errors.add(String((error as Error).message))
          lost.push(own)
        }
      }
    })()
    for (let round = 0; round < 4; round++) {
      const enough = answered.length + 10
      await holds(() => answered.length >= enough)
      server.child.kill('SIGKILL')
      await server.ended
      server = await begin()
    }
    const enough = answered.length + 10
    await holds(() => answered.length >= enough)
    isOver = true
    await running
    // It deletes its session, so the server must still be there.
    await client.close()
    for (const error of errors)
      expect(error).toBe(
        'CALLER_NOT_FOUND: there is no such caller: the server has started again, and the call may have run before; look before you repeat it',
      )
    const ran = readFileSync(path.join(base, 'log'), 'utf8').trim().split('\n').map(Number)
    expect(new Set(ran).size).toBe(ran.length)
    expect(answered.every((one) => ran.includes(one))).toBe(true)
    expect(answered.length + lost.length).toBe(number)
    server.child.kill('SIGTERM')
    await server.ended
  }))
