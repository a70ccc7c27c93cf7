/** `explain`: `denials` have exactly the files that rules refused, whatever programs print. */
import { execFileSync } from 'node:child_process'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import type { Denial, Isolation } from 'nacre'
import { Sandbox } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isRoot, ORDINARY_USER, Programs, type Tier, tiers } from './tiers.js'

let directory = ''
let programs: Programs

beforeAll(() => {
  // Not below /tmp, which is private with namespaces.
  directory = realpathSync(mkdtempSync('/var/tmp/nacre-explain-'))
  for (const name of ['work/kept', 'other', 'keys'])
    mkdirSync(path.join(directory, name), { recursive: true })
  for (const name of ['other/file', 'other/old', 'keys/id', 'work/own', 'work/kept/file'])
    writeFileSync(path.join(directory, name), 'text\n')
  symlinkSync('../keys', path.join(directory, 'work/link'))
  symlinkSync('../other', path.join(directory, 'work/out'))
  programs = new Programs('explain-runner.mjs')
  for (const name of ['.', 'work', 'work/kept', 'other', 'keys'])
    execFileSync('chmod', ['0777', path.join(directory, name)])
  execFileSync('chmod', ['-R', 'a+rw', directory])
})

afterAll(() => {
  programs.remove()
  rmSync(directory, { recursive: true, force: true })
})

/** Commands with their denials, by the kind and the target below the directory. */
type Refused = [command: string, denials: string[]][]

/** Runs the commands of a table, and compares. */
async function expectRefused(tier: Tier, isolation: Isolation, table: Refused): Promise<void> {
  const commands = table.map(([command]) => command)
  expect(await refused(tier, isolation, commands)).toEqual(table)
}

async function refused(tier: Tier, isolation: Isolation, commands: string[]): Promise<Refused> {
  const all = await programs.run<Denial[][]>(tier, 'explain-runner.mjs', {
    options: { cwd: `${directory}/work`, env: { D: directory }, isolation },
    commands,
  })
  const shown = ({ kind, target }: Denial) => `${kind} ${target.replace(`${directory}/`, '')}`
  return commands.map((command, at) => [command, (all[at] ?? []).map(shown)])
}

/** What writes where it may not, silently and with success, and the files. */
const WRITES: Refused = [
  ['echo x 2> /dev/null > $D/other/new; true', ['write other/new']],
  ['touch ../other/new 2> /dev/null; true', ['write other/new']],
  ['cat own > out/new; true', ['write work/out/new']],
  ['rm -f $D/other/old > /dev/null 2>&1 || true', ['write other/old']],
  ['mkdir $D/other/sub 2> /dev/null; true', ['write other/sub']],
  ['rmdir $D/keys/none; true', []],
  [
    "python3 -c \"import os\ntry: os.rename('own', '../other/own')\nexcept OSError: pass\"",
    ['write other/own'],
  ],
  ['ln -s x $D/other/link 2> /dev/null; true', ['write other/link']],
  ['echo x > kept/new; true', ['write work/kept/new']],
  ['truncate -s 0 kept/file; true', ['write work/kept/file']],
]

/** What is allowed, or would not work without rules either. */
const FINE = [
  'cat own > copy; rm copy; mkdir -p a/b; rm -r a; touch own; mv own own2; mv own2 own',
  'cat $D/none $D/other/none; ls $D/other $D; true',
  'mkdir $D/other; mkdir -p $D/other; rm $D/other/none; echo x > $D/none/new; true',
  'rm -f kept/none; cat kept/file $D/other/file',
  'echo x > $TMPDIR/x; mkdir $TMPDIR/d; rm -r $TMPDIR/x $TMPDIR/d; echo x > /dev/null; cat /proc/self/status > /dev/null',
  'no-such-program; ./own; (cd $D/other && pwd); true',
  "bash -c 'exec 3<> own; flock 3; :'; sort own | tee copy | wc -l; rm copy",
]

