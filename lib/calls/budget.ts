/** Budgets of commands, sessions and sandboxes. */

import { mapped, object } from '../schema/constructors.js'
import { type Kind, table } from '../schema/kind.js'
import { positiveMilliseconds } from '../schema/numbers.js'

/** What a command, a session or a sandbox may use in all, from its beginning to its end. */
export interface Budget {
  /**
   * Milliseconds of processor time, of all processors together, more than 0 and up to 2147483647: of a command, everything that it has started; of
   * a session, everything that runs in it, background processes too. Without control groups, it is counted in steps of 10 ms.
   * Default: no limit.
   */
  cpuMs?: number
}

export const budgetOptions = table<Budget>()({
  cpuMs: positiveMilliseconds,
})

/** A budget, or undefined when it limits nothing. */
export const budget: Kind<Budget, Budget | undefined> = mapped(
  object(budgetOptions, [], 'an object with the budget'),
  (budget) => (Object.keys(budget).length > 0 ? budget : undefined),
)
