/**
 * Merges the environment changes of a job over those of its backend.
 */

import type { kinds } from 'nacre/internal'
/** Names and values, each name once; null unsets. */
export function mergedEnv(...lists: Array<kinds.EnvLists | undefined>): Array<[string, string | null]> {
  const merged = new Map<string, string | null>()
  for (const list of lists) {
    for (const [index, name] of (list?.names ?? []).entries()) merged.set(name, list?.values[index] ?? null)
  }
  return [...merged]
}
