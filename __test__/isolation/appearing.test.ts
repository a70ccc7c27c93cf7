/** A secret that appears while a session lives is hidden, in each tier. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withoutInotify } from '../helpers/namespaces.js'
import { temporary } from '../helpers/temporary.js'
import { holds } from '../helpers/until.js'
import { BUILT } from './run-in-tier.js'

const SECRETS = ['.pgpass', '.ssh/id', '.config/gh/hosts.yml', '.m2/settings.xml', '.cargo/credentials.toml']

/** A home with directories that have no secrets yet, and a project. Not in /tmp, of which a session has its own. */
function homeAndProject(): { home: string; cwd: string } {
  const directory = temporary('nacre-appearing-', '/var/tmp')
  for (const name of ['real/.config', 'project']) mkdirSync(path.join(directory, name), { recursive: true })
  // The rules have its name without links, also for what is below a missing directory.
  symlinkSync('real', path.join(directory, 'home'))
  return { home: path.join(directory, 'home'), cwd: path.join(directory, 'project') }
}

/** What commands print before and after each secret appears, in a program of its own. */
function printed(tier: string, words: string[] = []): string[] {
  const { home, cwd } = homeAndProject()
  const program = `
    const { Sandbox } = await import(${JSON.stringify(BUILT)})
    const { mkdirSync, renameSync, rmSync, writeFileSync } = await import('node:fs')
    const { dirname } = await import('node:path')
    const [home, cwd] = ${JSON.stringify([home, cwd])}
    const files = ${JSON.stringify(SECRETS)}.map((name) => home + '/' + name)
    const sandbox = new Sandbox({ cwd, env: { HOME: home }, isolation: { filesystem: { write: ['.'] } } })
    const show = async () => console.log(JSON.stringify((await sandbox.exec('cat ' + files.join(' ') + ' 2>/dev/null; true')).stdout))
    const write = (file) => {
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, 'secret')
    }
    await show()
    for (const file of files) {
      write(file)
      await show()
    }
    // Again, when they were gone.
    for (const name of ['.ssh', '.pgpass', '.config', '.m2']) {
      rmSync(home + '/' + name, { recursive: true })
      await show()
    }
    for (const file of files) {
      write(file)
      await show()
    }
    // Moved there.
    for (const name of ['.aws', '.npmrc', '.gnupg']) {
      write(home + '/new/' + name + (name === '.npmrc' ? '' : '/key'))
      renameSync(home + '/new/' + name, home + '/' + name)
      files.push(home + '/' + name, home + '/' + name + '/key')
      await show()
    }
    await sandbox.destroy()`
  const [first = '', ...rest] = [...words, process.execPath, '--input-type=module', '-e', program]
  const env = { ...process.env, NACRE_ISOLATION: tier }
  return execFileSync(first, rest, { cwd, encoding: 'utf8', env }).trim().split('\n')
}

describe('a secret that appears while a session lives', () => {
  it.each(['', 'landlock'])('is hidden with NACRE_ISOLATION=%s', (tier) => {
    expect(printed(tier)).toEqual(Array(18).fill('""'))
  })

  it('is hidden if the machine has no instance of inotify left', () => {
    expect(printed('', withoutInotify)).toEqual(Array(18).fill('""'))
  })

  it('is hidden from what runs', async () => {
    const { home, cwd } = homeAndProject()
    await using sandbox = new Sandbox({ cwd, env: { HOME: home }, isolation: 'workspace' })
    const running = await sandbox.startProcess(
      'until [ -e go ]; do touch waits; sleep 0.01; done; ls -A ~/.ssh; cat ~/.ssh/id ~/.pgpass; true',
    )
    await holds(() => existsSync(path.join(cwd, 'waits')))
    mkdirSync(path.join(home, '.ssh'))
    writeFileSync(path.join(home, '.ssh/id'), 'secret')
    writeFileSync(path.join(home, '.pgpass'), 'secret')
    // Each call waits until it is hidden from all.
    await sandbox.exec(':')
    writeFileSync(path.join(cwd, 'go'), '')
    await running.waitForExit()
    expect((await running.getLogs()).stdout).toBe('')
  })

  it('is hidden when it is a link', async () => {
    const { home, cwd } = homeAndProject()
    await using sandbox = new Sandbox({ cwd, env: { HOME: home }, isolation: 'workspace' })
    await sandbox.exec('x=1')
    mkdirSync(path.join(home, 'dotfiles'))
    writeFileSync(path.join(home, 'dotfiles/pgpass'), 'secret')
    symlinkSync('dotfiles/pgpass', path.join(home, '.pgpass'))
    const { stdout } = await sandbox.exec('echo $x; cat ~/.pgpass')
    expect(stdout).toBe('1\n')
  })

  it('can be read where programs of the session could have made it', async () => {
    const { cwd } = homeAndProject()
    await using sandbox = new Sandbox({ cwd, env: { HOME: cwd }, isolation: 'workspace' })
    expect((await sandbox.exec('echo mine >~/.pgpass; cat ~/.pgpass')).stdout).toBe('mine\n')
    expect((await sandbox.exec('cat ~/.pgpass')).stdout).toBe('mine\n')
  })

  it('is hidden in a project that is moved away and made again', async () => {
    const { home, cwd } = homeAndProject()
    const hide = [path.join(home, 'keys')]
    await using sandbox = new Sandbox({ cwd, isolation: { filesystem: { write: ['.'], hide } } })
    await sandbox.exec(':')
    renameSync(path.join(path.dirname(home), 'real'), path.join(path.dirname(home), 'other'))
    mkdirSync(path.join(path.dirname(home), 'real'))
    writeFileSync(path.join(home, 'keys'), 'secret')
    expect((await sandbox.exec(`cat ${home}/keys`)).stdout).toBe('')
  })
})
