/**
 * The rules for files as the documentation states them, without any of the mechanisms that enforce them: what a path
 * names, and what a session may do there.
 */
import { lstatSync, readlinkSync } from 'node:fs'
import path from 'node:path'

/** Rules with canonical paths. */
export interface PathRules {
  read: 'all' | string[]
  write: string[]
  hide: string[]
  protect: string[]
}

/** What a path names, and the entries of directories that were looked up on the way. */
export interface Resolved {
  /** The canonical path. The last part is missing when `kind` is. */
  path: string
  kind: 'file' | 'directory' | 'missing'
  entries: string[]
}

/** The kernel follows as many links in one path. */
const MOST_LINKS = 40

const isWithin = (file: string, tree: string) => file === tree || file.startsWith(`${tree}/`)
const isWithinAny = (file: string, trees: string[]) => trees.some((tree) => isWithin(file, tree))

/** Resolves a path as path_resolution(7) describes. Undefined where that is an error. */
export function resolve(cwd: string, text: string): Resolved | undefined {
  const entries: string[] = []
  const isDirectoryWanted = /(^|\/)\.{0,2}$/.test(text)
  let links = 0
  let at = text.startsWith('/') ? '/' : cwd
  const parts = text.split('/')
  while (parts.length > 0) {
    const part = parts.shift() as string
    if (part === '' || part === '.') continue
    if (part === '..') {
      at = path.dirname(at)
      continue
    }
    const entry = path.join(at, part)
    entries.push(entry)
    const stat = lstatSync(entry, { throwIfNoEntry: false })
    const isEnd = parts.length === 0 && !isDirectoryWanted
    if (stat === undefined) return isEnd ? { path: entry, kind: 'missing', entries } : undefined
    if (stat.isSymbolicLink()) {
      if (++links > MOST_LINKS) return undefined
      const target = readlinkSync(entry)
      if (target.startsWith('/')) at = '/'
      parts.unshift(...target.split('/'))
      continue
    }
    if (!stat.isDirectory()) return isEnd ? { path: entry, kind: 'file', entries } : undefined
    at = entry
  }
  return { path: at, kind: 'directory', entries }
}

export const canRead = ({ read, write, hide }: PathRules, file: string): boolean =>
  !isWithinAny(file, hide) && (read === 'all' || isWithinAny(file, read) || isWithinAny(file, write))

export const canWrite = ({ write, hide, protect }: PathRules, file: string): boolean =>
  isWithinAny(file, write) && !isWithinAny(file, protect) && !isWithinAny(file, hide)

/** True when everything on the way is in sight: a view that lacks parts can end a lookup in them. */
export function isInSight(rules: PathRules, cwd: string, entries: string[]): boolean {
  const roots = [...(rules.read === 'all' ? ['/'] : rules.read), ...rules.write, cwd]
  return entries.every(
    (entry) =>
      canRead(rules, entry) ||
      (!isWithinAny(entry, rules.hide) && roots.some((root) => isWithin(root, entry))),
  )
}

/** True when only mounts can enforce the rules: Landlock takes no right away below what it grants. */
export function needsMounts({ write, hide, protect }: PathRules): boolean {
  const closed = [...hide, ...protect]
  const open = write.filter((tree) => !isWithinAny(tree, closed))
  return closed.some((tree) => isWithinAny(tree, open))
}
