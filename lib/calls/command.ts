/** Commands as templates. */

import type { Encoding } from '../base/types.js'
import type { SessionExecOptions, ShellRun } from './exec.js'

/**
 * A value in a template. A list is one word per item, and an empty list is no word. Values are quoted, never parsed.
 */
export type ShellValue = string | number | bigint | ReadonlyArray<string | number | bigint>

/**
 * Runs a template as shell text, and starts immediately like `execStream`. Await the run for its result, or read its
 * output.
 *
 * ```js
 * const { stdout } = await sandbox.$`git show ${ref} -- ${paths}`
 * const $ = sandbox.$.with({ check: true })
 * for await (const line of $`make ${target}`.lines()) console.log(line)
 * ```
 *
 * Each value is quoted, so do not write quotes around it. Backslashes stay as written. Throws OptionError, with
 * INVALID_COMMAND for a value of another type. `Scope` has the options that only a sandbox takes.
 */
export interface ShellTag<
  Scope extends object = object,
  E extends Encoding = 'utf8',
  L extends boolean = false,
> {
  (strings: TemplateStringsArray, ...values: ShellValue[]): ShellRun<E, L>
  /** Returns a tag with these options, merged over the options of this tag. */
  with<F extends Encoding = E, M extends boolean = L>(
    options: SessionExecOptions<F, M> & Scope,
  ): ShellTag<Scope, F, M>
}
