/** Programs with hosts of their own. */

import { invalidOption } from '../base/errors.js'
import { byName, list, mapped, object, text } from '../schema/constructors.js'
import type { CheckedProgram } from '../schema/isolation-rules.js'
import { type Kind, table } from '../schema/kind.js'
import { target } from '../schema/targets.js'

/**
 * What one program may reach, and no other. The program is the file that the process executes when it connects, not a name: nothing
 * of the session can write to it, trace it, or load a library into it that the session could have written.
 */
export interface ProgramRules {
  /** Hosts and ports that the program may reach, in addition to those of all programs. */
  allow: string[]
  /**
   * The absolute paths of 1 to 16 executables that are the program. Default: the one that its name leads to on the PATH; for
   * 'git', also the helper of git that connects to HTTP servers. Scripts, the session's shell, and what programs of the session can
   * write to are refused.
   */
  files?: string[]
}

const MAX_PROGRAMS = 8
const MAX_HOSTS = 200
const MAX_FILES = 16
const LONGEST_PATH = 4095

const file = text(
  (path) => path.startsWith('/') && !path.includes('\0') && path.length <= LONGEST_PATH,
  "must be the absolute path of an executable, like '/usr/bin/git'",
)

export const programOptions = table<ProgramRules>()({
  allow: list(target, MAX_HOSTS, {
    rule: `must be a list of at most ${MAX_HOSTS} hosts`,
    bounds: `at most ${MAX_HOSTS} like 'example.com:443' or '*.example.com:443'`,
  }),
  files: list(file, MAX_FILES, {
    rule: `must be a list of at most ${MAX_FILES} absolute paths`,
    bounds: `1 to ${MAX_FILES} absolute paths`,
  }),
})

const program = mapped(object(programOptions, ['allow']), (rules, name) => {
  if (rules.files?.length !== 0) return rules
  throw invalidOption(`${name}.files must have at least one path: leave it out to look on the PATH`)
})

const isName = (name: string) => /^[\w.+@-]{1,255}$/.test(name) && !/^\.+$/.test(name)
const isPath = (name: string) => name.startsWith('/') && !name.includes('\0') && name.length <= LONGEST_PATH

/** The name or the path of a program. */
export const programName = text(
  (name) => isName(name) || isPath(name),
  'must be the name or the absolute path of a program',
)

/** Programs by their names. */
export const programs: Kind<Record<string, ProgramRules>, Record<string, CheckedProgram>> = byName(
  program,
  MAX_PROGRAMS,
  {
    what: 'programs',
    rule: "must be an object like { git: { allow: ['github.com:443'] } }",
    bounds: `at most ${MAX_PROGRAMS} by names or paths`,
  },
  (key, name) => ({ key: programName.read(key, `a key of ${name}`), owner: `${name}.${key}` }),
)
