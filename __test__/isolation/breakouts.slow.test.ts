/**
 * Nothing of a long list of break-outs works, in sessions and in durable jobs, in each tier: with namespaces and with
 * Landlock alone, as root and as an ordinary user. Without isolation the same attempts do work, so that each of them can fail.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Attempt, attempts } from './attempts/index.js'
import { isRoot, ORDINARY_USER, Programs, type Tier, tiers } from './tiers.js'

interface Outcome {
  escaped: boolean
  output: string
  changed?: boolean
  failed?: string
}

/** What Landlock cannot take away below a writable directory, or does not cover: `capabilities()` says so. */
const inTier = (tier: Tier) => (attempt: Attempt) => attempt.needs !== 'mounts' || tier.hasMounts

/** The shell of a job is part of the command: it has no channel, and later commands have shells of their own. */
const places = [
  { by: 'session', title: 'in a session', fits: () => true },
  { by: 'job', title: 'in a durable job', fits: (attempt: Attempt) => !attempt.onlyInSessions },
]

let programs: Programs

beforeAll(() => {
  programs = new Programs('runner.mjs', 'servers.pl')
})

afterAll(() => programs.remove())

const rules = (tier: Tier) => ({
  filesystem: { write: ['.'], ...(tier.hasMounts && { protect: ['.git/hooks', '.git/config'] }) },
  network: 'none',
  processes: 'own',
})

/** Makes attempts in a process of the tier's user. */
const run = (tier: Tier, list: Attempt[], isolation: object | undefined, by: string) =>
  programs.run<Record<string, Outcome>>(tier, 'runner.mjs', {
    attempts: list,
    isolation,
    by,
    hasMounts: tier.hasMounts,
  })

describe('break-outs', () => {
  it('are at least a hundred', () => {
    expect(attempts.length).toBeGreaterThanOrEqual(100)
    expect(new Set(attempts.map(({ name }) => name)).size).toBe(attempts.length)
  })

  it('work without isolation', async () => {
    const tier = { name: '', hasMounts: true, ...(isRoot && { uid: ORDINARY_USER }) }
    const list = attempts.filter(({ works }) => works)
    const outcomes = await run(tier, list, undefined, 'session')
    const harmless = list.filter(({ name }) => !outcomes[name]?.escaped)
    expect(harmless.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
  }, 120_000)

  for (const tier of tiers) {
    for (const { by, title, fits } of places) {
      it(`fail with ${tier.name}, ${title}`, async () => {
        const list = attempts.filter(inTier(tier)).filter(fits)
        const outcomes = await run(tier, list, rules(tier), by)
        const bad = list.filter(({ name }) => outcomes[name]?.escaped !== false || outcomes[name]?.failed)
        expect(bad.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
      }, 120_000)
    }
  }
})
