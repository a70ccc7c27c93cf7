/** What isolated commands in a container may not change, although it is a part of the project. */
import { fs, path } from '../base/builtin.js'
import type { Isolation, IsolationRules } from '../calls/index.js'
import { isBelow } from './project.js'

/** git of this machine runs what these are or name. */
const PROGRAMS = ['hooks', 'config']

/** The rules, with the programs of git protected unless they have a list of their own. Without rules, nothing is protected. */
export function protectGit(isolation: Isolation | undefined, project: string[]): Isolation | undefined {
  if (isolation === undefined) return undefined
  const rules: IsolationRules = typeof isolation === 'string' ? { preset: isolation } : isolation
  if (rules.filesystem?.protect !== undefined) return isolation
  const [top = '', ...repositories] = project
  const protect = [path.join(top, '.git'), ...repositories].flatMap((directory) =>
    PROGRAMS.map((name) => path.join(directory, name)).filter((file) => isInside(file, project)),
  )
  return protect.length === 0 ? isolation : { ...rules, filesystem: { ...rules.filesystem, protect } }
}

/** Whether the container has what the path leads to. */
function isInside(file: string, project: string[]): boolean {
  try {
    const real = fs.realpathSync(file)
    return project.some((directory) => isBelow(real, directory))
  } catch {
    return false
  }
}
