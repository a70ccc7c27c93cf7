/**
 * This process's directory, by a name that really leads to it.
 *
 * Node.js and Bun cache the name. It stays when the directory is moved or removed, and another program may since have created a
 * directory of that name. PWD is older still: a program inherits it, and `process.chdir` does not change it. So a name counts only
 * if it leads to the same device and inode.
 */
import { fs, path } from './builtin.js'

/** In place of a directory that has no name left: nothing can be created below /proc. */
const REMOVED = '/proc/removed-working-directory'
/** Linux: the directory, whatever its name. Reading the link gives the name. */
const LINK = '/proc/self/cwd'

/** The path, resolved against this process's directory. If that was removed, the path of a directory that does not exist. */
export function absolute(file: string): string {
  return path.isAbsolute(file) ? path.normalize(file) : resolveFrom(workingDirectory(), file)
}

/** The path, resolved against a directory. */
export function resolveFrom(directory: string, file: string): string {
  return path.resolve(path.isAbsolute(file) ? file : below(directory, file))
}

/** A path below a directory, with its dots. Nothing is below a removed one, so `..` does not lead out of it. */
export function below(directory: string, file: string): string {
  return directory === REMOVED ? REMOVED : `${directory}/${file}`
}

function workingDirectory(): string {
  const names = [() => process.cwd(), () => fs.readlinkSync(LINK)]
  for (const name of names) {
    try {
      const found = name()
      const [one, other] = [fs.statSync(found, BIG), here()]
      if (one.dev === other.dev && one.ino === other.ino) return found
    } catch {
      // The name leads nowhere, or there is none.
    }
  }
  return REMOVED
}

const BIG = { bigint: true } as const

function here() {
  try {
    return fs.statSync(LINK, BIG)
  } catch {
    return fs.statSync('.', BIG)
  }
}
