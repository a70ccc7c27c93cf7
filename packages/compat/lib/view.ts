/**
 * The files of a hosted sandbox: as its programs see them, and on this machine.
 *
 * With mount namespaces, programs see the sandbox's own directories at /home/user and /tmp. Without, they see them where they
 * are on this machine, and only paths of clients are translated.
 */

import path from 'node:path'
import type { FilesystemMount } from 'nacre'

export const HOME = '/home/user'

export class View {
  readonly mounts: FilesystemMount[]
  /** The home directory, as programs see it. */
  readonly home: string

  constructor(directory: string, isMounted: boolean) {
    const home = path.join(directory, 'home')
    this.home = isMounted ? HOME : home
    this.mounts = isMounted
      ? [
          { source: home, target: HOME },
          { source: path.join(directory, 'tmp'), target: '/tmp' },
        ]
      : []
  }

  /** The path that programs see, for one from a client. A relative path starts at the home directory. */
  resolve(given: string): string {
    const text = given === '~' || given.startsWith('~/') ? given.slice(2) : given
    const full = path.resolve(HOME, text)
    return replacePrefix(full, HOME, this.home) ?? full
  }

  /** The path that clients see. */
  shown(file: string): string {
    return replacePrefix(file, this.home, HOME) ?? file
  }
}

function replacePrefix(file: string, from: string, to: string): string | undefined {
  if (file === from) return to
  return file.startsWith(`${from}/`) ? to + file.slice(from.length) : undefined
}
