/** What process substitutions print belongs to the output of their command, however that runs, here and over HTTP. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { ExecOptions } from 'nacre'
import { describe, expect } from 'vitest'
import * as proc from '../helpers/proc.js'
import { all, textOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { type AnySandbox, type ContractPlace, itHolds } from './helper.js'

const five = '1\n2\n3\n4\n5\n'
const marked = five.replace(/^(?=.)/gm, 'x')

/** A script that copies its output to a log. */
const SCRIPT = 'exec > >(tee log) 2>&1\nseq 5\n'

interface Form {
  name: string
  run: string
  out?: string
  err?: string
  code?: number
}

const forms: Form[] = [
  { name: 'a redirection', run: 'seq 5 > >(sed s/^/x/)', out: marked },
  { name: 'standard error', run: 'seq 5 2> >(sed s/^/x/ >&2) >&2', err: marked },
  {
    name: 'both streams',
    run: '{ seq 5; seq 5 >&2; } > >(sed s/^/x/) 2> >(sed s/^/x/ >&2)',
    out: marked,
    err: marked,
  },
  { name: 'an argument', run: 'seq 5 | tee >(sed s/^/x/ >&2)', out: five, err: marked },
  { name: 'the end of a pipeline', run: 'seq 100 | tee >(wc -l) > /dev/null', out: '100\n' },
  { name: 'nested', run: 'seq 5 > >(tee >(sed s/^/x/ >&2))', out: five, err: marked },
  { name: 'a pipeline in it', run: 'seq 5 > >(cat | sort -r | sort | sed s/^/x/)', out: marked },
  { name: 'a loop in it', run: 'seq 5 > >(while read -r n; do echo "x$n"; done)', out: marked },
  { name: 'exec', run: 'exec > >(tee log) 2>&1; seq 5; exit 3', out: five, code: 3 },
  { name: 'exec with a copy of the output', run: 'exec 3>&1 > >(sed s/^/x/ >&3); seq 5', out: marked },
  { name: 'a script', run: 'bash script', out: five },
  { name: 'a function', run: 'f() { seq 5 > >(sed s/^/x/); }; f', out: marked },
  { name: 'a subshell', run: '(seq 5 > >(sed s/^/x/))', out: marked },
  { name: 'an EXIT trap', run: "(trap 'seq 5 > >(sed s/^/x/)' EXIT)", out: marked },
  // Most programs begin this way: with short ones that print nothing, one after another.
  {
    name: 'one that begins with short programs',
    run: 'seq 5 > >(for i in {1..10}; do sleep 0.05; done; sed s/^/x/)',
    out: marked,
  },
  { name: 'what reads from one', run: 'cat <(seq 5 | sed s/^/x/)', out: marked },
  { name: 'messages of one that is read', run: 'head -n 1 <(seq 5; seq 5 >&2)', out: '1\n', err: five },
  { name: 'beside a job', run: 'NAP & seq 5 > >(sed s/^/x/)', out: marked },
  { name: 'a script beside a job', run: 'NAP & bash script', out: five },
  { name: 'a job that has ended', run: 'bash script & wait $!', out: five },
]

/** Calls that run a command, and what they give as standard output and error. */
const calls: Array<[name: string, run: (sandbox: AnySandbox, command: string) => Promise<[string, string]>]> =
  [
    ['exec', async (sandbox, command) => both(await sandbox.exec(command))],
    [
      'callbacks',
      async (sandbox, command) => {
        const seen = { stdout: '', stderr: '' }
        const onOutput: ExecOptions['onOutput'] = (stream, text) => {
          seen[stream] += text
        }
        await sandbox.exec(command, { onOutput })
        return both(seen)
      },
    ],
    [
      'execStream',
      async (sandbox, command) => {
        const events = await all(sandbox.execStream(command))
        return [textOf(events), textOf(events, 'stderr')]
      },
    ],
    [
      'startProcess',
      async (sandbox, command) => {
        const started = await sandbox.startProcess(command)
        await started.waitForExit()
        return both(await started.getLogs())
      },
    ],
  ]

