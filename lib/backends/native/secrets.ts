/** The values that the programs of a sandbox use but never see. */

import type { Hidden } from '../../base/redact.js'
import type { NativeSecret } from '../../boundary/index.js'
import type { EnvLists } from '../../schema/env.js'

/** Replaces the values of secrets in the values of variables. */
export function covered<T extends string | null>(
  values: T[],
  placeholders: ReadonlyMap<string, string>,
): T[] {
  // A longer one may contain another.
  const pairs = [...placeholders].sort(([left], [right]) => right.length - left.length)
  const cover = (text: string) =>
    pairs.reduce((result, [value, other]) => result.replaceAll(value, () => other), text)
  return values.map((value) => (typeof value === 'string' ? cover(value) : value) as T)
}

type Placed = Pick<NativeSecret, 'value' | 'placeholder'>

/** The placeholder of each value; of the first, if there are several. */
export function placeholdersOf(secrets: readonly Placed[]): Map<string, string> {
  // A function tells its value later.
  const known = secrets.filter(({ value }) => value !== '')
  return new Map(known.toReversed().map(({ value, placeholder }) => [value, placeholder]))
}

/** Values of sessions, which a client of a server can create in any number. The oldest go first. */
const MOST_VALUES = 500
/** Values that functions gave for one placeholder, as many as the engine masks. */
const MOST_OF_ONE = 4

/** Kept as long as the sandbox: a rollback may bring a session back. */
export class KnownSecrets implements Hidden {
  readonly #own: ReadonlyMap<string, string>
  readonly #later: Map<string, string>
  #placeholders: ReadonlyMap<string, string>
  #changes = 0

  /** `own`: those of the sandbox, which stay. */
  constructor(own: readonly Placed[] = [], later: ReadonlyMap<string, string> = new Map()) {
    this.#own = placeholdersOf(own)
    this.#later = new Map(later)
    this.#placeholders = new Map([...this.#own, ...later])
  }

  get placeholders(): ReadonlyMap<string, string> {
    return this.#placeholders
  }

  get changes(): number {
    return this.#changes
  }

  add(secrets: readonly Placed[] = []): void {
    if (secrets.length === 0) return
    for (const [value, placeholder] of placeholdersOf(secrets)) {
      if (!this.#own.has(value) && !this.#later.has(value)) this.#later.set(value, placeholder)
      const same = [...this.#later].filter(([, one]) => one === placeholder)
      for (const [older] of same.slice(0, -MOST_OF_ONE)) this.#later.delete(older)
    }
    for (const value of [...this.#later.keys()].slice(0, -MOST_VALUES)) this.#later.delete(value)
    this.#placeholders = new Map([...this.#own, ...this.#later])
    this.#changes++
  }

  /** For a fork, which goes on with the same sessions. */
  copy(): KnownSecrets {
    const own = [...this.#own].map(([value, placeholder]) => ({ value, placeholder }))
    return new KnownSecrets(own, this.#later)
  }

  /** The same variables with placeholders in place of values. */
  coverEnv<T extends EnvLists | undefined>(env: T): T {
    if (env === undefined || this.#placeholders.size === 0) return env
    return { ...env, values: covered(env.values, this.#placeholders) }
  }
}
