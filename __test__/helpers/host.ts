/** Programs that use nacre in a separate process, so that tests can kill, limit and isolate them. */
import { type ChildProcess, spawn } from 'node:child_process'
import path from 'node:path'
import { expect, onTestFinished } from 'vitest'
import * as proc from './proc.js'
import { until } from './until.js'

const root = path.dirname(path.dirname(__dirname))

export interface Host {
  child: ChildProcess
  pid: number
  /** Set in the environment of the host and of everything it starts. */
  tag: string
  /** Its output so far. */
  output(): string
  /** Waits until it has printed this text. */
  printed(text: string): Promise<void>
  /** Waits for its end and returns its code, or the name of its signal. */
  ended(limit?: number): Promise<number | string>
}

let hosts = 0

/**
 * Starts a program on the runtime of this process, with `Sandbox` and `print` defined. The runtime's command line is
 * appended to the command `wrapper`. It ends with its test at the latest.
 */
export function startHost(program: string, wrapper: string[] = [], env: Record<string, string> = {}): Host {
  hosts++
  const tag = `nacre-host-${process.pid}-${hosts}`
  const source = `const { Sandbox } = require('nacre'); const print = (text) => require('fs').writeSync(1, text + '\\n'); ${program}`
  const [file = process.execPath, ...args] = [...wrapper, process.execPath, '-e', source]
  const child = spawn(file, args, {
    cwd: root,
    env: { ...process.env, ...env, NACRE_TEST_TAG: tag },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (data: string) => {
      text += data
    })
  }
  let end: number | string | undefined
  child.on('close', (code, signal) => {
    end = code ?? signal ?? 'nothing'
  })
  return {
    child,
    pid: child.pid ?? 0,
    tag,
    output: () => text,
    printed: async (wanted) => {
      await until(
        () => text.includes(wanted) || end !== undefined || undefined,
        () => `not printed: ${wanted}, but: ${text}`,
      )
      expect(text).toContain(wanted)
    },
    ended: (limit = 20_000) =>
      until(
        () => end,
        () => `it runs on; printed: ${text}`,
        limit,
      ),
  }
}

/** Checks I1 for a dead host: nothing of it is left. */
export async function expectGone(tag: string): Promise<void> {
  await until(
    () => proc.tagged(tag).length === 0 || undefined,
    () => `left behind: ${proc.tagged(tag).map(proc.show).join('\n')}`,
  )
}
