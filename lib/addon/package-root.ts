/**
 * The directory that nacre is installed in, and what the package.json of a directory says.
 */
import { fs, path } from '../base/builtin.js'

const { readFileSync } = fs

/**
 * The nearest directory at or above `from` that holds nacre's package.json; undefined where none does, as when nacre is
 * part of a bundle. It is searched for, since a file may be a module of its own or part of the bundled command line.
 */
export function packageRoot(from: string): string | undefined {
  for (let directory = from; ; directory = path.dirname(directory)) {
    if (manifestOf(directory)?.name === 'nacre') return directory
    if (directory === path.dirname(directory)) return undefined
  }
}

interface Manifest {
  name?: string
  version?: string
  optionalDependencies?: Record<string, string>
  peerDependencies?: Record<string, string>
}

/** The package.json of a directory; undefined where there is none that can be read. */
export function manifestOf(directory: string): Manifest | undefined {
  try {
    return JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'))
  } catch {
    return undefined
  }
}
