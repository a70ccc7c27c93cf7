/** A command kills by name, session, user or group: what does not match lives, and lost state is reported. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { prepare } from '../helpers/family.js'
import { expectGone, startHost } from '../helpers/host.js'
import { itInEveryMode, modes } from '../helpers/modes.js'
import { asInit } from '../helpers/namespaces.js'
import * as proc from '../helpers/proc.js'
import { until } from '../helpers/until.js'

/** The directory of the project, which only the arguments of what a command starts may have. */
const PROJECT = 'my-project'

/** They match the shell, or nothing of the session. */
const sparing = [
  'pkill -9 bash',
  'pkill -9 -x bash',
  'pkill -9 -n bash',
  'pkill -9 -o bash',
  'pkill -9 -u $(id -un) bash',
  'killall -9 bash',
  'killall -9 -e bash',
  "killall -9 -r 'ba.*'",
  'skill -KILL -c bash',
  'kill -9 $(pidof bash)',
  'kill -9 $(pgrep -x bash)',
  'pgrep bash | xargs kill -9',
  `ps -eo pid=,comm= | awk '$2 == "bash" { print $1 }' | xargs kill -9`,
  "ps -ef | grep '[n]orc' | awk '{ print $2 }' | xargs kill -9",
  'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" = bash ] && kill -9 ${p#/proc/}; done',
  'for p in /proc/[0-9]*; do grep -q norc $p/cmdline && kill -9 ${p#/proc/}; done',
  'pkill -9 -f norc',
  'pkill -9 -f noprofile',
  "pkill -9 -f '^bash '",
  'pkill -9 -f /bin/bash',
  `pkill -9 -f ${PROJECT}`,
  'pkill -9 -f "$PWD"',
  'pkill -9 -f /target/',
  'pkill -9 -f node_modules',
  'pkill -9 -P $$',
  'pkill -9 -g 0',
  'kill -9 0',
  'kill -9 -$$',
]

/** They match the standby too, and some the supervisor, with which everything of its session ends. */
const sweeping = [
  'kill -9 -1',
  'pkill -9 .',
  'pkill -9 -u $(id -u)',
  'pkill -9 -U $(id -un)',
  'pkill -9 -G $(id -g)',
  'pkill -9 -s 0',
  'pkill -9 -P $PPID',
  'pkill -9 -f nacre',
  'fuser -k -9 .',
  'for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done',
]

const program = `
  const fs = require('fs')
  if (process.pid !== 1) throw new Error('not in a pid namespace of its own')
  const directory = fs.mkdtempSync(require('path').join(require('os').tmpdir(), '${PROJECT}-'))
  const runs = (pid) => { try { return !fs.readFileSync('/proc/' + pid + '/stat', 'latin1').includes(') Z ') } catch { return false } }
  const round = async (kill, spares) => {
    const sandbox = new Sandbox({ cwd: directory })
    const sleeper = await sandbox.startProcess('exec sleep 1000')
    await sandbox.exec('x=1; f() { echo f; }')
    // It runs behind a standby with that state.
    const leaves = 'setsid sleep 1000 >/dev/null 2>&1 & echo $PPID $!'
    // Until the programs have replaced them, both have the name of bash, and a kill of bash matches them.
    const begun = 'for pid in $! ' + sleeper.pid + '; do until grep -q sleep /proc/$pid/comm; do :; done; done'
    const left = await sandbox.exec('(' + leaves + '; ' + begun + ')')
    const [supervisor, job] = left.stdout.split(' ').map(Number)
    const run = (text) => sandbox.exec(text, { timeout: 20000 }).catch((error) => ({ ...error.result, code: error.code }))
    const results = [await run(kill)]
    // The program that kills may still run, and meet the next shell too. A supervisor may be dying, which its command reports.
    do results.push(await run('echo $x; f'))
    while (results.at(-1).signal === 'SIGKILL' || (!spares && results.at(-1).code === 'ENGINE_ERROR'))
    const { stdout } = results.at(-1)
    const lost = results.flatMap(({ lostState = [] }) => lostState)
    const lives = [supervisor, sleeper.pid, job].map(runs)
    await sandbox.destroy()
    const isKept = stdout === '1\\nf\\n' && lost.length === 0
    const isReported = lost.some(({ kind }) => kind === 'state')
    // killall looks at each process just before it kills it: it can meet the next shell before that has a standby.
    const isHeld = isKept || (isReported && (!spares || kill.startsWith('killall')))
    const isRight = isHeld && (!spares || lives.every(Boolean))
    return isRight ? [] : [{ kill, stdout, lost, lives }]
  }
  const main = async () => {
    const wrong = []
    for (const kill of ${JSON.stringify(sparing)}) wrong.push(...await round(kill, true))
    for (const kill of ${JSON.stringify(sweeping)}) wrong.push(...await round(kill, false))
    fs.rmSync(directory, { recursive: true })
    print('WRONG ' + JSON.stringify(wrong))
  }
  main()
`

// Elsewhere, the commands would kill other processes of this machine.
describe.skipIf(asInit === undefined)('a kill by name', () => {
  it.each(modes)(
    'keeps the state or reports its loss, and spares what does not match, $name',
    async (mode) => {
      const host = startHost(program, asInit, mode.env)
      expect(await host.ended(100_000), host.output()).toBe(0)
      await expectGone(host.tag)
      expect(host.output()).toContain('WRONG []')
    },
  )
})

/** There is no standby in plain mode. */
const { engine } = await new Sandbox().capabilities()

const nameOf = (pid: number) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()

describe.skipIf(engine === 'plain')('a standby', () => {
  itInEveryMode(
    'and the other processes of its session have no directory or user in their names and arguments',
    async (place) => {
      const { sandbox, directory } = place
      await sandbox.files.list('.')
      const { supervisor, standby } = await prepare(place, 'x=1')
      const own = proc
        .descendants(process.pid)
        .filter(({ pid, parent }) => pid === supervisor || parent === supervisor)
      for (const line of own.map(({ pid }) => proc.commandLine(pid)).filter(Boolean)) {
        expect(line).toMatch(/^(nacre-supervisor|nacre-standby|bash --norc --noprofile -c .* bash)$/)
        expect(line).not.toContain(path.basename(directory))
      }
      expect([nameOf(supervisor), nameOf(standby)]).toEqual(['nacre-superviso', 'nacre-standby'])
    },
  )

  itInEveryMode(
    'that becomes the shell, and a process, have the name and the arguments of bash',
    async (place) => {
      const { sandbox } = place
      const look =
        "cat /proc/$$/comm; tr '\\0' ' ' </proc/$$/cmdline; echo $0 $BASH_ARGV0; ps -o args= -p $$; :"
      const { stdout } = await sandbox.exec(look)
      expect(stdout).toMatch(/^bash\nbash --norc --noprofile -c .* bash bash bash\nbash --norc .*\n$/)
      const { supervisor, shell } = await prepare(place, 'x=1')
      proc.kill(shell)
      // What has killed the shell may still run. Until the next command, it meets neither the next shell nor its standby.
      await until(
        () => {
          const names = proc.descendants(supervisor).map(({ pid }) => proc.commandLine(pid))
          return (names.length === 2 && names.every((name) => name === 'nacre-standby')) || undefined
        },
        () => 'the next shell has the name of bash, or no standby',
      )
      await sandbox.exec('true')
      expect((await sandbox.exec(`echo $x; ${look}`)).stdout).toBe(`1\n${stdout}`)
      const found = await sandbox.startProcess(look)
      await found.waitForExit()
      expect((await found.getLogs()).stdout).toBe(stdout)
    },
  )
})
