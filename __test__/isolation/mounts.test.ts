/** Mounts: a sandbox has directories of its own at places where the machine has others, or none. */
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { type FileEvent, type FilesystemRules, type Isolation, Sandbox, type SandboxOptions } from 'nacre'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { itHolds, withClient } from '../contract/helper.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { isRoot, ORDINARY_USER } from './tiers.js'

// Not below /tmp, which some tests cover.
const root = realpathSync(mkdtempSync('/var/tmp/nacre-mounts-'))
const at = (name: string) => path.join(root, name)

const listed = (directory: string) => readdirSync(directory).sort()

/** Is missing on the machine. */
const HOME = `/home/nacre-${process.pid}/user`
/** Exists on the machine, with another content. */
const COVERED = at('covered')

const mounts = [
  { source: at('home'), target: HOME },
  { source: at('temporary'), target: '/tmp' },
  { source: at('own'), target: COVERED },
]

beforeEach(() => {
  for (const name of readdirSync(root)) rmSync(at(name), { recursive: true })
  for (const name of ['home/project', 'temporary', 'own', 'covered', 'work', 'state'])
    mkdirSync(at(name), { recursive: true })
  writeFileSync(at('own/key'), 'own\n')
  writeFileSync(at('covered/key'), 'MACHINE\n')
  writeFileSync(at('covered/canary'), 'MACHINE\n')
})

afterAll(() => rmSync(root, { recursive: true, force: true }))

const rulesOf = (filesystem: FilesystemRules = {}): Isolation => ({
  filesystem: { mounts, ...filesystem },
  network: 'none',
  processes: 'own',
})
const mounted: SandboxOptions = { cwd: path.join(HOME, 'project'), isolation: rulesOf() }

const withMounts = (test: (workplace: Workplace) => Promise<void>, options: SandboxOptions = {}) =>
  withSandbox(test, { options: { ...mounted, ...options } })

