/**
 * The shell of a drop-in session: an engine with only its default session, and the directory where it starts.
 */
import { NativeBackend } from '../backends/native/backend.js'
import { planSandbox } from '../backends/native/plan/sandbox.js'
import type { LocalProcess } from '../backends/native/processes/process.js'
import { isCode } from '../base/errors.js'
import { report } from '../base/report.js'
import type { ExecOptions, ExecResult, ProcessOptions } from '../calls/index.js'
import { readProcess } from '../requests/process.js'
import { Runner } from '../sandbox/runner.js'
import type { SessionPlan } from './options.js'

export class Shell {
  readonly backend: NativeBackend
  readonly #runner: Runner

  /** Does no I/O. */
  constructor({ env, surviveExit, logger }: SessionPlan, cwd: string | undefined) {
    const plan = planSandbox({ cwd, surviveExit, logger, env: { ...localeDefaults(env), ...env } })
    this.backend = new NativeBackend(plan)
    this.#runner = new Runner(this.backend)
  }

  exec(command: string, options?: ExecOptions): Promise<ExecResult> {
    return this.#runner.exec(command, options)
  }

  /** Throws OptionError immediately; rejects for any other failure. */
  start(command: string, options: ProcessOptions): Promise<LocalProcess> {
    return this.backend.startProcess(readProcess(command, options))
  }
}

/**
 * Starts a shell in the first existing directory of: the session's directory, its home, /root. `introduce` receives each
 * shell before its start, and may throw to prevent it.
 *
 * Directories are not checked beforehand: one could be deleted before the shell starts in it.
 */
export async function startShell(plan: SessionPlan, introduce: (shell: Shell) => void): Promise<void> {
  const home = 'HOME' in plan.env ? plan.env.HOME : process.env.HOME
  const directories = [plan.cwd, home || '/root', '/root', '/']
  for (const [index, directory] of directories.entries()) {
    const shell = new Shell(plan, directory)
    introduce(shell)
    try {
      await shell.exec(':')
      if (index > 0) {
        report(
          plan.logger,
          'warn',
          `session '${plan.id}': its directory does not exist; starting in ${directory}`,
        )
      }
      return
    } catch (error) {
      await shell.backend.destroy()
      if (!isCode(error, 'CWD_NOT_FOUND') || index === directories.length - 1) throw error
    }
  }
}

/** A UTF-8 locale, unless the environment sets a locale. */
function localeDefaults(env: SessionPlan['env']): Record<string, string> {
  const missing = ['LANG', 'LC_ALL'].filter((name) => (env[name] ?? process.env[name] ?? '') === '')
  return Object.fromEntries(missing.map((name) => [name, 'C.UTF-8']))
}