describe.each(tiers)('with $name', (tier) => {
  it('has silent writes', async () => {
    const rules = { filesystem: { protect: tier.hasMounts ? ['kept'] : [] }, explain: true }
    const known = WRITES.filter(([command]) => tier.hasMounts || !command.includes('kept'))
    await expectRefused(tier, rules, known)
  })

  it('has silent reads of what is hidden, also through links, and no more', async () => {
    const rules = { filesystem: { hide: [`${directory}/keys`] }, explain: true }
    await expectRefused(tier, rules, [
      ['cat $D/keys/id 2> /dev/null; true', ['read keys/id']],
      ['cat link/id 2> /dev/null; true', ['read work/link/id']],
      ['cat $D/other/file', []],
      ['cat < $D/keys/id; true', ['read keys/id']],
      // It only looks for the file, and says so.
      ['diff own $D/keys/id', ['read keys/id']],
      ['[ -e $D/keys/id ]', []],
    ])
  })

  it('has reads and programs outside of the listed trees', async () => {
    const rules = { filesystem: { read: ['.'] }, explain: true }
    await expectRefused(tier, rules, [
      ['cat $D/other/file 2> /dev/null; true', ['read other/file']],
      ['env $D/other/file 2> /dev/null; true', ['read other/file']],
      ['cat own /etc/passwd > /dev/null; ls /usr/bin > /dev/null', []],
    ])
  })

  it.each([true, false])(
    'has system calls that no rule allows (%s), and not what is only tried',
    async (explain) => {
      const attempt = (call: string) =>
        `python3 -c "import os, socket\ntry: ${call}\nexcept PermissionError: os.mkdir('refused')"; rmdir refused`
      await expectRefused(tier, { filesystem: {}, explain }, [
        ['unshare -U true 2> /dev/null; true', ['syscall unshare(CLONE_NEWUSER)']],
        [attempt("os.chroot('/')"), ['syscall chroot']],
        [attempt('socket.socket(17, 3)'), ['syscall socket(AF_PACKET, SOCK_RAW)']],
        // Each of them once.
        [`for i in 1 2 3; do ${attempt("os.chroot('/')")}; done`, ['syscall chroot']],
        ['node -e 0; python3 -c "import threading; threading.Thread().start()"', []],
      ])
    },
  )

  it('has nothing where no rule refuses anything', async () => {
    const rules = { filesystem: { protect: tier.hasMounts ? ['kept'] : [] }, explain: true }
    await expectRefused(
      tier,
      rules,
      FINE.map((command) => [command, []]),
    )
  })
})

describe.each(tiers)('with $name, a sandbox that learns', (tier) => {
  it('refuses nothing, and has each file once that the rules would refuse', async () => {
    const filesystem = { read: ['.'], hide: [`${directory}/keys`] }
    const commands: Refused = [
      [
        'set -e; cat $D/keys/id $D/other/file; echo x > $D/other/learned',
        ['read keys/id', 'read other/file', 'write other/learned'],
      ],
      ['set -e; cat $D/other/file; rm $D/other/learned; cat own > own2; rm own2; [ ! -e $D/other/none ]', []],
      ['cat $D/other/none $D/keys/none; true', []],
    ]
    const probed = commands.map(([command, targets]): Refused[number] => [
      `(${command}) > /dev/null || touch failed`,
      targets,
    ])
    await expectRefused(tier, { filesystem, learn: true }, probed)
    expect(existsSync(path.join(directory, 'work/failed'))).toBe(false)
  })

  it('reaches a Unix socket of the machine', async () => {
    const place = path.join(directory, 'other/socket')
    const server = createServer((socket) => socket.end('hello')).listen(place)
    await new Promise((resolve) => server.once('listening', resolve))
    execFileSync('chmod', ['0777', place])
    const program = `python3 -c "import socket; s=socket.socket(socket.AF_UNIX); s.connect('${place}'); open('answer','wb').write(s.recv(9))"`
    const found = await refused(tier, { filesystem: {}, learn: true }, [program])
    server.close()
    expect(found).toEqual([[program, expect.arrayContaining(['unix other/socket'])]])
    expect(readFileSync(path.join(directory, 'work/answer'), 'utf8')).toBe('hello')
    rmSync(path.join(directory, 'work/answer'))
  })
})

it.skipIf(!isRoot)('root is refused the files of others by rules alone', async () => {
  const place = path.join(directory, 'others')
  mkdirSync(place, { mode: 0o700 })
  chownSync(place, ORDINARY_USER, ORDINARY_USER)
  for (const tier of tiers.filter(({ uid }) => uid === undefined))
    expect(await refused(tier, { filesystem: {}, explain: true }, ['echo x > $D/others/new; true'])).toEqual([
      ['echo x > $D/others/new; true', ['write others/new']],
    ])
})

