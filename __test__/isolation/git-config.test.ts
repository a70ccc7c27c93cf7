/** What a session's copy of git's config gives to the machine's at the end of a command, and what it does not. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withClient } from '../contract/helper.js'
import { inWorkspaceOver } from '../helpers/in-workspace.js'

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], { cwd, encoding: 'utf8' })

const config = (directory: string, file = '.git/config') =>
  git('/', 'config', '--no-includes', '--list', '--file', path.join(directory, file)).trim().split('\n')

const inRepository = inWorkspaceOver(
  ({ directory }) => {
    git(directory, 'init', '-q', '-b', 'main')
    git(directory, 'commit', '-q', '--allow-empty', '-m', 'first')
    git(directory, 'init', '-q', '--bare', 'remote.git')
  },
  { isolation: 'workspace', env: { GIT_CONFIG_GLOBAL: '/dev/null' } },
)

/** What is new in the config of the machine after a command. */
const added = async (directory: string, run: () => Promise<unknown>) => {
  const before = config(directory)
  await run()
  return config(directory)
    .filter((line) => !before.includes(line))
    .sort()
}

describe('the config of the machine', () => {
  it(
    'gets remotes and upstreams, and loses them again',
    inRepository(async ({ sandbox, directory }) => {
      const run = (command: string) => () => sandbox.exec(command, { check: true })
      expect(await added(directory, run('git remote add here "$PWD/remote.git"'))).toEqual([
        'remote.here.fetch=+refs/heads/*:refs/remotes/here/*',
        `remote.here.url=${directory}/remote.git`,
      ])
      expect(await added(directory, run('git push -q -u here HEAD:main'))).toEqual([
        'branch.main.merge=refs/heads/main',
        'branch.main.remote=here',
      ])
      expect(await added(directory, run('git switch -q -c x --track main'))).toEqual([
        'branch.x.merge=refs/heads/main',
        'branch.x.remote=.',
      ])
      expect(await added(directory, run('git branch -q --set-upstream-to here/main'))).toEqual([
        'branch.x.remote=here',
      ])
      expect(await added(directory, run('git remote add far git@example.com:x/y.git'))).toEqual([
        'remote.far.fetch=+refs/heads/*:refs/remotes/far/*',
        'remote.far.url=git@example.com:x/y.git',
      ])
      // git of the machine takes turns with that of the session.
      git(directory, 'config', 'user.name', 'mine')
      expect(await added(directory, run('git remote rename far away'))).toEqual([
        'remote.away.fetch=+refs/heads/*:refs/remotes/away/*',
        'remote.away.url=git@example.com:x/y.git',
      ])
    }),
  )

  it(
    'gets submodules',
    inRepository(async ({ sandbox, directory }) => {
      git(directory, 'clone', '-q', '--bare', '.', 'library.git')
      git(
        directory,
        '-c',
        'protocol.file.allow=always',
        'submodule',
        '--quiet',
        'add',
        './library.git',
        'sub',
      )
      git(directory, 'commit', '-q', '-m', 'submodule')
      git(directory, 'submodule', '--quiet', 'deinit', '-f', 'sub')
      rmSync(path.join(directory, '.git/modules'), { recursive: true })
      const update = 'git -c protocol.file.allow=always submodule --quiet update --init'
      expect(await added(directory, () => sandbox.exec(update, { check: true }))).toEqual([
        'submodule.sub.active=true',
        `submodule.sub.url=${directory}/library.git`,
      ])
    }),
  )

  it(
    'keeps out what runs a program, and the result and the events say so, also over HTTP',
    inRepository(async (workplace) => {
      const { sandbox, directory } = workplace
      const before = config(directory)
      const command = `git config core.fsmonitor 'touch ${directory}/ran' && git config remote.x.url 'ext::sh -c x'`
      const { withheld, denials } = await sandbox.exec(command)
      expect([withheld, denials.map(({ kind, target }) => `${kind} ${target}`)]).toEqual([
        ['core.fsmonitor', 'remote.x.url'],
        ['config core.fsmonitor', 'config remote.x.url'],
      ])
      expect((await sandbox.exec('git config core.fsmonitor')).withheld).toBeUndefined()
      expect(config(directory)).toEqual(before)
      await withClient(workplace, async (client) => {
        const seen = await client.exec("git config alias.x '!touch ran' && exit 3")
        expect([seen.withheld, seen.exitCode]).toEqual([['alias.x'], 3])
      })
      const denied: string[] = []
      for await (const event of sandbox.events({ since: 0 })) {
        if (event.type === 'denied') denied.push(`${event.denial.kind} ${event.denial.target}`)
        if (denied.length === 3) break
      }
      expect(denied).toEqual(['config core.fsmonitor', 'config remote.x.url', 'config alias.x'])
    }),
  )

  it(
    'is compared before the results of builtins, too',
    inRepository(async ({ sandbox }) => {
      const withheld = async (command: string) => (await sandbox.exec(command)).withheld
      // From then on, callers do not wait for the session.
      for (let times = 0; times < 20; times++) await sandbox.exec(':')
      for (let times = 0; times < 10; times++) {
        expect(await withheld(`echo "[core] fsmonitor = x${times}" >>.git/config`)).toEqual([
          'core.fsmonitor',
        ])
        expect(await withheld(':')).toBeUndefined()
      }
      const process = await sandbox.startProcess('echo "[alias] x = !y" >>.git/config')
      await process.waitForExit()
      expect(await withheld(':')).toEqual(['alias.x'])
      expect(await withheld(':')).toBeUndefined()
    }),
  )

  it(
    'is compared without changing the order of results',
    inRepository(async ({ sandbox, directory }) => {
      // While git of the machine has the lock, writing takes a moment.
      writeFileSync(path.join(directory, '.git/config.lock'), '')
      for (let times = 0; times < 20; times++) await sandbox.exec(':')
      for (let times = 0; times < 5; times++) {
        const order: string[] = []
        const run = (command: string) => sandbox.exec(command).then(() => order.push(command))
        const ended = (async () => {
          for await (const event of sandbox.events()) if (event.type === 'commandEnded') return
        })()
        const first = run(`git config branch.x.rebase ${times % 2 === 0}`)
        const queued = run('true')
        await ended
        await Promise.all([first, queued, run(':')])
        expect(order.slice(1)).toEqual(['true', ':'])
      }
    }),
  )

  it(
    'is not read by way of a link in the session, and stays protected after it was written',
    inRepository(async ({ sandbox, directory }) => {
      const before = config(directory)
      await sandbox.exec('git remote add here https://example.com/x', { check: true })
      const text = readFileSync(path.join(directory, '.git/config'), 'utf8')
      expect(config(directory).length).toBeGreaterThan(before.length)
      const hostile = 'printf "[branch \\"x\\"]\\n\\trebase = true\\n" > planted'
      const attack = [
        'echo "[core]" > .git/config; mv .git/config .git/old; rm -f .git/config',
        'cd /tmp/.nacre-copies/0 && rm config && ln -s "$OLDPWD/planted" config',
      ]
      const { withheld } = await sandbox.exec(`${hostile}; { ${attack.join('; ')}; } 2>/dev/null; true | cat`)
      expect(withheld).toEqual(['*'])
      expect(readFileSync(path.join(directory, '.git/config'), 'utf8')).toBe(text)
    }),
  )

  it(
    'is read-only where the rules protect it',
    inRepository(async ({ directory }) => {
      const before = config(directory)
      await using sandbox = new Sandbox({
        cwd: directory,
        isolation: { preset: 'workspace', filesystem: { protect: ['.git/config'] } },
      })
      const { exitCode, withheld } = await sandbox.exec('git remote add here https://example.com/x')
      expect(exitCode).not.toBe(0)
      expect([withheld, config(directory)]).toEqual([undefined, before])
    }),
  )

  it(
    'is not changed where it is a link to a file of another name',
    inRepository(async ({ sandbox, directory }) => {
      mkdirSync(path.join(directory, 'kept'))
      renameSync(path.join(directory, '.git/config'), path.join(directory, 'kept/mine'))
      writeFileSync(path.join(directory, 'kept/config'), '[other]\n\tx = y\n')
      symlinkSync('../kept/mine', path.join(directory, '.git/config'))
      await sandbox.exec('git remote add here https://example.com/x')
      expect(readFileSync(path.join(directory, 'kept/config'), 'utf8')).toBe('[other]\n\tx = y\n')
      expect(config(directory, 'kept/mine').some((line) => line.startsWith('remote.'))).toBe(false)
    }),
  )
})

describe('what nothing can protect', () => {
  it(
    'is reported when it appears',
    inRepository(async ({ sandbox, directory }) => {
      await sandbox.exec('true | cat')
      await sandbox.exec(
        'git init -q made && git init -q --bare deep/bare.git && echo x >lefthook.yml && echo x >other',
      )
      const appeared: string[] = []
      for await (const event of sandbox.events({ since: 0 })) {
        if (event.type === 'denied' && event.denial.kind === 'appeared') appeared.push(event.denial.target)
        if (appeared.length === 3) break
      }
      expect(appeared.sort()).toEqual(
        ['deep/bare.git', 'lefthook.yml', 'made/.git'].map((name) => path.join(directory, name)),
      )
      const { isolation } = await sandbox.capabilities()
      expect(isolation.notes.find((note) => note.includes('lefthook.yml'))).toContain('denied')
    }),
  )
})
