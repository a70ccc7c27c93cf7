/** Runs the `nacre` executable as a child, on the runtime of this process, with a separate jobs root. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type Process, Sandbox } from 'nacre'
import { type Workplace, withSandbox } from './invariants.js'
import { expectNoProcess } from './jobs.js'
import * as proc from './proc.js'
import { until } from './until.js'

const main = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'cli', 'main.js')

export interface Ended {
  /** The exit code, or the name of the signal. */
  code: number | string
  stdout: string
  stderr: string
}

export interface Running {
  child: ChildProcess
  ended: Promise<Ended>
  /** Resolves once its standard output contains this text. */
  printed(text: string): Promise<void>
  /** Its standard output so far. */
  soFar(): string
}

export interface Cli {
  root: string
  tag: string
  /** Runs the executable to its end. */
  nacre(...words: string[]): Promise<Ended>
  /** Does the same with this input, and with more variables; undefined leaves the pipe open. */
  start(words: string[], input?: string | undefined, env?: Record<string, string>): Running
  /** Runs `nacre job <verb> --root <root> ...`. */
  job(verb: string, ...words: string[]): Promise<Ended>
}

let places = 0

/** Runs a test. Afterwards its jobs are cancelled, and nothing may be left. */
export async function withCli(test: (cli: Cli) => Promise<void>): Promise<void> {
  const tag = `nacre-cli-${process.pid}-${++places}`
  const base = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  const root = path.join(base, 'jobs')
  const start: Cli['start'] = (words, input, env) => run(words, { ...env, NACRE_TEST_TAG: tag }, base, input)
  const nacre = (...words: string[]) => start(words, '').ended
  const job = (verb: string, ...words: string[]) => nacre('job', verb, '--root', root, ...words)
  try {
    await test({ root, tag, start, nacre, job })
    await using sandbox = new Sandbox({ jobsRoot: root })
    for (const { jobId } of await sandbox.jobs.list()) await sandbox.jobs.cancel(jobId, { graceMs: 100 })
    await expectNoProcess(tag, 10_000)
  } finally {
    for (const entry of proc.tagged(tag)) proc.kill(entry.pid)
    rmSync(base, { recursive: true, force: true })
  }
}

/** Runs `nacre` in a terminal of its own, in the directory of a sandbox. */
export function inTerminal(
  words: string,
  test: (terminal: Process, workplace: Workplace) => Promise<void>,
): Promise<void> {
  return withSandbox(async (workplace) => test(await startInTerminal(workplace.sandbox, words), workplace))
}

/** Runs `nacre` in a terminal of 100 x 30. */
export function startInTerminal(sandbox: Sandbox, words: string): Promise<Process> {
  const command = `exec '${process.execPath}' '${main}' ${words}`
  const env = { NACRE_NATIVE: process.env.NACRE_NATIVE }
  return sandbox.startProcess(command, { pty: { cols: 100, rows: 30 }, env })
}

function run(words: string[], env: Record<string, string>, cwd: string, input: string | undefined): Running {
  const child = spawn(process.execPath, [main, ...words], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (data: string) => {
      texts[name] += data
    })
  }
  // It may end without having read its input.
  child.stdin.on('error', () => {})
  if (input !== undefined) child.stdin.end(input)
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code: code ?? signal ?? '', ...texts }))
  })
  const printed = async (text: string) => {
    await until(
      () => texts.stdout.includes(text) || undefined,
      () => `not printed: ${text}, but ${JSON.stringify(texts)}`,
      15_000,
    )
  }
  return { child, ended, printed, soFar: () => texts.stdout }
}
