/**
 * The tagged template `$`: shell text where every value is one word, or a list of words, and is never parsed.
 */

import { OptionError } from '../base/errors.js'
import type { Encoding, ExecOptions, ShellRun, ShellTag } from '../calls/index.js'
import { showCommand } from '../schema/command.js'
import { readEntries, refusal } from '../schema/read.js'

/** The options of a template. */
type Options = ExecOptions<Encoding, boolean>

type Run = (command: string, options: Options | undefined) => ShellRun<Encoding, boolean>

/** Creates a tag that runs its templates with `run` and these options. */
export function shellTag<Scope extends object = object>(run: Run, options?: Options): ShellTag<Scope> {
  const tag = (template: unknown, ...values: unknown[]) => {
    if (!isTemplate(template))
      throw new OptionError(
        'INVALID_COMMAND',
        '$ must be the tag of a template; options go to $.with(options)',
      )
    return run(shellText(template.raw, values), options)
  }
  const bind = (more: Options) => {
    readEntries(more, 'the options of $.with')
    return shellTag(run, { ...options, ...more })
  }
  return Object.assign(tag, { with: bind }) as ShellTag<Scope>
}

function isTemplate(value: unknown): value is TemplateStringsArray {
  return Array.isArray(value) && Array.isArray((value as Partial<TemplateStringsArray>).raw)
}

/** The shell text of a template. Backslashes stay as written. Throws OptionError. */
export function shellText(strings: readonly string[], values: readonly unknown[]): string {
  return strings.map((text, at) => (at < values.length ? text + words(values[at], at) : text)).join('')
}

/** A value as shell words, quoted where needed. An empty list produces no word. */
function words(value: unknown, at: number): string {
  if (Array.isArray(value)) return Array.from(value, (item: unknown) => word(item, at)).join(' ')
  return word(value, at)
}

function word(value: unknown, at: number): string {
  if (typeof value === 'string') return value === '' ? "''" : showCommand({ argv: [value] })
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  const rule = 'must be a string, a number or a list of them'
  throw refusal(`value ${at + 1} of a template`, rule, value, { code: 'INVALID_COMMAND' })
}
