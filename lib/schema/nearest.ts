/**
 * The name that a misspelt one probably means.
 */

/** A longer text is no name; this also bounds the work. */
const MOST_CHARACTERS = 64
/** A shorter common beginning means little. */
const LEAST_PREFIX = 3

/** What other libraries, or the options and flags around it, call an option. */
const SYNONYMS = new Map([
  ['allow', ['network']],
  ['ask', ['network']],
  ['cmd', ['command']],
  ['columns', ['cols']],
  ['copyonwrite', ['workspace', 'mode']],
  ['cpu', ['budget', 'cpuMs']],
  ['deny', ['network']],
  ['directory', ['cwd']],
  ['memory', ['limits']],
  ['name', ['processName', 'processId']],
  ['network', ['isolation']],
  ['maxoutput', ['outputLimit']],
  ['reject', ['check']],
  ['stdin', ['input']],
  ['workdir', ['cwd']],
  ['workingdirectory', ['cwd']],
])

/** Options that callers look for at the wrong call, and where they are. */
const PLACES = new Map([
  ['budget', 'new Sandbox, createSession or exec'],
  ['healthCheck', 'startService'],
  ['isolation', 'new Sandbox or createSession'],
  ['limits', 'new Sandbox, startProcess or jobs.start'],
  ['port', 'healthCheck of startService'],
  ['restart', 'startService'],
  ['shell', 'new Sandbox'],
  ['stateDir', 'new Sandbox'],
  ['token', 'new SandboxClient or serve'],
  ['undoSteps', 'workspace of new Sandbox'],
  ['url', 'new SandboxClient'],
  ['user', 'new Sandbox'],
  ['workspace', 'new Sandbox'],
])

/** The call that has an option of this name. */
export function placeOf(name: string): string | undefined {
  return PLACES.get(name)
}

/**
 * The nearest of the known names, without regard to case: one that another library calls so, that begins like the given
 * name, or that differs from it in at most a third of its characters. Undefined if none is near.
 */
export function nearestName(given: string, known: readonly string[]): string | undefined {
  if (given.length > MOST_CHARACTERS) return undefined
  const word = given.toLowerCase()
  const meant = SYNONYMS.get(word)?.find((name) => known.includes(name))
  if (meant !== undefined) return meant
  let [nearest, least] = [undefined as string | undefined, Number.POSITIVE_INFINITY]
  for (const name of known) {
    const distance = distanceOf(word, name.toLowerCase())
    if (distance < least) [nearest, least] = [name, distance]
  }
  return nearest
}

/** The number of edits, infinite for words that are not near. A common beginning counts as one edit. */
function distanceOf(a: string, b: string): number {
  const [short, long] = a.length < b.length ? [a, b] : [b, a]
  if (short.length >= LEAST_PREFIX && long.startsWith(short)) return Math.min(1, long.length - short.length)
  const edits = editsBetween(a, b)
  return edits <= long.length / 3 ? edits : Number.POSITIVE_INFINITY
}

/** The Levenshtein distance, where two neighbours in the wrong order are one edit. */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  let before: number[] = []
  for (const [at, letter] of a.split('').entries()) {
    const next = [at + 1]
    for (let index = 0; index < b.length; index++) {
      const replaced = (row[index] ?? 0) + (letter === b[index] ? 0 : 1)
      const areSwapped = index > 0 && letter === b[index - 1] && a[at - 1] === b[index]
      const swapped = areSwapped ? (before[index - 1] ?? 0) + 1 : replaced
      next.push(Math.min(replaced, swapped, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[b.length] ?? 0
}
