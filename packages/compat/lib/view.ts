/**
 * The files of a hosted sandbox: as its programs see them, and on this machine.
 *
 * With mount namespaces, programs see the sandbox's own directories at its home directory and /tmp. Without, they see them where they
 * are on this machine, and only paths of clients are translated.
 */

import path from 'node:path'
import type { FilesystemMount } from 'nacre'

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
}

function replacePrefix(file: string, from: string, to: string): string | undefined {
  if (file === from) return to
  return file.startsWith(`${from}/`) ? to + file.slice(from.length) : undefined
}
