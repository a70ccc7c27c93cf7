/** A container's whole process tree: a compiled server with drop-in sessions is PID 1, and no other process reaps. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildExecutable, type Executable } from '../helpers/compiled.js'
import { asInit } from '../helpers/namespaces.js'

const program = `
  import fs from 'node:fs'
  import { Session } from 'nacre/container'

  const stat = (pid) => {
    try { const text = fs.readFileSync('/proc/' + pid + '/stat', 'latin1'); return text.slice(text.indexOf('(')) } catch { return '' }
  }
  const processes = () => fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).map((pid) => pid + ' ' + stat(pid))
  const zombies = () => processes().filter((line) => line.includes(') Z '))
  // What has just ended is a zombie for a moment; 10 s is no moment.
  const settled = async (wanted) => {
    for (let waited = 0; zombies().length > 0 || processes().length > wanted; waited++) {
      if (waited === 2000) return processes()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    return []
  }

  const orphans = '(sleep 0.01 &); setsid true & ( ( /bin/true & ) & ); count=$((count + 1))'
  const session = new Session({ id: 'main', cwd: '/' })
  await session.initialize()
  let streamed = 0
  for (let index = 0; index < 300; index++) {
    if (index % 20 !== 0) await session.exec(index % 2 ? '/bin/true' : orphans)
    else for await (const event of session.execStream(orphans + '; echo 1')) streamed += event.type === 'stdout' ? Number(event.data) : 0
  }
  const { stdout } = await session.exec('echo $count')
  // This program, the supervisor, the shell, its standby, and the background process that is forked ahead of time.
  const afterwards = await settled(5)
  await session.exec('setsid sleep 600 & ( ( sleep 600 & ) & )')
  await session.destroy()
  console.log(JSON.stringify({ pid: process.pid, stdout, streamed, afterwards, left: await settled(1) }))
`

// A machine that allows no namespaces has nothing to be PID 1 of.
describe.skipIf(asInit === undefined)('a compiled server that is PID 1', () => {
  let executable: Executable

  beforeAll(async () => {
    executable = await buildExecutable(program)
  }, 120_000)

  afterAll(() => executable.remove())

  it('has no zombies after 300 commands with orphans, and nothing is left when its sessions are deleted', async () => {
    const { stdout } = await executable.run(asInit)
    expect(JSON.parse(stdout)).toEqual({ pid: 1, stdout: '135', streamed: 15, afterwards: [], left: [] })
  }, 120_000)
})
