/** The plain engine under faults, by its switch and in a bash that really cannot load anything. */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Sandbox, SandboxError } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { type Mode, plain, withSandboxIn } from '../helpers/modes.js'
import { compile, type Library } from '../helpers/preload.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const state = "x=1; a=(p 'q r'); f() { echo f; }; set -o pipefail; trap 'echo u' USR1; cd /usr"
const look = 'echo $x "${a[1]}"; f; set -o | grep pipefail | cut -f2; kill -USR1 $$; pwd'
const seen = '1 q r\nf\non\nu\n/usr\n'

const faults: Record<string, (place: Workplace) => Promise<void>> = {
  'a timeout kills the command and keeps the state before it': async ({ sandbox }) => {
    await sandbox.exec(state)
    const nap = proc.uniqueSleep()
    const end = (timeout: number) => rejectionOf(sandbox.exec(`x=2; echo out; ${nap}`, { timeout }))
    const rejection = await inTime(300, end, (error) => (error as SandboxError).result?.stdout !== '')
    expect(rejection).toMatchObject({ code: 'COMMAND_TIMEOUT', result: { stdout: 'out\n' } })
    expect(proc.runs(nap)).toBe(false)
    expect((await sandbox.exec(look)).stdout).toBe(seen)
  },
  'a command that ignores signals is killed at the end of the grace time': async ({ sandbox }) => {
    const run = sandbox.exec("trap '' INT TERM; while :; do :; done", {
      timeout: 200,
      forceKillAfterDelay: 100,
    })
    expect(await rejectionOf(run)).toMatchObject({ code: 'COMMAND_TIMEOUT' })
    const nap = proc.uniqueSleep()
    const stubborn = sandbox.exec(`(trap '' INT TERM; while :; do ${nap}; done)`, {
      timeout: 300,
      forceKillAfterDelay: 100,
    })
    expect(await rejectionOf(stubborn)).toMatchObject({ code: 'COMMAND_TIMEOUT' })
    expect(proc.runs(nap)).toBe(false)
  },
  'SIGKILL ends the grace time of an earlier signal after the shell has ended too': async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    const stubborn = `trap '' TERM; while :; do ${nap}; done`
    const stream = sandbox.execStream(['bash', '-c', stubborn], { forceKillAfterDelay: 1_000_000 })
    const start = (await stream[Symbol.asyncIterator]().next()).value
    await proc.untilRuns(nap)
    const first = stream.kill()
    await holds(() => start?.type === 'start' && !proc.isAlive(start.pid))
    // The engine has to learn of it, too.
    await sandbox.listProcesses()
    expect([await stream.kill('SIGKILL'), await first]).toEqual([true, true])
    expect(proc.runs(nap)).toBe(false)
  },
  'an abort kills the command, and a queued one never runs': async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    const [first, second] = [new AbortController(), new AbortController()]
    const run = rejectionOf(sandbox.exec(nap, { signal: first.signal }))
    const queued = rejectionOf(sandbox.exec('y=1', { signal: second.signal }))
    await proc.untilRuns(nap)
    // In this order: the one in front ends within a millisecond, and the next would begin.
    second.abort()
    first.abort()
    expect((await run).name).toBe('AbortError')
    expect((await queued).name).toBe('AbortError')
    expect(proc.runs(nap)).toBe(false)
    expect((await sandbox.exec('echo "[$y]"')).stdout).toBe('[]\n')
  },
  'a job outlives its command and the timeout of another, and ends with the session': async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    expect((await sandbox.exec(`${nap} & echo hi`)).stdout).toBe('hi\n')
    await rejectionOf(sandbox.exec('sleep 60', { timeout: 200 }))
    await sandbox.exec('exec true')
    await rejectionOf(sandbox.exec('sleep 60', { timeout: 200 }))
    expect(proc.runs(nap)).toBe(true)
    await sandbox.deleteSession('default')
    expect(proc.runs(nap)).toBe(false)
  },
  'the session survives the death of its supervisor': async ({ sandbox }) => {
    const { stdout } = await sandbox.exec(`${state}; echo $PPID`)
    proc.kill(Number(stdout))
    expect((await sandbox.exec(look)).stdout).toBe(seen)
    const run = rejectionOf(sandbox.exec('x=2; kill -9 $PPID; sleep 60'))
    expect(await run).toMatchObject({ code: 'ENGINE_ERROR' })
    expect((await sandbox.exec(look)).stdout).toBe(seen)
  },
  'without surviveExit an exit ends the session': async ({ sandbox }) => {
    const session = await sandbox.createSession({ surviveExit: false })
    expect(await session.exec('x=1; false')).toMatchObject({ exitCode: 1 })
    expect(await rejectionOf(session.exec('exit 3'))).toMatchObject({
      code: 'SESSION_TERMINATED',
      result: { exitCode: 3 },
    })
    expect(await rejectionOf(session.exec('true'))).toMatchObject({ code: 'SESSION_TERMINATED' })
    await session[Symbol.asyncDispose]()
  },
  'variables are set for good': async ({ sandbox }) => {
    await sandbox.exec('declare -ai one=(1); readonly fixed=1; two=2')
    await sandbox.setEnvVars({ one: "it's", two: undefined })
    expect((await sandbox.exec('printenv one; echo "[$two]"')).stdout).toBe("it's\n[]\n")
    expect(await rejectionOf(sandbox.setEnvVars({ fixed: '2' }))).toMatchObject({ code: 'INVALID_ENV_NAME' })
  },
  'output is streamed while the command runs': async ({ sandbox, directory }) => {
    const types: string[] = []
    for await (const event of sandbox.execStream('echo a; until [ -e go ]; do sleep 0.01; done; echo b')) {
      types.push(event.type)
      if (types.length === 2) writeFileSync(path.join(directory, 'go'), '')
    }
    expect(types).toEqual(['start', 'stdout', 'stdout', 'complete'])
  },
  'a process starts from the state after the last command': async ({ sandbox }) => {
    await sandbox.exec(`${state}; shopt -s expand_aliases; alias hey='echo hey'`)
    const process = await sandbox.startProcess('f; hey $x "${a[1]}" $V; pwd; exit 4', {
      env: { V: 'v' },
      cwd: '/',
    })
    await process.waitForExit()
    expect(process).toMatchObject({ exitCode: 4, reason: 'exit' })
    expect((await process.getLogs()).stdout).toBe('f\nhey 1 q r v\n/\n')
    expect((await sandbox.exec('echo "[$V]"; pwd')).stdout).toBe('[]\n/usr\n')
  },
  'a process starts beside a command, and is killed with its tree': async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    const run = sandbox.exec('read -r line; echo "$line"', { input: 'late\n', timeout: 10_000 })
    const process = await sandbox.startProcess(`${nap} & ${nap}`)
    await proc.untilRuns(nap, 2)
    expect(await process.kill()).toBe(true)
    expect(proc.runs(nap)).toBe(false)
    expect((await run).stdout).toBe('late\n')
  },
  'a process that cannot start is refused with the reason': async ({ sandbox }) => {
    await sandbox.exec('readonly fixed=1')
    const start = (options: object) => rejectionOf(sandbox.startProcess('true', options))
    expect(await start({ cwd: '/proc/nowhere' })).toMatchObject({ code: 'CWD_NOT_FOUND' })
    expect(await start({ env: { fixed: '2' } })).toMatchObject({ code: 'INVALID_ENV_NAME' })
    expect(sandbox.listProcesses).toBeTypeOf('function')
  },
  'a process has a terminal': async ({ sandbox }) => {
    await sandbox.exec('x=5')
    const process = await sandbox.startProcess('echo $x; stty size; tty >/dev/null && echo tty', {
      pty: { cols: 100, rows: 40 },
    })
    await process.waitForExit()
    expect((await process.getLogs()).stdout.replaceAll('\r\n', '\n')).toBe('5\n40 100\ntty\n')
  },
  'fifty concurrent commands on five sessions keep their order': async ({ sandbox }) => {
    const one = async () => {
      const session = await sandbox.createSession()
      await session.exec('n=0')
      const results = await Promise.all(
        Array.from({ length: 10 }, () => session.exec('n=$((n + 1)); echo $n')),
      )
      expect(results.map(({ stdout }) => Number(stdout))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      await sandbox.deleteSession(session.id)
    }
    await Promise.all([one(), one(), one(), one(), one()])
  },
}