function both({ stdout, stderr }: { stdout: string; stderr: string }): [string, string] {
  return [stdout, stderr]
}

function prepare({ directory }: ContractPlace): void {
  writeFileSync(path.join(directory, 'script'), SCRIPT)
}

describe('process substitutions', () => {
  for (const [name, call] of calls) {
    itHolds(`print everything, with ${name}`, async (place) => {
      prepare(place)
      for (const { name: form, run, out = '', err = '' } of forms) {
        const printed = await call(place.sandbox, run.replace('NAP', proc.uniqueSleep()))
        expect(printed, form).toEqual([out, err])
      }
    })
  }

  itHolds('print everything on a terminal', async (place) => {
    if (process.env.NACRE_ENGINE === 'plain') return
    prepare(place)
    for (const { name: form, run, out = '', err = '' } of forms) {
      // What a job leaves in the group of the shell keeps the next command from having a terminal.
      if (run.includes('NAP')) continue
      const { stdout } = await place.sandbox.exec(run, { pty: true })
      expect(lines(stdout), form).toEqual(lines(out + err))
    }
    const started = await place.sandbox.startProcess('seq 5 > >(sed s/^/x/)', { pty: true })
    await started.waitForExit()
    expect(lines((await started.getLogs()).stdout)).toEqual(lines(marked))
  })

  itHolds('keep the exit code, and the streams of the next command', async ({ sandbox }) => {
    for (const run of [
      'exec > >(tee log) 2>&1; seq 5; exit 3',
      '(exit 3) > >(cat); seq 5 > >(cat); (exit 3)',
    ])
      expect(await sandbox.exec(run)).toMatchObject({ stdout: five, exitCode: 3 })
    expect(await sandbox.exec('echo next; cat log')).toMatchObject({ stdout: `next\n${five}`, exitCode: 0 })
    const merged = await sandbox.exec('seq 5 > >(sed s/^/x/ >&2)', { mergeOutput: true })
    expect(merged.stdout).toBe(marked)
  })

  itHolds('print when a program has replaced the shell', async ({ sandbox }) => {
    expect(await sandbox.exec('exec seq 5 > >(sed s/^/x/)')).toMatchObject({ stdout: marked, exitCode: 0 })
  })

  itHolds('lose no line in many runs, with much output', async ({ sandbox }) => {
    const many = Array.from({ length: 20_000 }, (_, index) => `x${index + 1}\n`).join('')
    for (let run = 0; run < 20; run++)
      expect((await sandbox.exec('seq 20000 > >(sed s/^/x/)')).stdout === many).toBe(true)
  })

  itHolds('cannot keep a command from ending', async ({ sandbox }) => {
    const silent = proc.uniqueSleep()
    expect(await sandbox.exec(`seq 5 > >(cat; ${silent})`)).toMatchObject({ stdout: five, exitCode: 0 })
    expect(proc.runs(silent)).toBe(true)
    expect((await sandbox.exec(': > >(while sleep 0.01; do echo x; done)')).stdout).toMatch(/^(x\n)+$/)
    expect((await sandbox.exec('exec 3> >(cat; sleep 60); echo a >&3')).stdout).toBe('a\n')
  })

  itHolds('are killed with their command, as long as it waits for them', async ({ sandbox }) => {
    const word = proc.uniqueSleep()
    const endless = `: > >(exec yes ${word})`
    const late = await rejectionOf(sandbox.exec(endless, { timeout: 300 }))
    expect(late).toMatchObject({ code: 'COMMAND_TIMEOUT' })
    const much = await rejectionOf(sandbox.exec(endless, { outputLimit: 1000 }))
    expect(much).toMatchObject({ code: 'OUTPUT_LIMIT' })
    const abort = new AbortController()
    await rejectionOf(sandbox.exec(endless, { signal: abort.signal, onOutput: () => abort.abort() }))
    expect(proc.runs(`yes ${word}`)).toBe(false)
  })
})

/** The lines of a text in order of their bytes: a terminal has one stream for both. */
function lines(text: string): string[] {
  return text.split(/\r?\n/).sort()
}