describe('mounts', () => {
  itHolds(
    'show programs a source at its target, and nothing of the machine there',
    async ({ sandbox }) => {
      const others = readdirSync('/home').map((name) => `${name}\n`)
      const { all } = await sandbox.exec(
        `pwd; /bin/pwd; echo x > file; cat ${HOME}/project/file; echo y > /tmp/file; ls /tmp
         cat ${COVERED}/key; ls ${COVERED}; echo z > ${COVERED}/new; ls ${at('work')}; ls /home`,
        { mergeOutput: true },
      )
      const project = `${HOME}/project\n`
      const homes = [...others, `${path.basename(path.dirname(HOME))}\n`].sort().join('')
      expect(all).toBe(`${project}${project}x\nfile\nown\nkey\n${homes}`)
      expect(readFileSync(at('home/project/file'), 'utf8')).toBe('x\n')
      expect(readFileSync(at('temporary/file'), 'utf8')).toBe('y\n')
      expect(listed(at('own'))).toEqual(['key', 'new'])
      expect(listed(COVERED)).toEqual(['canary', 'key'])
      expect(existsSync(path.dirname(HOME))).toBe(false)
    },
    { options: mounted },
  )

  it('hold for processes, terminals, services, durable jobs and other sessions', () =>
    withMounts(async ({ sandbox }) => {
      const probe = `pwd; cat ${COVERED}/key`
      const expected = `${HOME}/project\nown\n`
      const cwd = path.join(HOME, 'project')
      for (const options of [{ cwd }, { cwd, pty: true }]) {
        const started = await sandbox.startProcess(probe, options)
        await started.waitForExit()
        expect((await started.getLogs()).stdout.replaceAll('\r', '')).toBe(expected)
      }
      const service = await sandbox.startService(`${probe}; echo ready; sleep 60`, {
        cwd,
        healthCheck: { log: 'ready' },
      })
      expect((await service.getLogs()).stdout).toBe(`${expected}ready\n`)
      await service.kill()
      const { jobId } = await sandbox.jobs.start({ command: probe, cwd })
      await sandbox.jobs.wait(jobId)
      expect((await sandbox.jobs.read(jobId)).raw).toBe(expected)
      await sandbox.jobs.remove(jobId)
      const other = await sandbox.createSession({ cwd })
      expect((await other.exec(probe)).stdout).toBe(expected)
      expect((await sandbox.exec(probe, { cwd })).stdout).toBe(expected)
      // A new shell has the same view.
      await sandbox.exec('kill -9 $$')
      expect((await sandbox.exec(probe, { cwd })).stdout).toBe(expected)
    }))

  it('let a durable job run whose own directory they cover', () =>
    withMounts(
      async ({ sandbox }) => {
        const { jobId } = await sandbox.jobs.start({ command: `ls ${COVERED}` })
        await sandbox.jobs.wait(jobId)
        expect((await sandbox.jobs.read(jobId)).raw).toBe('key\n')
        await sandbox.jobs.remove(jobId)
        expect(listed(at('own'))).toEqual(['key'])
      },
      { jobsRoot: path.join(COVERED, 'jobs') },
    ))

  it('have no directory that the source does not have, and none is made there', () =>
    withMounts(async ({ sandbox }) => {
      const cwd = path.join(HOME, 'missing')
      const missing = { code: 'CWD_NOT_FOUND', message: expect.stringContaining(`'${cwd}'`) }
      const session = await rejectionOf(sandbox.createSession({ cwd }))
      expect(session).toMatchObject(missing)
      expect(await rejectionOf(sandbox.jobs.start({ command: 'true', cwd }))).toMatchObject(missing)
      expect(listed(at('home'))).toEqual(['project'])
    }))

  it('let a target be made below the root, and below a directory that a list of readable trees has', async () => {
    for (const [target, read] of [
      [`/nacre-${process.pid}/a/b`, 'all'],
      [`/nacre-${process.pid}`, ['/']],
      [`/nacre-${process.pid}`, ['/var/lib']],
      [at('work/new/user'), [root]],
    ] as Array<[string, 'all' | string[]]>) {
      const filesystem = { read, write: [], mounts: [{ source: at('own'), target }] }
      await withMounts(
        async ({ sandbox }) => {
          const { all } = await sandbox.exec(
            `cat key; echo x > new; cat ${target}/new; ls /usr | grep -cx bin`,
          )
          expect(all, target).toBe('own\nx\n1\n')
          rmSync(at('own/new'))
        },
        { cwd: target, isolation: { filesystem, processes: 'own' } },
      )
    }
  })

  it('keep the rules of a source', () => {
    mkdirSync(at('home/git/hooks'), { recursive: true })
    mkdirSync(at('home/secret'))
    writeFileSync(at('own/secret'), 'kept\n')
    for (const name of ['home/secret/key', 'home/token', 'home/git/hooks/hook'])
      writeFileSync(at(name), 'kept\n')
    const rules: FilesystemRules = {
      protect: [at('home/git/hooks'), at('own')],
      // What the machine has at a target, is not what programs see there.
      hide: [at('home/secret'), at('home/token'), at('own/secret'), `${COVERED}/key`],
    }
    const probe = `cd ${HOME}; ls secret; cat token; (echo x >> git/hooks/hook); mv git other; (echo x > ${COVERED}/new)
      cat ${COVERED}/key ${COVERED}/secret; rm -rf git; cat git/hooks/hook; echo x > git/config && echo ok`
    return withMounts(
      async ({ sandbox }) => {
        expect((await sandbox.exec(probe)).stdout).toBe('own\nkept\nok\n')
        for (const name of ['home/secret/key', 'home/token', 'home/git/hooks/hook'])
          expect(readFileSync(at(name), 'utf8')).toBe('kept\n')
      },
      { isolation: rulesOf(rules) },
    )
  })

  it('show a source below a hidden directory, at a target below another', () => {
    for (const name of ['all/1/home', 'all/2/home', 'homes/other']) mkdirSync(at(name), { recursive: true })
    writeFileSync(at('all/1/home/key'), 'own\n')
    const rules = {
      hide: [at('all'), at('homes')],
      mounts: [{ source: at('all/1/home'), target: at('homes/user') }],
    }
    return withMounts(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec(
          `ls ${at('all')} ${at('homes')}; cat key; echo x > ${at('homes/new')}`,
        )
        expect(stdout).toBe(`${at('all')}:\n\n${at('homes')}:\nuser\nown\n`)
        expect(listed(at('homes'))).toEqual(['other'])
      },
      { cwd: at('homes/user'), isolation: rulesOf(rules) },
    )
  })

  // Only root can run programs as another user.
  if (isRoot)
    it('open nothing to another user beside a target that is made', () => {
      for (const name of ['closed', 'open']) mkdirSync(at(name), { mode: name === 'open' ? 0o755 : 0o700 })
      for (const name of ['closed/key', 'open/key']) writeFileSync(at(name), 'MACHINE\n', { mode: 0o644 })
      chownSync(at('own'), ORDINARY_USER, ORDINARY_USER)
      chmodSync(root, 0o711)
      const rules = ['closed', 'open'].map((name) => ({ source: at('own'), target: at(`${name}/new/user`) }))
      return withMounts(
        async ({ sandbox }) => {
          const { stdout } = await sandbox.exec(
            'id -u; echo x > file; cat file ../../key ../../../closed/key',
          )
          expect(stdout).toBe(`${ORDINARY_USER}\nx\nMACHINE\n`)
        },
        {
          cwd: at('open/new/user'),
          user: { uid: ORDINARY_USER, gid: ORDINARY_USER },
          isolation: { filesystem: { mounts: rules, write: [] }, processes: 'own' },
        },
      )
    })

  it('let programs listen and connect at a Unix socket', () =>
    withMounts(async ({ sandbox }) => {
      const server = `perl -MSocket -e 'socket(L, AF_UNIX, SOCK_STREAM, 0); bind(L, pack_sockaddr_un("/tmp/s")) and listen(L, 5) or die $!; print "up\\n"; $| = 1; print ""; while (accept(S, L)) { syswrite(S, "REACHED"); close S }'`
      const client = `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("/tmp/s")) or print "no: $!"; sysread(S, $b, 9); print $b'`
      const { stdout } = await sandbox.exec(
        `${server} & until [ -S /tmp/s ]; do :; done; sleep 0.2; ${client}; kill $!`,
      )
      expect(stdout).toContain('REACHED')
    }))
})

