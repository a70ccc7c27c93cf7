/** The directory of a copy-on-write workspace, on this machine. */
import { fs, path } from '../../../base/builtin.js'
import { OptionError } from '../../../base/errors.js'

/** What the rules for the directory look at. Both paths are absolute. */
interface Surroundings {
  cwd: string
  stateDir: string
}

/** The directory without links. Throws OptionError if it cannot be a workspace. */
export function planWorkspace(given: string | undefined, { cwd, stateDir }: Surroundings): string {
  const named = path.resolve(cwd, given ?? '.')
  const name = given === undefined ? 'workspace' : 'workspace.path'
  const directory = realDirectory(named, name)
  if (directory === '/') throw refuse(name, directory, 'must not be the root directory')
  const store = existing(stateDir)
  if (isWithin(store, directory))
    throw refuse(
      name,
      directory,
      `must not contain stateDir (${store}); set stateDir to a directory elsewhere`,
    )
  if (isWithin(directory, path.join(store, 'workspaces')))
    throw refuse(name, directory, `must not be one of nacre's own directories in ${store}`)
  return directory
}

function realDirectory(named: string, name: string): string {
  try {
    const directory = fs.realpathSync.native(named)
    if (fs.statSync(directory).isDirectory()) return directory
  } catch {
    // It does not exist, or cannot be reached.
  }
  throw refuse(name, named, 'must be an existing directory')
}

/** The path with the links of the part that exists. */
function existing(file: string): string {
  try {
    return fs.realpathSync.native(file)
  } catch {
    const parent = path.dirname(file)
    return parent === file ? file : path.join(existing(parent), path.basename(file))
  }
}

function isWithin(file: string, root: string): boolean {
  return file === root || file.startsWith(`${root}/`)
}

function refuse(name: string, directory: string, rule: string): OptionError {
  return new OptionError('INVALID_OPTION', `${name} ${rule}: ${directory}`)
}
