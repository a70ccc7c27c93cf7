/** The host is PID 1 of a pid namespace, as in a container: whatever loses its parent becomes its child. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { isRest, modes } from '../helpers/modes.js'
import { asInit as wrapper } from '../helpers/namespaces.js'
import * as proc from '../helpers/proc.js'
import { holds, until } from '../helpers/until.js'

/** Half of them leave orphans. */
const COMMANDS = isRest ? 1000 : 200

const program = `
  const fs = require('fs')
  const sandbox = new Sandbox({ cwd: '/tmp' })
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
  const stat = (pid) => { try { const text = fs.readFileSync('/proc/' + pid + '/stat', 'latin1'); return text.slice(text.indexOf('(')) } catch { return '' } }
  const all = () => fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).map((pid) => pid + ' ' + stat(pid)).filter((line) => line.includes('('))
  const look = (wanted) => {
    const found = all()
    return { zombies: found.filter((line) => line.includes(') Z ')), surplus: found.slice(wanted) }
  }
  // What has just ended is a zombie for a moment, and while the standby is being replaced there are two.
  const settled = async (wanted) => {
    let seen = look(wanted)
    for (let waited = 0; seen.zombies.length + seen.surplus.length > 0 && waited < 400; waited++) {
      await pause(5)
      seen = look(wanted)
    }
    return seen
  }
  const orphans = '(sleep 0.01 &); setsid true & ( ( /bin/true & ) & ); sleep 0 & x=$((x + 1))'
  const main = async () => {
    for (let index = 0; index < ${COMMANDS}; index++) await sandbox.exec(index % 2 ? '/bin/true' : orphans)
    const { stdout } = await sandbox.exec('echo $x')
    // The host, the supervisor, the shell and the standby.
    const after = await settled(4)
    // Without its supervisor a session's processes are the host's own children.
    for (let round = 0; round < 3; round++) {
      const supervisor = Number((await sandbox.exec('sleep 600 & (sleep 600 &); echo $PPID')).stdout)
      process.kill(supervisor, 'SIGKILL')
      while (fs.existsSync('/proc/' + supervisor) && !stat(supervisor).includes(') Z ')) await pause(1)
      await sandbox.exec('echo on')
    }
    const bereaved = await settled(4)
    await sandbox.destroy()
    const end = await settled(1)
    print('RESULT ' + JSON.stringify({ pid: process.pid, x: stdout, after, bereaved, end }))
  }
  main()
`

/** Control groups of a host with the pid 1 that are in what it printed, which is where one of its processes was. */
const groupsIn = (printed: string) =>
  proc.ownGroups('1').filter((group) => printed.includes(`/${path.basename(group)}/`))

/** Removes a control group; the kernel may need a moment to see that it is empty. */
async function untilRemoved(group: string): Promise<void> {
  let refusal: unknown
  const remove = () => {
    try {
      proc.removeGroup(group)
      return true
    } catch (error) {
      refusal = error
      return undefined
    }
  }
  await until(remove, () => `not removed: ${refusal}`)
}

describe.skipIf(wrapper === undefined)('a host that is init of its pid namespace', () => {
  for (const mode of modes) {
    it(`has no zombies after ${COMMANDS} commands with orphans, nor after its supervisor was killed, ${mode.name}`, async () => {
      const host = startHost(program, wrapper, mode.env)
      expect(await host.ended(), host.output()).toBe(0)
      await expectGone(host.tag)
      const none = { zombies: [], surplus: [] }
      expect(JSON.parse(/RESULT (.*)/.exec(host.output())?.[1] ?? '{}')).toEqual({
        pid: 1,
        x: `${COMMANDS / 2}\n`,
        after: none,
        bereaved: none,
        end: none,
      })
    })

    it(`takes everything along when it is killed, and the next one is not in its way, ${mode.name}`, async () => {
      const stateDir = mkdtempSync(path.join(os.tmpdir(), 'nacre-init-'))
      const busy = `
        const sandbox = new Sandbox({ cwd: '/tmp', stateDir: ${JSON.stringify(stateDir)} })
        sandbox.exec('sleep 600 & setsid sleep 600 & cat /proc/self/cgroup').then(async ({ stdout }) => {
          sandbox.exec('sleep 600').catch(() => {})
          print(stdout + 'ready, with groups: ' + (await sandbox.capabilities()).cgroup)
        })
      `
      let groups: string[] = []
      for (let round = 0; round < 2; round++) {
        const host = startHost(busy, wrapper, mode.env)
        await host.printed('ready')
        // It removes what the host before it has left.
        await holds(() => !groups.some((group) => existsSync(group)))
        process.kill(host.pid, 'SIGKILL')
        expect(await host.ended()).toBe('SIGKILL')
        await expectGone(host.tag)
        expect(host.output().includes('/nacre-1-')).toBe(host.output().includes('with groups: v2'))
        groups = groupsIn(host.output())
      }
      // With the namespace its supervisors are killed too, mostly before they have removed what is empty now.
      rmSync(stateDir, { recursive: true })
      for (const group of groups) await untilRemoved(group)
    })
  }

  it('has pidfds, and reports them', async () => {
    const host = startHost(
      'new Sandbox().capabilities().then((found) => print(JSON.stringify(found)))',
      wrapper,
    )
    expect(await host.ended(), host.output()).toBe(0)
    expect(JSON.parse(host.output()).pidfd).toBe(process.env.NACRE_PIDFD !== 'off')
  })
})