describe('file calls', () => {
  itHolds(
    'see what programs see, and no link leads them to what a mount covers',
    async ({ sandbox }) => {
      const { files } = sandbox
      await files.write(`${HOME}/a/b`, 'text')
      expect(readFileSync(at('home/a/b'), 'utf8')).toBe('text')
      expect(await files.read(`${COVERED}/key`)).toBe('own\n')
      expect((await files.list(COVERED)).map((entry) => entry.path)).toEqual([`${COVERED}/key`])
      await files.rename(`${HOME}/a/b`, `${HOME}/c`)
      await files.copy(`${HOME}/c`, '/tmp/c')
      expect(readFileSync(at('temporary/c'), 'utf8')).toBe('text')
      await files.mkdir(`${HOME}/d`)
      expect((await files.stat(`${HOME}/d`))?.type).toBe('directory')
      await files.remove(`${HOME}/d`)
      // Links as a program could make them, also past the mount to the machine's own path.
      for (const [link, target] of [
        ['key', `${COVERED}/key`],
        ['canary', `${COVERED}/canary`],
        ['up', `../../../../../../../../..${COVERED}/canary`],
        ['root', `/proc/self/root${COVERED}/canary`],
        ['dir', COVERED],
      ] as const)
        symlinkSync(target, at(`home/${link}`))
      expect(await files.read(`${HOME}/key`)).toBe('own\n')
      for (const name of ['canary', 'up', 'root', 'dir/canary'])
        expect(await rejectionOf(files.read(`${HOME}/${name}`))).toMatchObject({ code: 'FILE_NOT_FOUND' })
      for (const name of ['canary', 'up', 'dir/new', 'dir/../covered/more'])
        await files.write(`${HOME}/${name}`, 'x').catch(() => {})
      await files.remove(`${HOME}/dir/key`)
      expect(listed(COVERED)).toEqual(['canary', 'key'])
      expect(readFileSync(`${COVERED}/canary`, 'utf8')).toBe('MACHINE\n')
      // The machine is read-only elsewhere.
      expect(await rejectionOf(files.write(at('work/new'), 'x'))).toMatchObject({ code: 'PERMISSION_DENIED' })
    },
    { options: mounted },
  )

  itHolds(
    'watch below a target',
    async ({ sandbox }) => {
      const seen: FileEvent[] = []
      const watch = sandbox.files.watch(HOME)
      const ended = (async () => {
        for await (const event of watch) seen.push(event)
      })()
      let tries = 0
      await until(
        async () => {
          // The watch has begun once it reports a file.
          if (seen.length === 0) writeFileSync(at(`home/first-${tries++}`), '')
          return seen.length > 0 || undefined
        },
        () => 'the watch reports nothing',
      )
      await sandbox.exec(`echo x > ${HOME}/second`)
      await holds(async () => seen.some((event) => event.path === `${HOME}/second`))
      await watch.return?.()
      await ended
    },
    { options: mounted },
  )
})

