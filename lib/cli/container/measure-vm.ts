/** `nacre doctor --vm`: starts virtual machines, and prints how long things take in them. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { AnySandbox } from '../../calls/index.js'
import type { MachineFlags } from './options.js'

const FILES = 10_000
const OUTPUT_BYTES = 100_000_000
const COMMANDS = 100
/** Emulation takes minutes for the rest. */
const BOOTS = { emulated: 1, real: 10 }

interface Measured {
  subject: string
  /** The number in `unit`. */
  value: number
  unit: 'ms' | 'MB/s'
}

/** Measures in a temporary directory. Rejects with VM_UNAVAILABLE. */
export async function measureMachine({ kernel, emulate }: MachineFlags): Promise<Measured[]> {
  const { openSandbox } = await import('../../engine/open.js')
  const { Sandbox } = await import('../../backends/native/sandbox.js')
  const cwd = mkdtempSync(path.join(os.tmpdir(), 'nacre-doctor-'))
  const open = () =>
    openSandbox({ engine: 'vm', kernel: kernel && path.resolve(kernel), emulate: emulate ?? false, cwd })
  const found: Measured[] = []
  const add = (subject: string, value: number, unit: Measured['unit'] = 'ms') =>
    found.push({ subject, value: Math.round(value * 100) / 100, unit })
  try {
    fill(path.join(cwd, 'files'))
    const starts: number[] = []
    for (let boot = 0; boot < (emulate ? BOOTS.emulated : BOOTS.real); boot++)
      starts.push(
        await timed(async () => {
          await using sandbox = await open()
          await sandbox.exec('echo hi')
        }),
      )
    add('the call until the end of a first command, and the machine', median(starts))
    await using sandbox = await open()
    await using here = new Sandbox({ cwd })
    add("exec('true')", await repeated(sandbox))
    add("exec('true') on this machine", await repeated(here))
    const stream = `head -c ${emulate ? OUTPUT_BYTES / 10 : OUTPUT_BYTES} /dev/zero`
    let bytes = 0
    const output = await timed(async () => {
      for await (const event of sandbox.execStream(stream, { encoding: 'buffer' }))
        if (event.type === 'stdout') bytes += event.data.length
    })
    add('output', bytes / output / 1000, 'MB/s')
    const git = `git -C files status --short | wc -l`
    for (const name of ['first', 'second'])
      add(`git status of ${FILES} files, ${name}`, await timed(() => sandbox.exec(git)))
    return found
  } finally {
    rmSync(cwd, { recursive: true, force: true })
  }
}

function fill(directory: string): void {
  for (let number = 0; number < FILES; number++) {
    if (number % 100 === 0) mkdirSync(path.join(directory, String(number / 100)), { recursive: true })
    writeFileSync(path.join(directory, String(Math.floor(number / 100)), `${number}`), `${number}\n`)
  }
  execFileSync('git', ['init', '--quiet', directory])
  execFileSync('git', ['-C', directory, 'add', '.'])
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}

async function repeated(sandbox: AnySandbox): Promise<number> {
  const times: number[] = []
  for (let count = 0; count < COMMANDS; count++) times.push(await timed(() => sandbox.exec('true')))
  return median(times)
}

function median(values: number[]): number {
  return values.sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0
}
