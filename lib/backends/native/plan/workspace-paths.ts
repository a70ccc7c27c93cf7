/** Paths of a workspace as the engine takes them: relative to its directory. */
import { SandboxError } from '../../../base/errors.js'
import type { CheckedPath } from '../../../schema/paths.js'

/** The paths below `root`, which is absolute; '.' is the workspace itself. Null: all. Throws INVALID_PATH. */
export function pathsBelow(root: string, paths: CheckedPath[] | undefined): Uint8Array[] | null {
  return paths?.map((path) => pathBelow(root, path)) ?? null
}

/** A path without `.` and `..`, by its names alone: it names an entry of the workspace, and no link is followed. */
export function pathBelow(root: string, { bytes, shown }: CheckedPath): Uint8Array {
  const names: string[] = []
  const rootNames = namesOf(Buffer.from(root))
  const isAbsolute = bytes[0] === SLASH
  for (const name of isAbsolute ? namesOf(bytes) : [...rootNames, ...namesOf(bytes)]) {
    if (name === '..') names.pop()
    else if (name !== '.') names.push(name)
  }
  if (rootNames.some((name, at) => names[at] !== name)) {
    const message = `the path ${JSON.stringify(shown)} is outside the workspace ${root}`
    throw new SandboxError('INVALID_PATH', message, { path: shown })
  }
  return Buffer.from(names.slice(rootNames.length).join('/') || '.', 'latin1')
}

const SLASH = 47

/** The names of a path, each byte a character. */
function namesOf(path: Uint8Array): string[] {
  return Buffer.from(path).toString('latin1').split('/').filter(Boolean)
}
