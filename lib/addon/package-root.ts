/**
 * The directory that nacre is installed in.
 */
import { fs, path } from '../base/builtin.js'

const { readFileSync } = fs

/**
 * The nearest directory at or above `from` that holds nacre's package.json; undefined where none does, as when nacre is
 * part of a bundle. It is searched for, since a file may be a module of its own or part of the bundled command line.
 */
export function packageRoot(from: string): string | undefined {
  for (let directory = from; ; directory = path.dirname(directory)) {
    if (packageName(directory) === 'nacre') return directory
    if (directory === path.dirname(directory)) return undefined
  }
}

function packageName(directory: string): unknown {
  try {
    return JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')).name
  } catch {
    return undefined
  }
}
