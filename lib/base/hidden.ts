/** The secrets of the sandboxes in this program, for what hides them in replies and recordings. */

/** Values that must be hidden, each with the placeholder that programs see. */
export interface Hidden {
  readonly placeholders: ReadonlyMap<string, string>
}

/** Weak: their values last as long as the sandboxes. */
const all = new Set<WeakRef<Hidden>>()
const known = new WeakSet<Hidden>()
const collected = new FinalizationRegistry<WeakRef<Hidden>>((reference) => all.delete(reference))
let changes = 0

/** Counts what has been added. */
export function hiddenChanges(): number {
  return changes
}

/** Adds values that this object has or gets. Call it after each change. */
export function hide(hidden: Hidden): void {
  changes++
  if (known.has(hidden)) return
  known.add(hidden)
  const reference = new WeakRef(hidden)
  all.add(reference)
  collected.register(hidden, reference)
}

/** All pairs of a value and its placeholder. */
export function hiddenPairs(): [value: string, placeholder: string][] {
  return [...all].flatMap((reference) => [...(reference.deref()?.placeholders ?? [])])
}