describe('a copy-on-write workspace', () => {
  it('is seen at a target, with its layer', () =>
    withMounts(
      async ({ sandbox }) => {
        writeFileSync(at('home/old'), 'old\n')
        await sandbox.exec(
          `echo x > ${HOME}/new; echo y >> ${HOME}/old; mkdir ${HOME}/sub; cd ${HOME}/sub; v=1`,
        )
        expect(listed(at('home'))).toEqual(['old', 'project'])
        const first = await sandbox.checkpoint()
        await sandbox.exec(`rm ${HOME}/new; echo z >> ../old; cd /`)
        await sandbox.rollback(first)
        const probe = `pwd; /bin/pwd; cat ../new ../old; echo $v; cmp ../old ${at('home/old')} && echo same`
        expect((await sandbox.exec(probe)).stdout).toBe(`${HOME}/sub\n${HOME}/sub\nx\nold\ny\n1\nsame\n`)
        // A shell from before may write in the new mount, too.
        expect((await sandbox.exec('echo more > ../more; cat ../more')).stdout).toBe('more\n')
        await sandbox.files.write(`${HOME}/file`, 'text')
        const paths = (await sandbox.workspace.changes()).map((change) => change.path)
        expect(paths.sort()).toEqual(['file', 'more', 'new', 'old', 'sub'])
        await sandbox.exec('cd /')
        await sandbox.workspace.commit()
        expect(readFileSync(at('home/old'), 'utf8')).toBe('old\ny\n')
        expect(readFileSync(at('home/file'), 'utf8')).toBe('text')
      },
      { workspace: { mode: 'copy-on-write', path: at('home') } },
    ))

  it('is forked: each fork has its own at the target, and all share the other mounts', () =>
    withMounts(
      async ({ sandbox }) => {
        writeFileSync(at('home/old'), 'old\n')
        await sandbox.exec(`echo parent > ${HOME}/old; echo shared > /tmp/file; cd ${HOME}/project; v=1`)
        const forks = await sandbox.fork(2)
        try {
          const state = 'pwd; /bin/pwd; echo $v; cat ../old /tmp/file'
          const project = `${HOME}/project\n`
          for (const one of [sandbox, ...forks])
            expect((await one.exec(state)).stdout).toBe(`${project}${project}1\nparent\nshared\n`)
          for (const [number, fork] of forks.entries())
            await fork.exec(`echo fork ${number} > ../old; echo ${number} > own; echo ${number} >> /tmp/all`)
          for (const [number, fork] of forks.entries()) {
            const seen = `cat ../old own /tmp/all ${at('home/old')} ${COVERED}/key`
            const expected = `fork ${number}\n${number}\n0\n1\nfork ${number}\nown\n`
            expect((await fork.exec(seen)).stdout).toBe(expected)
            expect(await fork.files.read(`${HOME}/old`)).toBe(`fork ${number}\n`)
            const changes = (await fork.workspace.changes()).map((change) => change.path).sort()
            expect(changes).toEqual(['old', 'project/own'])
            const session = await fork.createSession()
            expect((await session.exec(`cat ${HOME}/old`)).stdout).toBe(`fork ${number}\n`)
          }
          expect((await sandbox.exec('cat ../old; ls')).stdout).toBe('parent\n')
          await forks[1]?.exec('cd /')
          await forks[1]?.workspace.commit()
          expect(readFileSync(at('home/old'), 'utf8')).toBe('fork 1\n')
          expect(readFileSync(at('home/project/own'), 'utf8')).toBe('1\n')
          expect((await forks[0]?.exec('cat ../old'))?.stdout).toBe('fork 0\n')
        } finally {
          await Promise.all(forks.map((fork) => fork.destroy()))
        }
      },
      { workspace: { mode: 'copy-on-write', path: at('home') } },
    ))
})