const shown: Mode[] = process.versions.bun === undefined ? plain : plain.slice(0, 1)

for (const mode of shown) {
  describe(mode.name, () => {
    for (const [name, test] of Object.entries(faults)) {
      it(name, () => withSandboxIn(mode, test))
    }
  })
}

/** As in a static bash, nothing can be loaded. */
const nothingLoads = `
#define _GNU_SOURCE
#include <stddef.h>
void *dlopen(const char *file, int flags) { (void)file; (void)flags; return NULL; }
char *dlerror(void) { return "nothing can be loaded"; }
`

describe('a bash that cannot load builtins', () => {
  let library: Library
  let directory: string
  let shell: string
  beforeAll(() => {
    library = compile(nothingLoads)
    directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-bash-'))
    shell = path.join(directory, 'bash')
    writeFileSync(shell, `#!/bin/sh\nLD_PRELOAD=${library.file} exec /bin/bash "$@"\n`)
    chmodSync(shell, 0o755)
  })
  afterAll(() => {
    library.remove()
    rmSync(directory, { recursive: true })
  })

  const worksPlainly = async (sandbox: Sandbox) => {
    await sandbox.exec(state)
    expect(await sandbox.exec('exit 3')).toMatchObject({ exitCode: 3, sessionRestarted: false })
    expect((await sandbox.exec(look)).stdout).toBe(seen)
    const process = await sandbox.startProcess('f')
    await process.waitForExit()
    expect((await process.getLogs()).stdout).toBe('f\n')
    const found = await sandbox.capabilities()
    expect(found.engine).toBe('plain')
    expect(found.restored).not.toContain('jobs')
    expect(found.notes.join('\n')).toMatch(/bash 5\.\S+ cannot load the builtin/)
  }

  it('is used plainly, and a warning names its version', async () => {
    const warnings: string[] = []
    const ignore = () => {}
    const logger = { error: ignore, warn: (text: string) => warnings.push(text), info: ignore, debug: ignore }
    await withSandbox(({ sandbox }) => worksPlainly(sandbox), { options: { shell, logger } })
    expect(warnings.join('\n')).toMatch(/bash 5\.\S+ cannot load the builtin/)
  })

  it('is used plainly when the capabilities were asked first', async () => {
    const test = async ({ sandbox }: Workplace) => {
      expect((await sandbox.capabilities()).engine).toBe('plain')
      await worksPlainly(sandbox)
    }
    await withSandbox(test, { options: { shell } })
  })

  it('is not assumed when the shell was killed while the capabilities were asked', async () => {
    const [mark, killed] = [path.join(directory, 'mark'), path.join(directory, 'killed')]
    writeFileSync(killed, `#!/bin/sh\n[ -e ${mark} ] || { >${mark}; kill -TERM $$; }\nexec /bin/bash "$@"\n`)
    chmodSync(killed, 0o755)
    const test = async ({ sandbox }: Workplace) => {
      expect(await sandbox.capabilities()).toMatchObject({ engine: 'builtin', shellVersion: null })
      expect(existsSync(mark)).toBe(true)
      expect(await sandbox.capabilities()).toMatchObject({
        engine: 'builtin',
        shellVersion: expect.stringMatching(/^\d/),
      })
      const [first, second] = [await sandbox.exec('echo $$'), await sandbox.exec('echo $$')]
      expect(second.stdout).toBe(first.stdout)
    }
    await withSandbox(test, { options: { shell: killed } })
  })

  const statically = process.env.NACRE_TEST_STATIC_BASH ?? '/bin/bash-static'
  it.skipIf(!existsSync(statically))('is used plainly when it is static', async () => {
    await withSandbox(({ sandbox }) => worksPlainly(sandbox), {
      options: { shell: statically },
    })
  })

  it('is refused when it is not bash', async () => {
    const options = { shell: '/bin/true', env: { NACRE_ENGINE: 'unused' } }
    const test = async ({ sandbox }: Workplace) => {
      expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SPAWN_FAILED' })
    }
    await withSandboxIn(plain[0] as Mode, test, { options, destroys: true })
  })
})
