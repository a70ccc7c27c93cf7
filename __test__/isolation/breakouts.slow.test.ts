/**
 * Nothing of a long list of break-outs works, in each tier: with namespaces and with Landlock alone, as root and as an
 * ordinary user. Without isolation the same attempts do work, so that each of them can fail.
 */
import { spawn } from 'node:child_process'
import { chmodSync, copyFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Attempt, attempts } from './attempts.js'

interface Outcome {
  escaped: boolean
  output: string
  changed?: boolean
  failed?: string
}

interface Tier {
  name: string
  uid?: number
  env: Record<string, string>
}

/** Any number that is no user's. */
const ORDINARY_USER = 23_456

const isRoot = process.getuid?.() === 0
const tiers: Tier[] = [
  { name: 'namespaces', env: {} },
  { name: 'Landlock alone', env: { NACRE_ISOLATION: 'landlock' } },
  ...(isRoot
    ? [
        { name: 'user namespaces, as an ordinary user', uid: ORDINARY_USER, env: {} },
        {
          name: 'Landlock alone, as an ordinary user',
          uid: ORDINARY_USER,
          env: { NACRE_ISOLATION: 'landlock' },
        },
      ]
    : []),
]

/** What Landlock cannot take away below a writable directory, or does not cover: `capabilities()` says so. */
const inTier = (tier: Tier) => (attempt: Attempt) =>
  attempt.needs !== 'mounts' || tier.env.NACRE_ISOLATION === undefined

const root = path.dirname(path.dirname(__dirname))
let copy = ''

beforeAll(() => {
  // An ordinary user may not be able to read the repository or the runtime.
  copy = mkdtempSync('/var/tmp/nacre-copy-')
  chmodSync(copy, 0o755)
  for (const name of ['dist', 'native', 'package.json'])
    cpSync(path.join(root, name), path.join(copy, name), { recursive: true })
  for (const name of ['runner.mjs', 'servers.pl'])
    copyFileSync(path.join(__dirname, name), path.join(copy, name))
  copyFileSync(process.execPath, path.join(copy, path.basename(process.execPath)))
})

afterAll(() => rmSync(copy, { recursive: true, force: true }))

function rules(tier: Tier): object {
  const isLandlock = tier.env.NACRE_ISOLATION !== undefined
  return {
    filesystem: { write: ['.'], ...(!isLandlock && { protect: ['.git/hooks'] }) },
    network: 'none',
    processes: 'own',
  }
}

/** Makes attempts in a process of the tier's user. */
function run(tier: Tier, list: Attempt[], isolation: object | undefined): Promise<Record<string, Outcome>> {
  const args = [
    path.join(copy, 'runner.mjs'),
    path.join(copy, 'dist/index.js'),
    JSON.stringify({ attempts: list, isolation }),
  ]
  const child = spawn(path.join(copy, path.basename(process.execPath)), args, {
    env: { ...process.env, ...tier.env, HOME: '/var/tmp', NACRE_NATIVE: process.env.NACRE_NATIVE },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(tier.uid !== undefined && { uid: tier.uid, gid: tier.uid }),
  })
  let text = ''
  let errors = ''
  child.stdout.setEncoding('utf8').on('data', (data) => {
    text += data
  })
  child.stderr.setEncoding('utf8').on('data', (data) => {
    errors += data
  })
  return new Promise((resolve, reject) => {
    child.on('close', (code) => {
      if (code === 0) resolve(JSON.parse(text))
      else reject(new Error(`the runner ended with ${code}: ${errors}`))
    })
  })
}

describe('break-outs', () => {
  it('are at least a hundred', () => {
    expect(attempts.length).toBeGreaterThanOrEqual(100)
    expect(new Set(attempts.map(({ name }) => name)).size).toBe(attempts.length)
  })

  it('work without isolation', async () => {
    const tier = { name: '', env: {}, ...(isRoot && { uid: ORDINARY_USER }) }
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
