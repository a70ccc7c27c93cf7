/**
 * A command in the session's shell, and its result as containers expect it.
 */
import { isCode } from '../base/errors.js'
import type { RawExecResult } from '../calls/container.js'
import type { ExecResult } from '../calls/index.js'
import { timedOut } from './errors.js'
import type { CommandPlan } from './options.js'
import type { Shell } from './shell.js'

/** Minimum duration in milliseconds: no duration is 0, however quick the command was. */
const SHORTEST_MS = 0.001

/**
 * Runs the command. Rejects with nacre's errors, except for timeouts and missing directories, where containers expect
 * something else.
 */
export async function execIn(
  shell: Shell,
  command: string,
  { cwd, env, timeoutMs }: CommandPlan,
  defaultTimeoutMs: number,
): Promise<RawExecResult> {
  const timeout = timeoutMs ?? defaultTimeoutMs
  const begun = Date.now()
  try {
    return rawResult(command, await shell.exec(command, { cwd, env, timeout }))
  } catch (error) {
    if (isCode(error, 'COMMAND_TIMEOUT')) throw timedOut(timeout, error)
    if (isCode(error, 'CWD_NOT_FOUND') && cwd !== undefined) return refusedDirectory(command, cwd, begun)
    throw error
  }
}

function rawResult(command: string, result: ExecResult): RawExecResult {
  return {
    stdout: withoutNewline(result.stdout),
    stderr: withoutNewline(result.stderr),
    // A command lacks an exit code only if it never finished and its session was restored, as after SIGKILL.
    exitCode: result.exitCode ?? 137,
    command,
    duration: Math.max(result.duration, SHORTEST_MS),
    timestamp: result.timestamp,
  }
}

function refusedDirectory(command: string, cwd: string, begun: number): RawExecResult {
  return {
    stdout: '',
    stderr: directoryMessage(cwd),
    exitCode: 1,
    command,
    duration: Math.max(Date.now() - begun, SHORTEST_MS),
    timestamp: new Date(begun).toISOString(),
  }
}

/** The text for stderr that replaces an exception. */
export function directoryMessage(cwd: string): string {
  return `Failed to change directory to '${cwd}'`
}

/** Removes exactly one newline: further empty lines at the end are output. */
function withoutNewline(text: string): string {
  return text.endsWith('\n') ? text.slice(0, -1) : text
}
