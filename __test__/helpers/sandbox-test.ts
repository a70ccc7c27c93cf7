/** Declares tests that have a sandbox of their own. */
import { it } from 'vitest'
import { type Expectations, type Workplace, withSandbox } from './invariants.js'

/** Declares a test that gets a sandbox with the default engine mode. */
export function itInSandbox(
  name: string,
  test: (workplace: Workplace) => Promise<void>,
  expectations?: Expectations,
): void {
  it(name, () => withSandbox(test, expectations))
}
