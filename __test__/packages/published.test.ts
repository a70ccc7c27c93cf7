/** What only a release build has: its size, and a native part that runs on old systems. */
import { statSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { VERSION } from '../../lib/addon/platforms.js'
import { compareVersions, readElf } from '../../scripts/packages/elf.mjs'
import { GLIBC_FLOOR, hostTarget } from '../../scripts/packages/targets.mjs'

const built = path.join(path.dirname(path.dirname(__dirname)), 'target/packages')
const target = hostTarget()

it('the packages have at most 600 kB and 2.5 MB', () => {
  const size = (name: string) => statSync(path.join(built, `${name}-${VERSION}.tgz`)).size
  const [main, platform] = [size('nacre'), size(`nacre-${target}`)]
  console.log(`the packages have ${main} and ${platform} bytes`)
  expect(main).toBeLessThanOrEqual(600_000)
  expect(platform).toBeLessThanOrEqual(2_500_000)
})

it(`the addon needs no glibc above ${GLIBC_FLOOR}`, () => {
  const { glibc, isStripped } = readElf(path.join(built, 'staged', target, 'nacre.node'))
  expect(glibc).toBeDefined()
  expect(compareVersions(glibc, GLIBC_FLOOR)).toBeLessThanOrEqual(0)
  expect(isStripped).toBe(true)
})
