/**
 * Nothing of a long list of break-outs works, in each tier: with namespaces and with Landlock alone, as root and as an
 * ordinary user. Without isolation the same attempts do work, so that each of them can fail.
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
const run = (tier: Tier, list: Attempt[], isolation: object | undefined) =>
  programs.run<Record<string, Outcome>>(tier, 'runner.mjs', { attempts: list, isolation })

describe('break-outs', () => {
  it('are at least a hundred', () => {
    expect(attempts.length).toBeGreaterThanOrEqual(100)
    expect(new Set(attempts.map(({ name }) => name)).size).toBe(attempts.length)
  })

  it('work without isolation', async () => {
    const tier = { name: '', hasMounts: true, ...(isRoot && { uid: ORDINARY_USER }) }
    const list = attempts.filter(({ works }) => works)
    const outcomes = await run(tier, list, undefined)
    const harmless = list.filter(({ name }) => !outcomes[name]?.escaped)
    expect(harmless.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
  }, 120_000)

  for (const tier of tiers) {
    it(`fail with ${tier.name}`, async () => {
      const list = attempts.filter(inTier(tier))
      const outcomes = await run(tier, list, rules(tier))
      const bad = list.filter(({ name }) => outcomes[name]?.escaped !== false || outcomes[name]?.failed)
      expect(bad.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
    }, 120_000)
  }
})
