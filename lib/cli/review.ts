/** Hunk by hunk, as in `git add -p`: what becomes real, and what is taken back. */
import type { HunkChoice, Review, ReviewedChange, Sandbox } from '../calls/index.js'
import { commitChanges, counted, printPatch } from './changes.js'
import { choose, colorsOf, note, printable, printLine } from './terminal.js'

/** The groups, in the order in which they are asked about. */
const GROUPS = {
  runsLater: 'runs later on this machine',
  source: 'source',
  binary: 'binary',
  large: 'large',
  generated: 'generated',
} as const

type Group = keyof typeof GROUPS

/** What is wanted of the changes so far. */
interface Wanted {
  paths: Uint8Array[]
  hunks: HunkChoice[]
}

type Answer = 'y' | 'n'

/** Generated changes that are listed. */
const MOST_SHOWN = 20

/** How many changes each group has, on one line; nothing if all are sources. */
export async function printGroups(review: Review): Promise<void> {
  const counts = (Object.keys(GROUPS) as Group[]).filter((group) => review[group].length > 0)
  if (counts.every((group) => group === 'source')) return
  note(counts.map((group) => `${review[group].length} ${GROUPS[group]}`).join(', '))
}

/**
 * Asks about each hunk, and about each other change as a whole; about generated ones at once. Then commits what is wanted and
 * takes back what is not. What is left out stays as it is.
 */
export async function reviewChanges(sandbox: Sandbox): Promise<void> {
  const review = await sandbox.workspace.review()
  const taken: Wanted = { paths: [], hunks: [] }
  const refused: Wanted = { paths: [], hunks: [] }
  const all: ReviewedChange[] = Object.values(review).flat()
  const parents = new Set<string>()
  for (const { path } of all) for (const above of parentsOf(path)) parents.add(above)
  for (const group of Object.keys(GROUPS) as Group[]) {
    // The answer for a directory would hold for everything below it, which is asked about.
    const asked = review[group].filter(({ kind, path }) => kind !== 'directory' || !parents.has(path))
    const goesOn =
      group === 'generated'
        ? await askAboutAll(asked, taken, refused)
        : await askAbout(asked, GROUPS[group], taken, refused)
    if (!goesOn) break
  }
  settleDirectories(all, taken, refused)
  // A commit moves the hunks that follow in the same file, a discard does not.
  if (isAny(refused)) {
    const { discarded } = await sandbox.workspace.discard(given(refused))
    note(`discarded ${counted(discarded)}`)
  }
  if (isAny(taken)) await commitChanges(sandbox, given(taken))
}

/** False to ask no more. */
async function askAbout(
  changes: ReviewedChange[],
  group: string,
  taken: Wanted,
  refused: Wanted,
): Promise<boolean> {
  const { bold, yellow } = colorsOf(process.stdout)
  for (const change of changes) {
    const { type, path, pathBytes, reason, hunks, added, removed } = change
    const details = [group, ...(reason === undefined ? [] : [reason])].join(': ')
    await printLine(bold(`${type} ${printable(path)}`) + yellow(` (${details}; +${added} -${removed})`))
    let rest: Answer | undefined
    // A new or deleted file is its only hunk.
    const parts = hunks.length === 0 || type === 'created' || type === 'deleted' ? [undefined] : hunks
    for (const [number, hunk] of parts.entries()) {
      const shown = hunk ?? hunks[0]
      if (shown !== undefined && rest === undefined) await printPatch(shown.text)
      const name = hunk === undefined ? 'this change' : `hunk ${number + 1} of ${hunks.length}`
      const answer = rest ?? (await choose({ ...KEYS, y: `commit ${name}`, n: 'take it back' }))
      if (answer === undefined || answer === 'q') return false
      if (answer === 's') continue
      if (answer === 'a' || answer === 'd') rest = answer === 'a' ? 'y' : 'n'
      const wanted = (rest ?? answer) === 'y' ? taken : refused
      const last = wanted.hunks.at(-1)
      if (hunk === undefined) wanted.paths.push(pathBytes)
      else if (last?.path === pathBytes) last.ids.push(hunk.id)
      else wanted.hunks.push({ path: pathBytes, ids: [hunk.id] })
    }
  }
  return true
}

const KEYS = {
  y: 'commit it',
  n: 'take it back',
  s: 'leave it for later',
  a: 'commit the rest of the file',
  d: 'take the rest of it back',
  q: 'stop asking',
}

async function askAboutAll(changes: ReviewedChange[], taken: Wanted, refused: Wanted): Promise<boolean> {
  if (changes.length === 0) return true
  for (const { type, path, reason } of changes.slice(0, MOST_SHOWN))
    await printLine(`${type} ${printable(path)} (${reason})`)
  if (changes.length > MOST_SHOWN) await printLine(`and ${changes.length - MOST_SHOWN} more`)
  const { y, n, s, q } = KEYS
  const choices = { y: `${y}: ${changes.length} generated`, n, s, q }
  const answer = await choose(choices)
  const wanted = answer === 'y' ? taken : answer === 'n' ? refused : undefined
  for (const { pathBytes } of changes) wanted?.paths.push(pathBytes)
  return answer !== undefined && answer !== 'q'
}

/** A new directory of which everything is taken back goes, too, and a deleted one of which everything is committed. */
function settleDirectories(changes: ReviewedChange[], taken: Wanted, refused: Wanted): void {
  for (const [type, { paths }] of [['created', refused] as const, ['deleted', taken] as const]) {
    const decided = new Set(paths.map(keyOf))
    // Which directories have something below that stays as it is.
    const kept = new Set<string>()
    for (const { kind, path, pathBytes } of changes)
      if (kind !== 'directory' && !decided.has(keyOf(pathBytes)))
        for (const above of parentsOf(path)) kept.add(above)
    const used = new Set<string>()
    for (const { path, pathBytes } of changes)
      if (decided.has(keyOf(pathBytes))) for (const above of parentsOf(path)) used.add(above)
    for (const { kind, path, pathBytes, type: own } of changes)
      if (kind === 'directory' && own === type && used.has(path) && !kept.has(path)) paths.push(pathBytes)
  }
}

/** The directories above a path. */
function parentsOf(path: string): string[] {
  const names = path.split('/').slice(0, -1)
  return names.map((_, at) => names.slice(0, at + 1).join('/'))
}

const keyOf = (path: Uint8Array) => Buffer.from(path).toString('latin1')

const isAny = ({ paths, hunks }: Wanted) => paths.length + hunks.length > 0

const given = ({ paths, hunks }: Wanted) => ({
  ...(paths.length > 0 && { paths }),
  ...(hunks.length > 0 && { hunks }),
})
