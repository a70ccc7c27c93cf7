/** Every way to hang, ended by a timeout. */
import { existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { modes, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'

interface Hang {
  name: string
  /** NAP is a sleep of many days with a name of its own. BEGUN reports that everything needed before the timeout is done. */
  run: string
  /** What the command has printed by then. */
  out?: string
  /** The state that the killed command has made itself is lost: it kept the shell from saving it. */
  isStubborn?: boolean
}

const hangs: Hang[] = [
  { name: 'a program', run: 'echo before; BEGUN; NAP; echo no', out: 'before\n' },
  { name: 'a pipeline', run: 'NAP | cat | cat' },
  { name: 'a loop of builtins', run: 'while :; do :; done' },
  { name: 'a loop of programs', run: 'while :; do /bin/true; done' },
  { name: 'wait', run: 'NAP & wait' },
  { name: 'wait in a function with locals', run: 'h() { local y=1; NAP & wait; }; h' },
  { name: 'a read from a FIFO', run: 'mkfifo p1; exec 8<>p1; read -r line <&8' },
  { name: 'the opening of a FIFO', run: 'mkfifo p2; cat <p2' },
  { name: 'the opening of a FIFO by the shell', run: 'mkfifo p3; exec 8<p3' },
  { name: 'a substitution', run: 'y=$(NAP)' },
  { name: 'a subshell', run: '(while :; do :; done)' },
  {
    name: 'a regular expression',
    run: `[[ ${'a'.repeat(30)}b =~ ^${'(a?)'.repeat(30)}${'a'.repeat(30)}$ ]]; while :; do :; done`,
  },
  { name: 'a coprocess', run: 'coproc { NAP; }; wait' },
  { name: 'a process substitution', run: 'cat <(NAP)' },
  { name: 'errexit', run: 'set -e; NAP' },
  { name: 'a trap', run: "trap 'BEGUN; NAP' USR1; kill -USR1 $$", isStubborn: true },
  { name: 'INT and TERM ignored', run: "trap '' INT TERM; BEGUN; NAP", isStubborn: true },
  {
    name: 'INT and TERM ignored, in a loop',
    run: "trap '' INT TERM; BEGUN; while :; do :; done",
    isStubborn: true,
  },
  {
    name: 'a program that ignores TERM',
    run: 'bash -c \'trap "" TERM HUP INT; BEGUN; while :; do NAP; done\'',
    isStubborn: true,
  },
  {
    name: 'a program that starts itself anew at TERM',
    run: 'bash -c \'trap "NAP & NAP" TERM; BEGUN; NAP & wait\'',
    isStubborn: true,
  },
  {
    name: 'every signal ignored, in a loop',
    run: "trap '' $(seq 64) 2>/dev/null; BEGUN; while :; do :; done",
    isStubborn: true,
  },
  { name: 'a stopped child', run: 'NAP & kill -STOP $!; wait' },
  { name: 'a child that stops itself', run: "bash -c 'kill -STOP $$'" },
  { name: 'the shell stopped', run: 'kill -STOP $$; while :; do :; done' },
  { name: 'a program that reads no more', run: 'yes | NAP' },
  {
    name: 'setsid, nohup, double forks and an empty environment',
    run: 'setsid setsid NAP & nohup NAP >/dev/null 2>&1 & (setsid NAP &); ( ( NAP & ) & ); env -i setsid NAP & NAP',
  },
]

for (const mode of modes) {
  describe(`a timeout, ${mode.name}, ends`, () => {
    for (const { name, run, out = '', isStubborn = false } of hangs) {
      it(name, () =>
        withSandboxIn(mode, async ({ sandbox, directory }) => {
          const [job, nap] = [proc.uniqueSleep(), proc.uniqueSleep()]
          await sandbox.exec(`x=1; a=(p 'q r'); f() { echo f; }; mkdir sub; cd sub; ${job} &`)
          await proc.untilRuns(job)
          const begun = path.join(directory, 'begun')
          const whole = run.includes('BEGUN') ? run : `BEGUN; ${run}`
          const command = `x=2; ${whole.replaceAll('NAP', nap).replace('BEGUN', `: >${begun}`)}`
          const hang = async (timeout: number) => {
            rmSync(begun, { force: true })
            await sandbox.exec('x=1')
            const options = { timeout, forceKillAfterDelay: isStubborn ? 100 : 5000 }
            return rejectionOf(sandbox.exec(command, options))
          }
          const rejection = await inTime(80, hang, () => existsSync(begun))
          expect(rejection).toMatchObject({
            code: 'COMMAND_TIMEOUT',
            result: { stdout: out, timedOut: true, cancelled: false, success: false, exitCode: null },
          })
          expect(proc.runs(nap)).toBe(false)
          expect(proc.runs(job)).toBe(true)
          await sandbox.exec('set +e; unset -f g')
          const { stdout } = await sandbox.exec('echo $x "${a[1]}"; f; pwd')
          expect(stdout).toBe(`2 q r\nf\n${directory}/sub\n`)
        }),
      )
    }
  })
}
