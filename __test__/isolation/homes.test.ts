/** `~` in rules, and `..` after links. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { planIsolation } from '../../lib/backends/native/plan/isolation.js'
import { completeRules, presetRules } from '../../lib/schema/isolation-rules.js'

let directory = ''

beforeEach(() => {
  directory = realpathSync(mkdtempSync('/var/tmp/nacre-homes-'))
})

afterEach(() => rmSync(directory, { recursive: true, force: true }))

describe('rules', () => {
  it('hide in each home, and lead to the first', () => {
    const rules = completeRules({ filesystem: { read: ['~/r'], hide: ['~', '~/.ssh', '/x'] } })
    const planned = planIsolation(rules, directory, ['/h1', '/h2'])
    expect(planned.read).toEqual(['/h1/r'])
    expect(planned.hide).toEqual(['/h1', '/h2', '/h1/.ssh', '/h2/.ssh', '/x'])
    const names = completeRules({ filesystem: { hide: ['~user', 'a~', '$HOME'] } })
    const kept = ['~user', 'a~', '$HOME'].map((name) => path.join(directory, name))
    expect(planIsolation(names, directory, ['/h1']).hide).toEqual(kept)
    expect(planIsolation(presetRules('workspace'), directory, ['/h1', '/h2']).hide).toContain('/h2/.ssh')
  })

  it('follow links before dots, as programs do', () => {
    mkdirSync(path.join(directory, 'real/deep'), { recursive: true })
    mkdirSync(path.join(directory, 'real/secret'))
    symlinkSync('real/deep', path.join(directory, 'link'))
    const rules = completeRules({ filesystem: { hide: ['link/../secret', './/link/./..//secret/'] } })
    expect(planIsolation(rules, directory, ['/h']).hide).toEqual([path.join(directory, 'real/secret')])
    const many = completeRules({ filesystem: { hide: ['../../../../../..'] } })
    expect(planIsolation(many, directory, ['/h']).hide).toEqual(['/'])
  })
})

it('a HOME of its own does not show a preset what is in the home of the user', async () => {
  const sandbox = new Sandbox({ cwd: directory, env: { HOME: directory }, isolation: 'workspace' })
  mkdirSync(path.join(directory, '.aws'))
  try {
    // Both are listed as empty or missing; the database has the home of the user, whatever HOME says.
    const home = os.userInfo().homedir
    const { stdout } = await sandbox.exec([
      'sh',
      '-c',
      'cat "$1/.bash_history"; ls -A "$1/.ssh" | wc -l',
      'sh',
      home,
    ])
    expect(stdout).toBe('0\n')
  } finally {
    await sandbox.destroy()
  }
})

async function userHasHome() {
  // The user database has no such number, so HOME is '/'. This process runs as root, whose home is another.
  const sandbox = new Sandbox({
    cwd: '/',
    user: { uid: 23_456, gid: 23_456 },
    isolation: { filesystem: { read: ['~'], write: [], hide: ['~/etc/hostname'] } },
  })
  try {
    const { stdout } = await sandbox.exec('echo "$HOME"; cat /etc/hostname')
    expect(stdout).toBe('/\n')
  } finally {
    await sandbox.destroy()
  }
}

// Only root can run programs as another user.
if (process.getuid?.() === 0) it('a user has a home of their own', userHasHome)
