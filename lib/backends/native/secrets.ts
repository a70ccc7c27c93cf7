/** The values that the programs of a sandbox use but never see. */

import { type Hidden, hide } from '../../base/hidden.js'
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

/** The placeholder of each value; of the first, if there are several. */
export function placeholdersOf(
  secrets: readonly Pick<NativeSecret, 'value' | 'placeholder'>[],
): Map<string, string> {
  // A function tells its value later.
  const known = secrets.filter(({ value }) => value !== '')
  return new Map(known.toReversed().map(({ value, placeholder }) => [value, placeholder]))
}

export class KnownSecrets implements Hidden {
  readonly #placeholders: Map<string, string>

  constructor(placeholders: ReadonlyMap<string, string> = new Map()) {
    this.#placeholders = new Map(placeholders)
    if (this.#placeholders.size > 0) hide(this)
  }

  get placeholders(): ReadonlyMap<string, string> {
    return this.#placeholders
  }

  /** Keeps secrets as long as the sandbox: a rollback may bring their session back. */
  add(secrets: readonly Pick<NativeSecret, 'value' | 'placeholder'>[] = []): void {
    for (const [value, placeholder] of placeholdersOf(secrets))
      if (!this.#placeholders.has(value)) this.#placeholders.set(value, placeholder)
    if (secrets.length > 0) hide(this)
  }

  /** For a fork, which goes on with the same sessions. */
  copy(): KnownSecrets {
    return new KnownSecrets(this.#placeholders)
  }

  /** The same variables with placeholders in place of values. */
  coverEnv<T extends EnvLists | undefined>(env: T): T {
    if (env === undefined || this.#placeholders.size === 0) return env
    return { ...env, values: covered(env.values, this.#placeholders) }
  }
}
