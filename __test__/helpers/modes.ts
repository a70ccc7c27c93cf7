/** The engine modes that are possible on one machine. Each must give the same results. */
import { it } from 'vitest'
import { type Expectations, type Workplace, withSandbox } from './invariants.js'

/** Changes to this process's environment while a sandbox is constructed. */
export interface Mode {
  name: string
  env: Record<string, string>
}

const all: Mode[] = [
  { name: 'by default', env: {} },
  { name: 'without control groups', env: { NACRE_CONTAINMENT: 'subreaper' } },
]

/** Each command runs in its own bash, as if bash could not load the builtin. */
export const plain: Mode[] = [
  { name: 'plain', env: { NACRE_ENGINE: 'plain' } },
  { name: 'plain without control groups', env: { NACRE_ENGINE: 'plain', NACRE_CONTAINMENT: 'subreaper' } },
]

/** The switch for pidfds is read once per process, so tests without pidfds run in separate processes. */
export const withoutPidfds = process.env.NACRE_PIDFD === 'off'

export const modes: Mode[] = withoutPidfds ? [{ name: 'without pidfds', env: {} }] : all

/** Whether this is a slow project instead of `npm test`. */
export const isRest = process.env.NACRE_TEST_REST !== undefined

/**
 * The modes that tables and slow files run in now: the first in `npm test`, the others in the slow projects
 * (scripts/test/projects.mjs). Other tests run in all of `modes`.
 */
export const chosenModes: Mode[] = isRest && modes.length > 1 ? modes.slice(1) : modes.slice(0, 1)

/** Sets the variables of a mode; returns a function that restores them. */
export function enter({ env }: Mode): () => void {
  const before = Object.keys(env).map((name) => [name, process.env[name]] as const)
  Object.assign(process.env, env)
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
}

/** A sandbox in a mode, with the invariants checked after the test. */
export async function withSandboxIn(
  mode: Mode,
  test: (workplace: Workplace) => Promise<void>,
  expectations?: Expectations,
): Promise<void> {
  const leave = enter(mode)
  try {
    await withSandbox((workplace) => {
      leave()
      return test(workplace)
    }, expectations)
  } finally {
    leave()
  }
}

/** Declares a test that gets a sandbox, once for each mode. */
export function itInEveryMode(
  name: string,
  test: (workplace: Workplace) => Promise<void>,
  expectations?: Expectations,
): void {
  for (const mode of modes) {
    it(`${name}, ${mode.name}`, () => withSandboxIn(mode, test, expectations))
  }
}