it('a session cannot learn where its sandbox enforces rules, and a file with rules cannot either', async () => {
  await using sandbox = new Sandbox({ cwd: `${directory}/work`, isolation: 'workspace' })
  await expect(sandbox.createSession({ isolation: { learn: true } })).rejects.toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringContaining('isolation.learn'),
  })
  const isolationFile = path.join(directory, 'rules.json')
  writeFileSync(isolationFile, '{ "learn": true }')
  expect(() => new Sandbox({ isolationFile })).toThrow(/must not have learn/)
})

it('says which list would have to be changed', async () => {
  await using sandbox = new Sandbox({
    cwd: `${directory}/work`,
    isolation: { filesystem: { write: ['.'], hide: [`${directory}/keys`] }, explain: true },
  })
  const { exitCode, denials } = await sandbox.exec(
    `cat ${directory}/keys/id 2> /dev/null; echo x 2> /dev/null > ${directory}/other/new; true`,
  )
  expect(exitCode).toBe(0)
  expect(denials).toMatchObject([
    {
      ...{ kind: 'read', target: `${directory}/keys/id`, rule: 'isolation.filesystem.hide' },
      fix: { option: 'isolation.filesystem.hide', remove: `${directory}/keys` },
    },
    {
      ...{ kind: 'write', target: `${directory}/other/new`, rule: 'isolation.filesystem.write' },
      fix: { option: 'isolation.filesystem.write', add: `${directory}/other` },
    },
  ])
  // Each command has its own.
  expect((await sandbox.exec('true')).denials).toEqual([])
  expect((await sandbox.exec(`cat ${directory}/keys/id 2> /dev/null; true`)).denials).toHaveLength(1)
})

it('says which programs were refused', async () => {
  await using sandbox = new Sandbox({
    cwd: `${directory}/work`,
    isolation: { filesystem: {}, explain: true },
  })
  const { denials } = await sandbox.exec(
    `touch ${directory}/other/new 2> /dev/null; unshare -U true 2> /dev/null; echo $BASHPID`,
  )
  const pid = expect.any(Number)
  expect(denials).toEqual([
    {
      ...{ kind: 'write', target: `${directory}/other/new`, rule: 'isolation.filesystem.write' },
      fix: { option: 'isolation.filesystem.write', add: `${directory}/other` },
      ...{ program: expect.stringMatching(/touch|coreutils/), pid, command: `touch ${directory}/other/new` },
    },
    {
      ...{ kind: 'syscall', target: 'unshare(CLONE_NEWUSER)', rule: 'isolation' },
      ...{ program: expect.stringContaining('unshare'), pid, command: 'unshare -U true' },
    },
  ])
  expect(await (await sandbox.getSession('default'))?.denials()).toEqual(denials)
})

it('many refusals and many processes keep no program from going on', async () => {
  await using sandbox = new Sandbox({
    cwd: `${directory}/work`,
    isolation: { preset: 'workspace', explain: true },
  })
  const { denials, stdout } = await sandbox.exec(
    `for i in {1..2000}; do echo x > ${directory}/other/$i; done 2> /dev/null
     for i in {1..100}; do cat own > /dev/null & done; wait; echo done`,
  )
  expect(stdout).toBe('done\n')
  expect(denials.length).toBeGreaterThan(10)
  expect(denials.length).toBeLessThanOrEqual(100)
  const next = await sandbox.exec(`echo x > ${directory}/other/again; true`)
  expect(next.denials.map(({ target }) => target)).toEqual([`${directory}/other/again`])
})

it('git and the copies of its config are not refused', async () => {
  const repository = path.join(directory, 'work/repository')
  mkdirSync(repository)
  await using sandbox = new Sandbox({ cwd: repository, isolation: { preset: 'workspace', explain: true } })
  execFileSync('git', ['init', '-q'], { cwd: repository })
  const { exitCode, denials } = await sandbox.exec(
    'echo x > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && git config alias.x status',
  )
  // The machine's file does not get every key.
  expect([exitCode, denials.filter(({ kind }) => kind !== 'config')]).toEqual([0, []])
})
