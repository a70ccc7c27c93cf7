/** What results and events say of what was refused. */
import type { Denial } from 'nacre'

/** A connection to a host that no list has. */
export function refusedConnection(target: string): Denial {
  const option = 'isolation.network.allow'
  return { kind: 'network', target, rule: option, fix: { option, add: target } }
}
