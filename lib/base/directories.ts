/**
 * Creates directories with those above them. The `recursive` of Node.js goes on for ever below /proc, where a directory exists
 * and nothing can be created in it (ENOENT).
 */
import { fs, path } from './builtin.js'

/** Throws the error of the system. */
export function makeDirectories(directory: string, mode: number): void {
  const make = () => fs.mkdirSync(directory, { mode })
  try {
    make()
  } catch (error) {
    if (codeOf(error) === 'EEXIST' && fs.statSync(directory).isDirectory()) return
    if (codeOf(error) !== 'ENOENT' || path.dirname(directory) === directory) throw error
    makeDirectories(path.dirname(directory), mode)
    try {
      make()
    } catch (error) {
      // Another program may be faster.
      if (codeOf(error) !== 'EEXIST') throw error
    }
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code
}
