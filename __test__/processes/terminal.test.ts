/** Processes with a terminal: one stream, the session's state, job control, sizes, and an end like any other's. */

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Process, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const pty = { cols: 100, rows: 40 }

/** All that it has printed, once it has ended, with plain line ends. */
async function printed(process: Process): Promise<string> {
  await process.waitForExit({ timeout: 10_000 })
  return (await process.getLogs()).stdout.replaceAll('\r\n', '\n')
}

/** Waits until a shell in the terminal has prompted that often. */
function promptOf(process: Process, count: number): Promise<true> {
  return until(
    async () => (await process.getLogs()).stdout.split('bash-').length > count || undefined,
    () => `there is no prompt number ${count}`,
  )
}

itInEveryMode("a terminal has the session's whole state and its own size", async ({ sandbox }) => {
  await sandbox.exec(
    "cd /usr; x=5; a=(1 '2 3'); export E=e; f() { echo f $x \"${a[1]}\"; }; shopt -s expand_aliases; alias ll='echo l'",
  )
  const process = await sandbox.startProcess('f; pwd; echo $E; ll; stty size; nope; exit 4', { pty })
  expect(await printed(process)).toBe('f 5 2 3\n/usr\ne\nl\n40 100\nbash: line 1: nope: command not found\n')
  expect(process).toMatchObject({ status: 'failed', exitCode: 4, signal: null, reason: 'exit' })
  expect((await sandbox.exec('echo $x; pwd')).stdout).toBe('5\n/usr\n')
})

itInEveryMode('typed text is echoed and read, and Ctrl-D is end of file', async ({ sandbox }) => {
  const process = await sandbox.startProcess('read -r line; echo "<$line>"; cat; echo end', { pty })
  await process.write('typed\n')
  await process.waitForLog('<typed>')
  await process.write('to cat\n')
  await process.closeInput()
  expect(await printed(process)).toBe('typed\n<typed>\nto cat\nto cat\nend\n')
})

itInEveryMode('Ctrl-C ends the job in front and not the shell; a resize is seen', async ({ sandbox }) => {
  const nap = proc.uniqueSleep()
  const process = await sandbox.startProcess('bash --norc -i', { pty })
  await process.write(`${nap}\n`)
  await proc.untilRuns(nap)
  await process.write('\x03')
  // The shell throws away what was typed before it is back at its prompt.
  await promptOf(process, 2)
  await process.write('echo "code $?"\n')
  await process.waitForLog('code 130')
  // Before it prompts, readline sets the size that it has just read: a new one between the two is lost.
  await promptOf(process, 3)
  expect(await process.resize(120, 50)).toBe(true)
  await process.write('stty size\n')
  await process.waitForLog('50 120')
  await process.write('exit 9\n')
  expect(await process.waitForExit()).toMatchObject({ exitCode: 9, reason: 'exit' })
  expect(await process.resize(1, 1)).toBe(false)
})

itInEveryMode('a kill ends everything in the terminal', async ({ sandbox }) => {
  const [inside, outside] = [proc.uniqueSleep(), proc.uniqueSleep()]
  const process = await sandbox.startProcess(`setsid ${outside} & ${inside}`, { pty })
  await proc.untilRuns(inside)
  await proc.untilRuns(outside)
  expect(await process.kill()).toBe(true)
  expect(process).toMatchObject({ status: 'killed', exitCode: null, signal: 'SIGTERM' })
  expect(proc.runs(inside) || proc.runs(outside)).toBe(false)
})

/** Commands whose process substitutions print after them, what they print besides, and their exit codes. */
const substitutions: Array<[command: string, also: string[], code: number]> = [
  ['seq 5 > >(sed s/^/x/)', [], 0],
  ['seq 5 > >(sleep 0.05; sed s/^/x/)', [], 0],
  ['seq 5 | tee >(sed s/^/x/ >&2) > /dev/null', [], 0],
  ['exec > >(tee log) 2>&1; seq -f x%g 5; exit 3', [], 3],
  ['exec 3> >(sed s/^/x/); seq 5 >&3; (exit 5)', [], 5],
  ['bash script; (exit 6)', [], 6],
  ['f() { seq 5 > >(while read -r n; do echo "x$n"; done); }; f; exit 4', [], 4],
  ["trap 'echo bye' EXIT; seq 5 > >(sed s/^/x/); (exit 7)", ['bye'], 7],
  ["trap 'seq 5 > >(sed s/^/x/)' EXIT", [], 0],
  ["trap 'echo failed' ERR; seq 5 > >(sed s/^/x/); (exit 2)", ['failed'], 2],
  ['set -euf; shopt -s failglob; IFS=5; seq 5 > >(sed s/^/x/); false', [], 1],
  ['sleep 600 & seq 5 > >(sed s/^/x/)', [], 0],
]

for (const mode of new Set([...modes, ...plain]))
  it(`a terminal has what process substitutions print last, ${mode.name}`, () =>
    withSandboxIn(mode, async ({ sandbox, directory }) => {
      writeFileSync(path.join(directory, 'script'), 'exec > >(tee log) 2>&1\nseq -f x%g 5\n')
      for (const [command, also, code] of substitutions) {
        const process = await sandbox.startProcess(command, { pty })
        const lines = (await printed(process)).split('\n').sort()
        expect(lines, command).toEqual(['', ...also, 'x1', 'x2', 'x3', 'x4', 'x5'])
        expect(process.exitCode, command).toBe(code)
      }
    }))

for (const mode of new Set([...modes, ...plain]))
  it(`a terminal ends although a process substitution does not, ${mode.name}`, () =>
    withSandboxIn(mode, async ({ sandbox }) => {
      const nap = proc.uniqueSleep()
      for (const endless of [nap, `while :; do :; done; ${nap}`]) {
        const process = await sandbox.startProcess(`: > >(${endless})`, { pty })
        await process.waitForExit({ timeout: 20_000 })
        expect(process).toMatchObject({ status: 'completed', exitCode: 0 })
      }
      const killed = await sandbox.startProcess(`: > >(exec yes ${nap})`, { pty })
      await killed.waitForLog('sleep')
      expect(await killed.kill()).toBe(true)
      expect(killed).toMatchObject({ status: 'killed', exitCode: null, signal: 'SIGTERM' })
      expect(proc.runs(nap)).toBe(false)
    }))

describe('terminals', () => {
  itInSandbox(
    'give TERM where the session has none',
    async ({ sandbox }) => {
      const process = await sandbox.startProcess('echo $TERM', { pty })
      expect(await printed(process)).toBe('xterm-256color\n')
    },
    { options: { env: { TERM: undefined } } },
  )

  itInSandbox('take whole input as if it was typed', async ({ sandbox }) => {
    const process = await sandbox.startProcess('stty -echo; cat', { pty, input: 'one\ntwo\n' })
    expect(await printed(process)).toContain('one\ntwo\n')
  })

  itInSandbox('are refused by name when their size is none', async ({ sandbox }) => {
    for (const size of [{ cols: 80 }, { cols: 0, rows: 1 }, { cols: 80, rows: 70_000 }, 'big', null]) {
      const start = sandbox.startProcess('true', { pty: size } as Parameters<Sandbox['startProcess']>[1])
      expect((await rejectionOf(start)).message).toMatch(/pty/)
    }
    const plain = await sandbox.startProcess('sleep 60')
    expect((await rejectionOf(plain.resize(80, 24))).message).toMatch(/needs a process .* pty/)
  })
})
