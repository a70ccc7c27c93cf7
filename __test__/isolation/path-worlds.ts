/** Random directories full of links, random rules for them, and random paths into them. */
import { lchownSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Random } from '../helpers/random.js'
import { needsMounts, type PathRules, resolve } from './path-model.js'

export interface World {
  root: string
  cwd: string
  /** The rules as the sandbox gets them: with links and `..`. */
  rules: PathRules
  /** The same rules, canonical. */
  canonical: PathRules
}

const NAMES = ['a', 'b', 'c', 'd']

/** Makes directories, files and links below `root`. The content of a file is its path. */
export function makeTree(random: Random, root: string, owner: number | undefined): void {
  const directories = ['', 'a', 'a/b'].map((name) => path.join(root, name))
  for (const directory of directories) mkdirSync(directory)
  for (let count = 0; count < 50; count++) {
    const at = path.join(pick(random, directories), pick(random, NAMES))
    if (lstatSync(at, { throwIfNoEntry: false }) !== undefined) continue
    const kind = random.below(6)
    if (kind < 2) directories.push(at)
    if (kind < 2) mkdirSync(at)
    else if (kind < 4) writeFileSync(at, `content of ${at}\n`)
    else symlinkSync(anyPath(random, root), at)
  }
  if (owner === undefined) return
  for (const entry of entriesOf(root)) lchownSync(entry, owner, owner)
}

/** A tree's entries, itself included. Follows no links. */
export function entriesOf(root: string): string[] {
  if (!lstatSync(root).isDirectory()) return [root]
  return [root, ...readdirSync(root).flatMap((name) => entriesOf(path.join(root, name)))]
}

/** Random rules for a tree, which the tier can enforce. */
export function makeWorld(random: Random, root: string, hasMounts: boolean): World {
  const cwd = path.join(root, 'a')
  for (;;) {
    const some = (most: number, near: string[] = []) =>
      ruleOf(random, root, cwd, random.below(most + 1), near)
    const read: PathRules['read'] = random.below(3) === 0 ? some(3) : 'all'
    const write = some(3)
    const rules: PathRules = { read, write, hide: some(2, write), protect: some(4, write) }
    const names = (list: string[]) => list.map((text) => resolve(cwd, text)?.path ?? '')
    const canonical: PathRules = {
      read: read === 'all' ? 'all' : names(read),
      write: names(rules.write),
      hide: names(rules.hide),
      protect: names(rules.protect),
    }
    // A hidden working directory is another subject.
    if (canonical.hide.some((tree) => `${cwd}/`.startsWith(`${tree}/`))) continue
    if (hasMounts || !needsMounts(canonical)) return { root, cwd, rules, canonical }
  }
}

/** Paths to things that exist. Many lie below or beside one another, or below what `near` names: these rules interact. */
function ruleOf(random: Random, root: string, cwd: string, count: number, near: string[]): string[] {
  const found: string[] = []
  for (let attempt = 0; found.length < count && attempt < 200; attempt++) {
    const known = [...near, ...found]
    const start = known.length > 0 && random.below(3) > 0 ? `${pick(random, known)}/` : undefined
    const text = start === undefined ? anyPath(random, root) : start + words(random, 3)
    const named = resolve(cwd, text)
    if (named === undefined || named.kind === 'missing' || !named.path.startsWith(`${root}/`)) continue
    found.push(text)
  }
  return found
}

/** A path, often to nothing: relative or absolute, with `..`, `.` and repeated slashes. */
export function anyPath(random: Random, root: string): string {
  const known = pick(random, entriesOf(root)).slice(root.length + 1)
  const text =
    random.below(2) === 0
      ? words(random, 5)
      : `${known}${pick(random, ['', '', '', '/', '/..', '/.', `/${words(random, 2)}`])}`
  const start = random.below(3)
  if (start === 0) return `${root}/${text}`
  return start === 1 ? text || '.' : `../${text}`
}

function words(random: Random, most: number): string {
  const parts = Array.from({ length: 1 + random.below(most) }, () => {
    const kind = random.below(10)
    if (kind < 7) return pick(random, NAMES)
    return pick(random, ['..', '..', '.', ''])
  })
  return parts.join('/') || '.'
}

export const pick = <T>(random: Random, list: readonly T[]): T => list[random.below(list.length)] as T