describe('sessions', () => {
  it('have the mounts of their sandbox, whatever rules they give', () =>
    withMounts(async ({ sandbox }) => {
      for (const isolation of [
        {},
        'read-only',
        { filesystem: { write: [], mounts: [...mounts].reverse() } },
      ]) {
        const session = await sandbox.createSession({ isolation: isolation as Isolation })
        expect((await session.exec(`cat ${COVERED}/key`)).stdout).toBe('own\n')
      }
    }))

  it('have no others, here and over HTTP', async () => {
    const other = [{ source: at('home'), target: COVERED }]
    const refused = { code: 'INVALID_OPTION', message: expect.stringContaining("must be the sandbox's") }
    const check = async (sandbox: { createSession: Sandbox['createSession'] }, own: typeof mounts) => {
      for (const mounts of own.length === 0 ? [other] : [[], other, own.slice(1), [...own, ...other]])
        expect(await rejectionOf(sandbox.createSession({ isolation: rulesOf({ mounts }) }))).toMatchObject(
          refused,
        )
    }
    await withMounts(async (workplace) => {
      await check(workplace.sandbox, mounts)
      await withClient(workplace, async (client) => {
        await check(client as never, mounts)
        const session = await client.createSession({ isolation: rulesOf() })
        expect((await session.exec(`cat ${COVERED}/key`)).stdout).toBe('own\n')
        const bad = { filesystem: { mounts: [{ source: 'a', target: '/b' }] } }
        expect(await rejectionOf(client.createSession({ isolation: bad }))).toMatchObject({
          message: expect.stringMatching(/mounts\[0\]\.source must be an absolute path/),
        })
      })
    })
    for (const isolation of [undefined, 'workspace'] as const)
      await withSandbox(({ sandbox }) => check(sandbox, []), { options: { isolation } })
  })
})

