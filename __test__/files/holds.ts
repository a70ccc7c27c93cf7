/** Waits until a condition holds. */
import { until } from '../helpers/until.js'

export async function holds(condition: () => boolean): Promise<void> {
  await until(
    () => condition() || undefined,
    () => `this does not hold: ${condition}`,
  )
}
