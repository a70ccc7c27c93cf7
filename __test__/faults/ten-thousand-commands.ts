/** Thousands of commands in a row, and what their host and their session use before, between and after. */
import { expect } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { collecting } from '../helpers/memory.js'

/** Commands until the runtime has taken what it takes once: some 4 MB, more slowly on a busy machine. */
const WARM_UP = 5000
const fixedHeap = { NODE_OPTIONS: '--max-semi-space-size=1' }

/** One in 250 of each kind that ends, replaces or forks something; the others are the plainest there is. */
const program = (commands: number) => `
  const fs = require('fs')
  const path = require('path')
  const stateDir = fs.mkdtempSync('/tmp/nacre-endurance-')
  const sandbox = new Sandbox({ cwd: '/tmp', stateDir })
  const kinds = [
    ['exit 3'],
    ['sleep 0 &'],
    ['cat; /bin/echo out; echo err >&2', { input: 'in' }],
    ['pwd', { cwd: '/usr', env: { A: 'b' } }],
    ['kill -9 $$'],
    ['echo cut', { maxBuffer: 2 }],
    ['echo live', { onOutput() {} }],
    ['sleep 9', { timeout: 1 }],
    [['printf', '%s', 'words']],
  ]
  const repeat = async (times) => {
    for (let index = 0; index < times; index++) {
      const [command, options] = index % 250 < kinds.length ? kinds[index % 250] : ['echo hi']
      await sandbox.exec(command, options).catch(({ code }) => { if (code !== 'COMMAND_TIMEOUT') throw code })
    }
  }

  ${collecting}
  // What has ended since it was listed holds nothing.
  const read = (file) => { try { return fs.readFileSync(file, 'latin1') } catch { return '' } }
  const anonymous = (pid) => Number(/^RssAnon:\\s*(\\d+)/m.exec(read('/proc/' + pid + '/status'))?.[1] ?? 0)
  const tasks = (pid) => { try { return fs.readdirSync('/proc/' + pid + '/task') } catch { return [] } }
  const children = (pid) => tasks(pid).flatMap((task) => read('/proc/' + pid + '/task/' + task + '/children').split(' ').filter(Boolean))
  const below = (pid) => children(pid).flatMap((child) => [child, ...below(child)])
  const groups = () => {
    const own = /^0::(.*)$/m.exec(read('/proc/self/cgroup'))?.[1] ?? ''
    const mount = read('/proc/self/mountinfo').split('\\n').find((line) => line.includes(' - cgroup2 '))?.split(' ')[4]
    if (mount === undefined) return 0
    const sessions = fs.readdirSync(path.join(mount, own)).filter((name) => name.startsWith('nacre-' + process.pid + '-'))
    return sessions.flatMap((name) => fs.readdirSync(path.join(mount, own, name)).filter((group) => group.startsWith('fg-'))).length
  }
  const count = () => ({
    processes: below(process.pid).length,
    files: fs.readdirSync('/proc/self/fd').length,
    threads: tasks('self').filter((task) => read('/proc/self/task/' + task + '/comm').startsWith('nacre')).length,
    groups: groups(),
    stateFiles: fs.readdirSync(stateDir, { recursive: true }).length,
  })
  // A standby comes a moment after the last command, what a timeout has killed is reaped a moment after its result.
  const use = async () => {
    await sandbox.exec('true')
    let [counts, same] = [count(), 0]
    while (same < 20) {
      await new Promise((resolve) => setTimeout(resolve, 5))
      const now = count()
      same = JSON.stringify(now) === JSON.stringify(counts) ? same + 1 : 0
      counts = now
    }
    collect()
    const session = below(process.pid).reduce((sum, pid) => sum + anonymous(pid), 0)
    return { counts, session, heap: process.memoryUsage().heapUsed / 1024, host: anonymous('self') }
  }

  const main = async () => {
    await repeat(${WARM_UP})
    const uses = [await use()]
    for (let half = 0; half < 2; half++) {
      await repeat(${commands / 2})
      uses.push(await use())
    }
    await sandbox.destroy()
    const left = fs.readdirSync(stateDir)
    fs.rmSync(stateDir, { recursive: true })
    print('RESULT ' + JSON.stringify({ uses, left }))
  }
  main()
`

/** Kilobytes, and how many there are of what can be counted. */
export interface Use {
  heap: number
  host: number
  session: number
  counts: { processes: number; files: number; threads: number; groups: number; stateFiles: number }
}

/** What is in use before, halfway through and after the commands. */
export async function usesOf(commands: number, env: Record<string, string>): Promise<[Use, Use, Use]> {
  const host = startHost(program(commands), [], { ...fixedHeap, ...env })
  expect(await host.ended(60_000), host.output()).toBe(0)
  await expectGone(host.tag)
  const { uses, left } = JSON.parse(/RESULT (.*)/.exec(host.output())?.[1] ?? '{}')
  expect(left).toEqual([])
  return uses
}
