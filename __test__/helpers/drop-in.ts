/** A drop-in session for a test: created, destroyed, and checked to have left nothing behind. */
import type { SessionOptions } from 'nacre/container'
import { it } from 'vitest'
import { Session } from './container.js'
import { type Expectations, type Workplace, withSandbox } from './invariants.js'

export interface DropIn extends Workplace {
  session: Session
}

/** Runs a test with a session that is ready, and checks the invariants afterwards. */
export function withSession(
  test: (place: DropIn) => Promise<void>,
  options: Partial<SessionOptions> = {},
  expectations: Expectations = {},
): Promise<void> {
  return withSandbox(async (workplace) => {
    const session = newSession(workplace, options)
    try {
      await session.initialize()
      await test({ ...workplace, session })
    } finally {
      await session.destroy()
    }
  }, expectations)
}

/** Declares a test that gets a session that is ready. */
export function itInSession(
  name: string,
  test: (place: DropIn) => Promise<void>,
  options?: Partial<SessionOptions>,
): void {
  it(name, () => withSession(test, options))
}

/** A session before `initialize`; everything it starts carries the tag of the test. */
export function newSession(
  { tag, directory }: Workplace,
  { env, ...options }: Partial<SessionOptions> = {},
): Session {
  return new Session({ id: 'drop-in', cwd: directory, ...options, env: { NACRE_TEST_TAG: tag, ...env } })
}
