/** A project of `examples/`, copied and with nacre installed, as a reader would have it. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { cpSync } from 'node:fs'
import path from 'node:path'
import { createConsumer } from './consumer.js'

export const EXAMPLES = path.join(path.dirname(path.dirname(__dirname)), 'examples')
/** Time limit for an example, in milliseconds. */
const LIMIT = 15_000

export interface Run {
  exitCode: number
  stdout: string
  stderr: string
}

export interface Example {
  directory: string
  /** Runs a file of the example to its end, on the runtime of this test. */
  run(file: string, ...args: string[]): Promise<Run>
  /** Does the same with more environment variables. */
  runWith(variables: Record<string, string>, file: string, ...args: string[]): Promise<Run>
  /** Compiles the TypeScript of the example. */
  compile(): Promise<string>
  /** Starts a file of the example. Its standard output is a pipe. */
  start(file: string, ...args: string[]): ChildProcess
  remove(): void
}

/** `packages` are the dependencies of the example other than nacre. */
export async function openExample(name: string, packages: string[] = []): Promise<Example> {
  const { directory, remove, runTool } = await createConsumer(packages)
  cpSync(path.join(EXAMPLES, name), directory, {
    recursive: true,
    filter: (file) => path.basename(file) !== 'node_modules',
  })
  const { NACRE_NATIVE, NODE_OPTIONS, VITEST, ...env } = process.env
  const runWith: Example['runWith'] = (variables, file, ...args) =>
    new Promise((resolve, reject) => {
      const options = { cwd: directory, env: { ...env, ...variables }, timeout: LIMIT }
      execFile(process.execPath, [file, ...args], options, (error, stdout, stderr) => {
        const code = error?.code ?? (error === null ? 0 : undefined)
        if (typeof code === 'number') resolve({ exitCode: code, stdout, stderr })
        else reject(new Error(`${name} did not end by itself: ${error?.signal}\n${stdout}\n${stderr}`))
      })
    })
  return {
    directory,
    remove,
    runWith,
    run: (file, ...args) => runWith({}, file, ...args),
    compile: () => runTool('tsc'),
    start: (file, ...args) =>
      spawn(process.execPath, [file, ...args], { cwd: directory, env, stdio: ['ignore', 'pipe', 'inherit'] }),
  }
}
