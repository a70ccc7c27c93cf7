/** Commands that run until they end, and code. */
import { randomUUID } from 'node:crypto'
import os from 'node:os'
import path from 'node:path'
import type { EnvChanges, ProcessExit, SignalName } from 'nacre'
import { isCode } from 'nacre/internal'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { readJson, sendJson, textsOf, timeoutOf } from '../http.js'
import type { Routes } from './routes.js'
import { listOfTexts, optionalText, text } from './values.js'

/** Of one command. The oldest output is dropped. */
const OUTPUT_BYTES = 64 * 1024 * 1024
const NOT_FOUND = 127

export interface Run {
  cwd?: string | undefined
  env?: EnvChanges
  /** Milliseconds; 0 = none. */
  timeout?: number
  input?: string
}

export interface Output {
  exitCode: number
  /** Both streams, in their order. */
  result: string
}

/** Runs a program until it ends. Throws HttpError. */
export async function runProgram(hosted: Hosted, argv: string[], run: Run = {}): Promise<Output> {
  const { cwd = '', env = {}, timeout = 0, input } = run
  try {
    const process = await hosted.sandbox.startProcess(argv, {
      cwd: hosted.view.resolve(cwd),
      env,
      timeout,
      mergeOutput: true,
      logLimit: OUTPUT_BYTES,
      ...(input === undefined ? {} : { input: Buffer.from(input) }),
    })
    const end = await process.wait()
    if (end.reason === 'timeout')
      throw new HttpError(408, 'the command ran longer than its timeout', 'PROCESS_EXECUTION_TIMEOUT')
    return { exitCode: exitCodeOf(end), result: (await process.getLogs()).stdout }
  } catch (error) {
    if (!isCode(error, 'CWD_NOT_FOUND')) throw error
    return { exitCode: -1, result: `chdir ${cwd}: no such file or directory` }
  }
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
    })
    sendJson(response, 200, output)
  },
  'POST /process/code-run': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const code = optionalText(given, 'code') ?? ''
    const language = text(given, 'language')
    const argv = listOfTexts(given, 'argv')
    const run = { env: textsOf(given, 'envs'), timeout: timeoutOf(given.timeout ?? 0) }
    sendJson(response, 200, await runCode(hosted, language, code, argv, run))
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
    return { ...output, result: `${output.result}TypeScript needs tsx: npm install --global tsx\n` }
  } finally {
    await files.remove(file).catch(() => {})
  }
}
