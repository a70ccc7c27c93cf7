/**
 * How a container shows that it has the same files as this machine. An engine on another machine, or one that does not share a
 * directory with its virtual machine, makes an empty one in its place.
 */
import { crypto, fs, path } from '../base/builtin.js'
import type { Engine } from './find.js'

/** The number of names by which a directory is recognized. */
const MOST_NAMES = 50
/** What names begin with that do not count: crates/supervisor/src/enter.rs has it too. */
const MARKER = '.nacre-'

export interface Proofs {
  /** Arguments of `nacre-supervisor --enter`. */
  words: string[]
  /** Removes what was made for them. */
  remove(): void
}

/** What to do when the container has other files. */
export function shareRemedy({ name }: Engine): string {
  return `let ${name} share this directory with its virtual machine, and use no engine on another machine`
}

/** Of what the container shares with this machine, as far as this user can read it. */
export function proofs(shared: { source: string; readOnly: boolean }[]): Proofs {
  const markers: string[] = []
  const words = shared.flatMap(({ source, readOnly }) => {
    try {
      if (!fs.statSync(source).isDirectory()) return ['file', source]
      const names = namesOf(source)
      const marker = names.length === 0 && !readOnly ? makeMarker(source) : undefined
      if (marker === undefined) return [`names=${names.map(hashOf).join()}`, source]
      markers.push(path.join(source, marker))
      return [`has=${marker}`, source]
    } catch {
      return []
    }
  })
  const remove = () => {
    for (const marker of markers)
      try {
        fs.rmSync(marker, { force: true })
      } catch {
        // Another program has changed the directory.
      }
  }
  return { words, remove }
}

function namesOf(directory: string): Buffer[] {
  return fs
    .readdirSync(directory, { encoding: 'buffer' })
    .filter((name) => !name.subarray(0, MARKER.length).equals(Buffer.from(MARKER)))
    .sort(Buffer.compare)
    .slice(0, MOST_NAMES)
}

/** All empty directories have the same names. */
function makeMarker(directory: string): string | undefined {
  const name = `${MARKER}${crypto().randomUUID()}`
  try {
    fs.writeFileSync(path.join(directory, name), '', { flag: 'wx' })
    return name
  } catch {
    // It is read-only, for commands too.
    return undefined
  }
}

/** FNV-1a. Arguments can be seen by all users. */
function hashOf(name: Buffer): string {
  return name.reduce((hash, byte) => Math.imul(hash ^ byte, 0x0100_0193) >>> 0, 0x811c_9dc5).toString(16)
}
