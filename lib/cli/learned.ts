/** The smallest rules for what a command has used. */
import { lstatSync } from 'node:fs'
import path from 'node:path'
import { isWithin, linkTarget } from '../backends/native/plan/places.js'
import type { Denial, IsolationRules } from '../calls/index.js'

/** A rule, and how many files it is there for. */
export interface LearnedTree {
  path: string
  files: number
}

export interface Learned {
  read: LearnedTree[]
  write: LearnedTree[]
  /** Hosts with ports. */
  hosts: string[]
  /** Files that are hidden by default, which the command has read or written. */
  secrets: string[]
  /** What no rule can allow, or only one that is much wider. */
  closed: string[]
}

export interface Places {
  cwd: string
  home: string
}

/** The longest list of rules. */
const MOST_RULES = 200
/** A directory of which more entries were used is a rule as a whole. */
const MOST_ENTRIES = 8
/** The most links on the way to a file that are followed. */
const MOST_LINKS = 40

/** Reads what the rules of {@link rulesOf} would have refused. Looks at the files. */
export function learnedFrom(denials: Denial[], places: Places): Learned {
  const reads = new Tree()
  const writes = new Tree()
  const hosts = new Set<string>()
  const secrets = new Set<string>()
  const closed = new Set<string>()
  const isWide = wideness(places)
  for (const { kind, target, rule } of denials) {
    if (rule === 'isolation.filesystem.hide') secrets.add(target)
    else if (kind === 'network' && rule === 'isolation.network.allow') hosts.add(target)
    else if (kind === 'read' && rule === 'isolation.filesystem.read') {
      const { links, end } = walk(target)
      reads.add(end, isDirectory(end))
      // A rule for a link is one for its target: only the directory shows the link.
      for (const link of links.filter((link) => !isShown(link, places.cwd)))
        if (isWide(path.dirname(link)))
          closed.add(`read ${link}: a link, which only a rule for its directory shows`)
        else reads.add(path.dirname(link), true)
    } else if (kind === 'write' && rule === 'isolation.filesystem.write') {
      const place = writable(target, isWide)
      if (place === undefined) closed.add(`write ${target}: only a rule for ${path.dirname(target)}`)
      else writes.add(place, isDirectory(place))
    } else closed.add(`${kind} ${target}`)
  }
  const write = writes.rules(isWide)
  const isWritable = (file: string) => write.some((tree) => isWithin(file, tree.path))
  const read = reads.rules(isWide).filter((tree) => !isWritable(tree.path))
  return {
    ...{ read, write },
    ...{ hosts: [...hosts].sort(), secrets: [...secrets].sort(), closed: [...closed].sort() },
  }
}

/** The rules: nothing but the project, the system, and what was learned. */
export function rulesOf({ read = [], write = [], hosts = [] }: Partial<Learned>): IsolationRules {
  return {
    preset: 'workspace',
    filesystem: { read: read.map((tree) => tree.path), write: ['.', ...write.map((tree) => tree.path)] },
    network: { allow: hosts },
  }
}

/** The rules as a program has them, with what they are there for. */
export function typeScriptOf(rules: IsolationRules, { read, write }: Learned): string {
  const counts = new Map([...read, ...write].map((tree) => [JSON.stringify(tree.path), tree.files]))
  const lines = JSON.stringify(rules, undefined, 2)
    .split('\n')
    .map((line) => {
      const files = counts.get(line.trim().replace(/,$/, ''))
      return `  ${line.replace(/^( *)"(\w+)":/, '$1$2:')}${files === undefined ? '' : ` // files: ${files}`}`
    })
  return [
    "import { Sandbox } from 'nacre'",
    '',
    'await using sandbox = new Sandbox({',
    `  isolation: ${lines.join('\n').trimStart()},`,
    '})',
  ].join('\n')
}

/**
 * Whether a directory is never a rule, since it has much besides what a command uses: those near the root, and those around the
 * project and the home directory.
 */
function wideness({ cwd, home }: Places): (directory: string) => boolean {
  return (directory) => names(directory).length < 2 || [cwd, home].some((place) => isWithin(place, directory))
}

/** The tree that has to be writable for a file that was written, created or removed. */
function writable(file: string, isWide: (directory: string) => boolean): string | undefined {
  const place = walk(file).end
  if (isDirectory(place) && !isWide(place)) return place
  const directory = path.dirname(place)
  if (!isWide(directory) && exists(directory)) return directory
  return exists(place) && !isWide(place) ? place : undefined
}

/** The links on the way to a file, and what is at the end. */
function walk(file: string): { links: string[]; end: string } {
  const links: string[] = []
  let at = '/'
  let rest = names(file)
  while (rest.length > 0) {
    const [name = '', ...later] = rest
    const next = path.join(at, name)
    const target = links.length < MOST_LINKS ? linkTarget(next) : undefined
    if (target === undefined) {
      at = next
      rest = later
    } else {
      links.push(next)
      at = '/'
      rest = [...names(path.resolve(path.dirname(next), target)), ...later]
    }
  }
  return { links, end: at }
}

const names = (file: string) => path.normalize(file).split('/').filter(Boolean)

function found(file: string) {
  try {
    return lstatSync(file)
  } catch {
    return undefined
  }
}

const exists = (file: string) => found(file) !== undefined
const isDirectory = (file: string) => found(file)?.isDirectory() === true
/** Whether programs see a link in any case. */
const isShown = (link: string, cwd: string) =>
  ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32', cwd].some((root) => isWithin(link, root))

/** What was used, as a tree of names. */
class Tree {
  readonly #children = new Map<string, Tree>()
  #isWhole = false

  /** `isWhole`: a directory that was listed, for example, and is a rule as it is. */
  add(file: string, isWhole: boolean): void {
    let at: Tree = this
    for (const name of names(file)) {
      const next = at.#children.get(name) ?? new Tree()
      at.#children.set(name, next)
      at = next
    }
    at.#isWhole ||= isWhole
  }

  /** The rules, sorted. With fewer entries for each directory where there would be too many rules. */
  rules(isWide: (directory: string) => boolean): LearnedTree[] {
    for (let most = MOST_ENTRIES; ; most = Math.floor(most / 2)) {
      const rules = this.#rules('/', most, isWide)
      if (rules.length < MOST_RULES || most === 0) return rules.sort((a, b) => (a.path < b.path ? -1 : 1))
    }
  }

  #rules(own: string, most: number, isWide: (directory: string) => boolean): LearnedTree[] {
    const isRule = this.#isWhole || this.#children.size > most || this.#children.size === 0
    if (isRule && !isWide(own) && own !== '/') return [{ path: own, files: this.#count() }]
    return [...this.#children].flatMap(([name, child]) => child.#rules(path.join(own, name), most, isWide))
  }

  #count(): number {
    if (this.#children.size === 0) return 1
    let count = 0
    for (const child of this.#children.values()) count += child.#count()
    return count
  }
}