describe('what cannot be mounted', () => {
  const plan = (...given: Array<{ source: string; target: string }>) =>
    new Sandbox({ cwd: at('work'), isolation: { filesystem: { mounts: given } } })
  const link = (name: string, target: string) => {
    symlinkSync(target, at(name))
    return at(name)
  }
  const own = { source: at('own'), target: COVERED }

  it.each<[name: string, mounts: () => Array<{ source: string; target: string }>, message: RegExp]>([
    ['a missing source', () => [{ ...own, source: at('none') }], /\[0\]\.source must exist: create it/],
    [
      'a file as a source',
      () => [{ ...own, source: at('own/key') }],
      /\[0\]\.source must be a directory, not/,
    ],
    [
      'a symlink as a source',
      () => [{ ...own, source: link('l', 'own') }],
      /source must not lead through a symlink: use '.*own', not/,
    ],
    [
      'a symlink on the way',
      () => [{ ...own, source: path.join(link('l', '.'), 'own') }],
      /symlink: use '[^']*\/own'/,
    ],
    [
      'a broken symlink',
      () => [{ ...own, source: link('l', 'none') }],
      /source must not lead through a symlink, not/,
    ],
    ['the root as a source', () => [{ ...own, source: '/' }], /source must not be '\/', nor in/],
    [
      "the machine's processes",
      () => [{ ...own, source: '/proc/self/root' }],
      /source must not be '\/', nor in/,
    ],
    ["the machine's devices", () => [{ ...own, source: '/dev/shm' }], /source must not be '\/', nor in/],
    ['the root', () => [{ ...own, target: '//.' }], /target must not be '\/', nor in/],
    ['/proc', () => [{ ...own, target: '/proc' }], /target must not be '\/', nor in/],
    ['a part of /dev', () => [{ ...own, target: '/usr/../dev/x' }], /target must not be '\/', nor in/],
    ['a file', () => [{ ...own, target: at('own/key') }], /target must be a directory, not/],
    ['a part of a file', () => [{ ...own, target: at('own/key/a') }], /target must be a directory, not/],
    [
      'a symlink',
      () => [{ ...own, target: link('l', 'covered') }],
      /target must not lead through a symlink: use '.*covered'/,
    ],
    [
      'a missing part of a symlink',
      () => [{ ...own, target: path.join(link('l', 'covered'), 'a/b') }],
      /use '.*covered\/a\/b'/,
    ],
    [
      'a missing part of a writable tree',
      () => [{ ...own, target: at('work/a/b') }],
      /target must exist below a writable directory/,
    ],
    [
      'one target twice',
      () => [own, { ...own, source: at('home'), target: `${COVERED}/` }],
      /\[1\]\.target must not be, contain or lie in the target of mounts\[0\]/,
    ],
    [
      'a target in another',
      () => [own, { ...own, target: `${COVERED}/a` }],
      /\[1\]\.target must not be, contain or lie in/,
    ],
    [
      'a target around another',
      () => [own, { ...own, target: root }],
      /\[1\]\.target must not be, contain or lie in/,
    ],
  ])('%s', (_, given, message) => {
    expect(thrownBy(() => plan(...given()))).toMatchObject({
      name: 'OptionError',
      code: 'INVALID_OPTION',
      message: expect.stringMatching(
        new RegExp(
          `^isolation\\.filesystem\\.mounts${message.source.startsWith('\\[') ? '' : '.*'}${message.source}`,
        ),
      ),
    })
  })

  it('a missing target beside too many entries', () => {
    for (let number = 0; number < 1001; number++) writeFileSync(at(`own/${number}`), '')
    expect(thrownBy(() => plan({ source: at('home'), target: at('own/a') }))).toMatchObject({
      message: expect.stringContaining(`must exist, since '${at('own')}' has more than 1000 entries`),
    })
  })

  it('a source that has become a symlink since', async () => {
    await using sandbox = plan(own)
    renameSync(at('own'), at('moved'))
    symlinkSync('home', at('own'))
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({
      code: 'ISOLATION_UNSUPPORTED',
      message: expect.stringContaining(at('own')),
    })
  })

  it('what covers the shell', async () => {
    await using sandbox = plan({ ...own, target: '/usr/bin' })
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({
      code: 'ISOLATION_UNSUPPORTED',
      message: expect.stringMatching(
        /isolation\.filesystem\.mounts .* covers the shell, \/usr\/bin\/.*Choose another/,
      ),
    })
  })
})
