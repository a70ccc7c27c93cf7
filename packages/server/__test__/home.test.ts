/** The home directory of commands in a container: never one that the machine has, too. */
import { mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { isShared } from '../lib/home.js'

it.each<[string, string[], boolean]>([
  ['/home/user', ['/srv/project', '/home/username'], false],
  ['/root', ['/srv/project'], false],
  ['/home/user', ['/home/user/project'], true],
  ['/home/user', ['/srv/project', '/home/user/cache'], true],
  ['/home/user', ['/home/user'], true],
  ['/app/home', ['/app'], true],
  ['/', ['/srv/project'], true],
  ['', ['/srv/project'], true],
  ['/', [], true],
])('%s with %j is the machine’s: %s', (home, places, expected) => {
  expect(isShared(home, places)).toBe(expected)
})

it('looks at what a link leads to', () => {
  const place = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-home-')))
  try {
    symlinkSync('/usr/share', path.join(place, 'home'))
    expect(isShared(path.join(place, 'home'), ['/usr/share/project'])).toBe(true)
  } finally {
    rmSync(place, { recursive: true })
  }
})
