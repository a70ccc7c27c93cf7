/** Hosts that run commands without pause, and are killed at any moment. */
import { mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import { expectGone, type Host, startHost } from '../helpers/host.js'
import * as proc from '../helpers/proc.js'
import type { Random } from '../helpers/random.js'
import { temporary } from '../helpers/temporary.js'
import { holds } from '../helpers/until.js'

export type Victims = 'host' | 'host and supervisor' | 'supervisor and host'

/** Each command sets a variable, a function, a long value and `$?`, which must all be of the same command afterwards. */
const PROGRAM = `
  const of = async (id) => (await sandbox.getSession(id)) ?? (await sandbox.createSession({ id }))
  void (async () => {
    const session = await of('s')
    const shown = (await session.exec('echo $? \${n:-0} $(f) \${#long}')).stdout.trim()
    print('begun ' + shown)
    for (let n = Number(shown.split(' ')[1]); ; ) {
      n++
      const change = 'n=' + n + '; f() { echo ' + n + '; }; printf -v long %' + (n % 50) + '000d 0'
      await session.exec(change + '; (exit ' + (n % 200) + ')')
      print('answered ' + n)
    }
  })().catch((error) => print(String(error.stack)))`

/**
 * Kills and starts again so many times. Checks after each round that the state is that after one command, and after which: if
 * the supervisor lives, after the last one that has answered, or the one that ran; otherwise after one of the round or before.
 */
export async function killRounds(rounds: number, victims: Victims, random: Random): Promise<void> {
  const base = temporary('nacre-kills-')
  const options = { cwd: base, stateDir: path.join(base, 'state'), keep: 'killed' }
  mkdirSync(options.stateDir, { mode: 0o700 })
  let [least, most] = [0, 0]
  for (let round = 0; round <= rounds; round++) {
    const host = startHost(`const sandbox = new Sandbox(${JSON.stringify(options)}); ${PROGRAM}`)
    const numbers = /^begun (\d+) (\d+) (?:(\d+) )?(\d+)$/m
    await holds(() => numbers.test(host.output()) || host.output().includes('rror'))
    const found = numbers.exec(host.output()) ?? []
    const [status = 0, n = 0, f = 0, length = 0] = found.slice(1).map((text) => Number(text ?? 0))
    if (n !== 0) expect([f, length], host.output()).toEqual([n, (n % 50) * 1000 || 1])
    // The first command of the last round has changed `$?` alone.
    if (n !== 0 && !(status === 0 && n === least)) expect(status, host.output()).toBe(n % 200)
    expect(n, host.output()).toBeGreaterThanOrEqual(least)
    expect(n, host.output()).toBeLessThanOrEqual(most)
    const enough = random.below(60)
    await holds(() => answers(host) > enough || host.output().includes('rror'))
    const supervisors = victims === 'host' ? [] : proc.children(host.pid)
    if (victims === 'host and supervisor') host.child.kill('SIGKILL')
    for (const pid of supervisors) signal(pid)
    if (victims !== 'host and supervisor') host.child.kill('SIGKILL')
    await host.ended()
    // What still ends in the last round would write where the test removes.
    if (victims !== 'host' || round === rounds) await expectGone(host.tag)
    most = answers(host) + n + 1
    least = victims === 'host' ? most - 1 : n
    const left = readdirSync(path.join(options.stateDir, 'kept/killed')).filter(
      (name) => !/^(host|session-s)$/.test(name),
    )
    // A kill may leave what was being written. The next write replaces it.
    expect(left.filter((name) => !/^new-(host|session-s)$/.test(name))).toEqual([])
  }
}

const answers = (host: Host) => host.output().split('answered ').length - 1

function signal(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    expect((error as NodeJS.ErrnoException).code).toBe('ESRCH')
  }
}
