/** Commands that run until they end, and code. */
import { randomUUID } from 'node:crypto'
import os from 'node:os'
import path from 'node:path'
import type { EnvChanges, Process, ProcessExit, SignalName } from 'nacre'
import { isCode } from 'nacre/internal'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { MOST_CONTENT_BYTES, readJson, sendJson, textsOf, timeoutOf } from '../http.js'
import type { Routes } from './routes.js'
import { listOfTexts, optionalText, text } from './values.js'

/** Of one command, since a reply is one document. The oldest output is dropped. */
const OUTPUT_BYTES = 8 * 1024 * 1024
const NOT_FOUND = 127

export interface Run {
  cwd?: string | undefined
  env?: EnvChanges
  /** Milliseconds; 0 = none. */
  timeout?: number
  input?: string
  /** Puts both streams into `stdout`, in their order. */
  mergeOutput?: boolean
}

export interface Output {
  exitCode: number
  stdout: string
  stderr: string
  /** Bytes that were dropped from the start of the output. */
  dropped: number
}

/** Runs a program until it ends. Throws HttpError. */
export async function runProgram(hosted: Hosted, argv: string[], run: Run = {}): Promise<Output> {
  const { cwd = '', env = {}, timeout = 0, input, mergeOutput } = run
  let process: Process | undefined
  try {
    process = await hosted.sandbox.startProcess(argv, {
      cwd: hosted.view.resolve(cwd),
      env,
      timeout,
      mergeOutput,
      logLimit: OUTPUT_BYTES,
      ...(input === undefined ? {} : { input: Buffer.from(input) }),
    })
    const end = await process.waitForExit()
    if (end.reason === 'timeout')
      throw new HttpError(408, 'the command ran longer than its timeout', 'PROCESS_EXECUTION_TIMEOUT')
    const { stdout, stderr, truncated: dropped = 0 } = await process.getLogs()
    return { exitCode: exitCodeOf(end), stdout, stderr, dropped }
  } catch (error) {
    if (!isCode(error, 'CWD_NOT_FOUND')) throw error
    const message = `chdir ${cwd}: no such file or directory`
    return { exitCode: -1, stdout: mergeOutput ? message : '', stderr: message, dropped: 0 }
  } finally {
    if (process !== undefined) hosted.forget(process)
  }
}

/** The standard output, if nothing is missing. Throws HttpError. */
export function wholeOutput({ stdout, dropped }: Output): string {
  if (dropped === 0) return stdout
  throw new HttpError(413, `the reply would be larger than ${OUTPUT_BYTES} bytes: ask for less`)
}

function replyOf({ exitCode, stdout, dropped }: Output) {
  const note = dropped === 0 ? '' : `[nacre: the first ${dropped} bytes of output were dropped]\n`
  return { exitCode, result: note + stdout }
}

/** As shells count: 128 and the number of the signal. */
export function exitCodeOf({ exitCode, signal }: Pick<ProcessExit, 'exitCode' | 'signal'>): number {
  return exitCode ?? 128 + numberOf(signal)
}

function numberOf(signal: SignalName | null): number {
  return os.constants.signals[signal as NodeJS.Signals] ?? 0
}

export const processRoutes: Routes = {
  'POST /process/execute': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const output = await runProgram(hosted, ['bash', '-c', text(given, 'command')], {
      cwd: optionalText(given, 'cwd'),
      env: textsOf(given, 'envs'),
      timeout: timeoutOf(given.timeout ?? 0),
      mergeOutput: true,
    })
    sendJson(response, 200, replyOf(output))
  },
  'POST /process/code-run': async ({ hosted, request, response }) => {
    const given = await readJson(request, MOST_CONTENT_BYTES)
    const code = optionalText(given, 'code') ?? ''
    const language = text(given, 'language')
    const argv = listOfTexts(given, 'argv')
    const timeout = timeoutOf(given.timeout ?? 0)
    const run = { env: textsOf(given, 'envs'), timeout, mergeOutput: true }
    sendJson(response, 200, replyOf(await runCode(hosted, language, code, argv, run)))
  },
}

function runCode(hosted: Hosted, language: string, code: string, argv: string[], run: Run): Promise<Output> {
  switch (language) {
    case 'python':
      return runProgram(hosted, ['python3', '-u', '-', ...argv], { ...run, input: code })
    case 'javascript':
      // Its arguments do not include the name of the input.
      return runProgram(hosted, ['node', '-', ...argv], {
        ...run,
        input: `process.argv.splice(1, 1); ${code}`,
      })
    case 'typescript':
      return runTypeScript(hosted, code, argv, run)
    default:
      throw new HttpError(400, `nacre runs python, javascript and typescript, not ${language}`)
  }
}

/** By tsx, which reads no standard input. */
async function runTypeScript(hosted: Hosted, code: string, argv: string[], run: Run): Promise<Output> {
  const { files } = hosted.sandbox
  const file = path.join(hosted.view.home, `.code-${randomUUID()}.ts`)
  await files.write(file, code)
  try {
    const output = await runProgram(hosted, ['bash', '-c', 'exec tsx "$@"', 'bash', file, ...argv], run)
    if (output.exitCode !== NOT_FOUND) return output
    return { ...output, stdout: `${output.stdout}TypeScript needs tsx: npm install --global tsx\n` }
  } finally {
    await files.remove(file).catch(() => {})
  }
}
