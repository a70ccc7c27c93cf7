/** What isolated commands in a container may not change, although it is a part of the project. */
import { fs, path } from '../base/builtin.js'
import type { Isolation, IsolationRules } from '../calls/index.js'
import { isBelow, type Project } from './project.js'

/** In a repository: git of this machine runs what these are or name, or reads such files where they lead. */
const OF_GIT = ['hooks', 'config', 'config.worktree', 'commondir']
/** In the project: agents and their clients of MCP on this machine start what these name. */
const OF_CLIENTS = [
  '.mcp.json',
  '.claude/settings.json',
  '.claude/settings.local.json',
  '.codex/config.toml',
  '.cursor/mcp.json',
  '.gemini/settings.json',
  '.vscode/mcp.json',
]

/**
 * The rules, with what this machine runs protected unless they have a list of their own. Without rules, nothing is protected. What
 * does not exist cannot be protected.
 */
export function protectPrograms(
  isolation: Isolation | undefined,
  project: Project,
  cwd: string,
): Isolation | undefined {
  if (isolation === undefined) return undefined
  const rules: IsolationRules = typeof isolation === 'string' ? { preset: isolation } : isolation
  if (rules.filesystem?.protect !== undefined) return isolation
  const [top, ...others] = project
  const git = path.join(top, '.git')
  const repositories = [git, ...others].flatMap((directory) => [directory, ...workTreesOf(directory)])
  const files = [
    ...(isFile(git) ? [git] : []),
    ...repositories.flatMap((directory) => OF_GIT.map((name) => path.join(directory, name))),
    ...[...new Set([top, cwd])].flatMap((directory) => OF_CLIENTS.map((name) => path.join(directory, name))),
  ]
  const protect = files.filter((file) => isInside(file, project))
  return protect.length === 0 ? isolation : { ...rules, filesystem: { ...rules.filesystem, protect } }
}

/** Where a repository keeps what is of one linked worktree. */
function workTreesOf(repository: string): string[] {
  const directory = path.join(repository, 'worktrees')
  try {
    return fs.readdirSync(directory).map((name) => path.join(directory, name))
  } catch {
    return []
  }
}

/** A linked worktree or a submodule has a file that says where its repository is. */
function isFile(git: string): boolean {
  return fs.lstatSync(git, { throwIfNoEntry: false })?.isFile() ?? false
}

/** Whether the container has what the path leads to. */
function isInside(file: string, project: Project): boolean {
  try {
    const real = fs.realpathSync(file)
    return project.some((directory) => isBelow(real, directory))
  } catch {
    return false
  }
}
