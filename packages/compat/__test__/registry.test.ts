import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withRandom } from '../../../__test__/helpers/random.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { dueOf, newRecord } from '../lib/e2b/record.js'
import { Registry } from '../lib/registry.js'
import { checkRegistry } from './registry-model.js'
import { daytona, e2b } from './registry-times.js'

describe('a sandbox ends or pauses by its own time or by a call only', () => {
  it('for E2B', () => withRandom((random) => checkRegistry(e2b, random, 3000)))
  it('for Daytona', () => withRandom((random) => checkRegistry(daytona, random, 3000)))
})

it('a server has at most 1000 sandboxes, with those that are paused, and files of no other ones', async () => {
  const base = temporary('nacre-registry-')
  const [sandboxes, records] = [path.join(base, 'sandboxes'), path.join(base, 'records')]
  const given = { template: 'base', metadata: {}, env: {}, network: 'host' as const }
  const record = () => newRecord(60_000, { ...given, pausesOnTimeout: false, keepsMemory: false })
  for (const directory of [sandboxes, records]) mkdirSync(directory)
  const all = Array.from({ length: 1000 }, record)
  for (const one of all) {
    mkdirSync(path.join(sandboxes, one.id))
    writeFileSync(path.join(records, `${one.id}.json`), JSON.stringify(one))
  }
  for (const left of ['ileft.nacre', '.ileft.nacre.1.new', 'ileft.json', 'ileft.json.new'])
    writeFileSync(path.join(records, left), '')
  const registry = new Registry({
    place: {
      ...{ sandboxes, records, home: '/home/user', user: 'user', isMounted: false },
      open: async ({ view }) => new Sandbox({ cwd: view.home }),
    },
    ...{ maxRunning: 20, logger: undefined, isKept: false, due: dueOf },
  })
  await registry.load()
  expect(readdirSync(records).sort()).toEqual(all.map(({ id }) => `${id}.json`).sort())
  await expect(registry.create(record())).rejects.toThrow('keeps 1000 sandboxes')
  expect(readdirSync(sandboxes)).toHaveLength(1000)
  for (const hosted of registry.list().slice(0, 1)) await registry.remove(hosted)
  await registry.create(record())
  await registry.close()
  expect(registry.list()).toHaveLength(999)
})
