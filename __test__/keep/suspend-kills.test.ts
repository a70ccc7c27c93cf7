/** Hosts that are killed while they suspend a sandbox, and disks that are full then. */
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { withSmallDisk } from '../helpers/namespaces.js'
import { withRandom } from '../helpers/random.js'
import { temporary } from '../helpers/temporary.js'
import { holds } from '../helpers/until.js'

/** Rounds of kills, which NACRE_KILLS sets. */
const ROUNDS = Number(process.env.NACRE_KILLS ?? 15)

it('a kill at any moment leaves a whole archive or none, and the kept state', () =>
  withRandom(async (random) => {
    const base = temporary('nacre-suspend-kills-')
    const file = path.join(base, 'archives/agent.nacre')
    const options = { cwd: base, stateDir: path.join(base, 'state'), keep: 'agent' }
    const program = `
      const { mkdirSync, rmSync } = require('fs')
      mkdirSync('${base}/archives', { recursive: true })
      rmSync('${file}', { force: true })
      const sandbox = new Sandbox(${JSON.stringify(options)})
      void (async () => {
        const session = (await sandbox.getSession('s')) ?? (await sandbox.createSession({ id: 's' }))
        const n = Number((await session.exec('echo $((n += 1))')).stdout)
        await session.exec('printf -v long %900000d 0; f() { echo $n; }')
        print('suspends ' + n)
        await sandbox.suspend('${file}')
        print('suspended')
      })().catch((error) => print(String(error.stack)))`
    for (let round = 1; round <= ROUNDS; round++) {
      const host = startHost(program)
      await holds(() => /suspends \d+/.test(host.output()) || host.output().includes('rror'))
      expect(host.output()).toContain(`suspends ${round}\n`)
      // At most the time that it takes.
      await new Promise((resolve) => setTimeout(resolve, random.below(60)))
      host.child.kill('SIGKILL')
      await host.ended()
      // What still ends in the last round would write where the test removes.
      if (round === ROUNDS) await expectGone(host.tag)
      const names = readdirSync(path.dirname(file))
      expect(names.filter((name) => name !== 'agent.nacre')).toEqual([])
      if (names.length === 0) continue
      const { sandbox } = await Sandbox.resume(file, { cwd: base, stateDir: path.join(base, 'elsewhere') })
      await using _ = sandbox
      const session = await sandbox.getSession('s')
      expect((await session?.exec('echo $(f) ${#long}'))?.stdout).toBe(`${round} 900000\n`)
    }
  }))

/** For each number of free pages, suspends a sandbox. If that fails, it goes on, and nothing is left. */
const onFullDisk = (directory: string) => `
  const fs = require('fs')
  const place = '${directory}'
  const file = place + '/agent.nacre'
  const fill = (left) => {
    try {
      for (;;) fs.writeFileSync(place + '/ballast', Buffer.alloc(4096), { flag: 'a' })
    } catch (error) {
      if (error.code !== 'ENOSPC') throw error
    }
    fs.truncateSync(place + '/ballast', fs.statSync(place + '/ballast').size - left * 4096)
  }
  ;(async () => {
    let sandbox
    const outcomes = []
    for (let left = 0; left < 12; left++) {
      sandbox ??= new Sandbox({ stateDir: '${directory}-state' })
      await sandbox.exec("n=" + left + "; long=$(head -c 15000 /dev/urandom | base64 -w0)")
      fill(left)
      const done = await sandbox.suspend(file).then(() => true, (error) => error.code)
      outcomes.push(done)
      const names = fs.readdirSync(place).filter((name) => name !== 'ballast').join()
      if (done === true) {
        fs.rmSync(file)
        sandbox = undefined
      } else {
        if (names !== '') print('left over: ' + names)
        if ((await sandbox.exec('echo $n')).stdout !== left + '\\n') print('the sandbox does not go on')
      }
      fs.rmSync(place + '/ballast')
    }
    await sandbox?.destroy()
    print([...new Set(outcomes)].join())
  })().catch((error) => print(String(error.stack)))`

it('a full disk leaves the sandbox, and no part of an archive', async () => {
  const directory = temporary('nacre-suspend-disk-')
  const host = startHost(onFullDisk(directory), withSmallDisk(directory))
  expect([await host.ended(60_000), host.output()]).toEqual([0, 'NO_SPACE,true\n'])
  await expectGone(host.tag)
})
