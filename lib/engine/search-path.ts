/** Where programs of this machine are searched. */
import { fs, path } from '../base/builtin.js'
import { homeDirectory } from '../base/home.js'
import { isWithin, projectOf } from './project.js'

/** Programs that a graphical program starts have a short PATH. These are the places of the installers. */
const PLACES: Partial<Record<NodeJS.Platform, string[]>> = {
  darwin: [
    ...['/usr/local/bin', '/opt/homebrew/bin', '~/.orbstack/bin', '~/.docker/bin'],
    '/Applications/Docker.app/Contents/Resources/bin',
    '/Applications/OrbStack.app/Contents/MacOS/xbin',
    ...['~/.rd/bin', '/opt/podman/bin', '/run/current-system/sw/bin'],
  ],
  linux: ['/usr/local/bin', '/usr/bin', '/bin'],
}

/**
 * The directories of PATH, and those of installers, without those where commands in a container can have put programs: what is
 * in `writable`, and `node_modules/.bin` of any project, which npm puts in front of PATH.
 */
export class SearchPath {
  readonly #writable: string[]
  readonly #directories: string[]

  constructor(writable: string[]) {
    this.#writable = writable
    const known = (PLACES[process.platform] ?? []).map((place) => place.replace(/^~/, homeDirectory()))
    const given = (process.env.PATH ?? '').split(path.delimiter).filter((one) => path.isAbsolute(one))
    this.#directories = [...new Set([...given, ...known])].filter(
      (directory) => !isOfPackages(directory) && this.#isTrusted(directory),
    )
  }

  /** Without the project around a directory. */
  static around(cwd: string): SearchPath {
    try {
      return new SearchPath(projectOf(fs.realpathSync(cwd)))
    } catch {
      // No container can have such a project.
      return new SearchPath([])
    }
  }

  /** The environment of this process, with all of these directories. */
  get env(): NodeJS.ProcessEnv {
    return { ...process.env, PATH: this.#directories.join(path.delimiter) }
  }

  /** The absolute path of a program: a regular file that can be executed. */
  find(name: string): string | undefined {
    return this.#directories
      .map((directory) => path.join(directory, name))
      .find((file) => {
        try {
          fs.accessSync(file, fs.constants.X_OK)
          return fs.statSync(file).isFile() && this.#isTrusted(file)
        } catch {
          return false
        }
      })
  }

  #isTrusted(file: string): boolean {
    try {
      const real = fs.realpathSync(file)
      return !this.#writable.some((directory) => isWithin(real, directory))
    } catch {
      // It is missing, or not for this user.
      return false
    }
  }
}

function isOfPackages(directory: string): boolean {
  return path.resolve(directory).split(path.sep).slice(-2).join('/') === 'node_modules/.bin'
}
