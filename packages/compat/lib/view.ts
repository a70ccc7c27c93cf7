/**
 * The files of a hosted sandbox: as its programs see them, and on this machine.
 *
 * With mount namespaces, programs see the sandbox's own directories at its home directory and /tmp. Without, they see them where they
 * are on this machine, and only paths of clients are translated.
 */

import type { Stats } from 'node:fs'
import { lstat, readlink, realpath } from 'node:fs/promises'
import path from 'node:path'
import type { FilesystemMount } from 'nacre'

/** What `lstat` finds, and where a link leads as programs see it. */
export interface OwnFile {
  stats: Stats
  target: string | undefined
}

export class View {
  readonly mounts: FilesystemMount[]
  /** The home directory, as programs see it. */
  readonly home: string
  readonly #shownHome: string

  /** Clients see the home directory at `shownHome`. */
  constructor(directory: string, isMounted: boolean, shownHome: string) {
    const home = path.join(directory, 'home')
    this.#shownHome = shownHome
    this.home = isMounted ? shownHome : home
    this.mounts = isMounted
      ? [
          { source: home, target: shownHome },
          { source: path.join(directory, 'tmp'), target: '/tmp' },
        ]
      : []
  }

  /** The path that programs see, for one from a client. A relative path starts at the home directory. */
  resolve(given: string): string {
    const text = given === '~' || given.startsWith('~/') ? given.slice(2) : given
    const full = path.resolve(this.#shownHome, text)
    return replacePrefix(full, this.#shownHome, this.home) ?? full
  }

  /** The path that clients see. */
  shown(file: string): string {
    return replacePrefix(file, this.home, this.#shownHome) ?? file
  }

  /**
   * Looks at a file without following it. Undefined if it is missing, or if a link leads out of the sandbox's own directories on
   * the way: this process does not see what programs see there.
   */
  async lstat(file: string): Promise<OwnFile | undefined> {
    const own = await this.#find(file)
    try {
      const stats = await lstat(own ?? file)
      if (!stats.isSymbolicLink()) return { stats, target: undefined }
      return { stats, target: path.resolve(path.dirname(file), await readlink(own ?? file)) }
    } catch {
      return undefined
    }
  }

  /** The place on this machine of a file below a mount. Undefined for other files, which are where programs see them. */
  async #find(file: string): Promise<string | undefined> {
    for (const { source, target } of this.mounts) {
      const own = replacePrefix(file, target, source)
      if (own === undefined) continue
      if (own === source) return own
      const parent = await realpath(path.dirname(own)).catch(() => '')
      const root = await realpath(source)
      // An impossible path: nothing is below a null device.
      if (replacePrefix(parent, root, root) === undefined) return '/dev/null/outside'
      return path.join(parent, path.basename(own))
    }
    return undefined
  }
}

function replacePrefix(file: string, from: string, to: string): string | undefined {
  if (file === from) return to
  return file.startsWith(`${from}/`) ? to + file.slice(from.length) : undefined
}
