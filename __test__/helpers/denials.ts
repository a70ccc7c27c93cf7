/** What results and events say of what was refused. */
import { expect } from 'vitest'

/** A connection to a host that no list has. `program`: what ran in the process that wanted it. */
export function refusedConnection(target: string, program: string): object {
  const option = 'isolation.network.allow'
  const caller = {
    program: expect.stringMatching(new RegExp(`/${program}$`)),
    pid: expect.any(Number),
    command: expect.stringContaining(program),
  }
  return { kind: 'network', target, rule: option, fix: { option, add: target }, ...caller }
}
