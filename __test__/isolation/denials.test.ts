/** What a failed command was refused, in the words of daily programs: which rule, and what would allow it. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import type { Denial } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BUILT } from './run-in-tier.js'

let directory = ''

beforeAll(() => {
  // Not below /tmp, which is private with namespaces.
  directory = realpathSync(mkdtempSync('/var/tmp/nacre-denials-'))
  for (const name of ['work/kept', 'work/.git', 'other', 'keys', 'home']) {
    mkdirSync(path.join(directory, name), { recursive: true })
  }
  for (const name of ['other/file', 'keys/id', 'work/own'])
    writeFileSync(path.join(directory, name), 'text\n')
  writeFileSync(path.join(directory, 'work/Makefile'), `all:\n\tcp own ${directory}/other/new\n`)
  symlinkSync('../keys', path.join(directory, 'work/link'))
})

afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** The denials of each command, in a process of its own: what a machine offers is determined once in each. */
function denialsOf(tier: string, isolation: object, commands: string[]): Denial[][] {
  const options = {
    cwd: `${directory}/work`,
    env: { O: `${directory}/other`, K: `${directory}/keys` },
    isolation,
  }
  const program = `
    const { Sandbox } = await import(${JSON.stringify(BUILT)})
    const sandbox = new Sandbox(${JSON.stringify(options)})
    const all = []
    for (const command of ${JSON.stringify(commands)}) {
      const { exitCode, denials, all: printed } = await sandbox.exec(command)
      if (exitCode === 0) throw new Error(command + ' has not failed: ' + printed)
      all.push(denials)
    }
    console.log(JSON.stringify(all))
    await sandbox.destroy()`
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    env: { ...process.env, NACRE_ISOLATION: tier },
  })
  return JSON.parse(output)
}

const written = (target: string): Denial => ({
  ...{ kind: 'write', target: `${directory}/${target}`, rule: 'isolation.filesystem.write' },
  fix: { option: 'isolation.filesystem.write', add: `${directory}/other` },
})

const hidden = (target: string): Denial => ({
  ...{ kind: 'read', target: `${directory}/${target}`, rule: 'isolation.filesystem.hide' },
  fix: { option: 'isolation.filesystem.hide', remove: `${directory}/keys` },
})

const NODE = `${JSON.stringify(process.execPath)} -e`

/** What writes to a tree that it may not write to, and the file. */
const WRITES: [command: string, target: string][] = [
  ['touch $O/new', 'other/new'],
  ['echo x > $O/new', 'other/new'],
  ['echo x > ../other/new', 'other/new'],
  ["sh -c 'echo x > ../other/new'", 'other/new'],
  ['mkdir $O/new', 'other/new'],
  ['mkdir -p $O/a/b/c', 'other/a'],
  ['cp own $O/new', 'other/new'],
  ['cp own "$O/a name"', 'other/a name'],
  ['mv own $O/new', 'other/new'],
  ['ln -s own $O/new', 'other/new'],
  ['rm -f $O/file', 'other/file'],
  ['install own $O/new', 'other/new'],
  ['dd if=own of=$O/new', 'other/new'],
  ['tee $O/new < own', 'other/new'],
  ['sort -o $O/new own', 'other/new'],
  ['tar cf $O/new.tar own', 'other/new.tar'],
  ['make', 'other/new'],
  ['git init -q $O/new', 'other/new'],
  [`${NODE} 'fs.writeFileSync(process.env.O + "/new", "")'`, 'other/new'],
  [`${NODE} 'fs.mkdirSync(process.env.O + "/new")'`, 'other/new'],
  [`${NODE} 'await fs.promises.rm(process.env.O + "/file")' --input-type=module`, 'other/file'],
  [`perl -e 'open(F, ">", "$ENV{O}/new") or die "$ENV{O}/new: $!"'`, 'other/new'],
]

describe.each(['', 'landlock'])('with NACRE_ISOLATION=%s', (tier) => {
  it('a write names the file, the rule and the directory that would have to be in it', () => {
    const found = denialsOf(
      tier,
      { filesystem: { write: ['.'] } },
      WRITES.map(([command]) => command),
    )
    const named = WRITES.map(([command], at) => [command, found[at]])
    expect(named).toEqual(WRITES.map(([command, target]) => [command, [written(target)]]))
  })

  it('a read of what is hidden, or in no list', () => {
    const rules = { filesystem: { write: ['.'], hide: [`${directory}/keys`] } }
    const found = denialsOf(tier, rules, [
      'cat $K/id',
      'cat $K/none',
      'cat link/id',
      `${NODE} 'fs.readFileSync("../keys/id")'`,
    ])
    // With Landlock alone, programs see that there is nothing.
    const none = tier === '' ? [hidden('keys/none')] : []
    expect(found).toEqual([[hidden('keys/id')], none, [hidden('work/link/id')], [hidden('keys/id')]])
    const narrow = { filesystem: { write: ['.'], read: ['.'] } }
    const target = `${directory}/other/file`
    const option = 'isolation.filesystem.read'
    expect(denialsOf(tier, narrow, ['cat $O/file'])).toEqual([
      [{ kind: 'read', target, rule: option, fix: { option, add: target } }],
    ])
  })

  it('claims nothing that no rule explains', () => {
    const commands = [
      'cat none',
      'cat $O/none',
      'ls /none',
      './own',
      '$O/file',
      'no-such-program',
      'rmdir kept/none',
      'cd none',
      'echo "Permission denied" >&2; false',
      'echo "$O: not found" >&2; false',
      'ssh: not found',
      'mkdir own/sub',
      'kill -0 1; echo "/proc/1: Permission denied" >&2; false',
    ]
    const found = denialsOf(tier, { filesystem: { write: ['.'] } }, commands)
    expect(commands.map((command, at) => [command, found[at]])).toEqual(
      commands.map((command) => [command, []]),
    )
  })
})

describe.each(['', 'landlock'])('with NACRE_ISOLATION=%s', (tier) => {
  /** The process that has to be named, whose argument is the target. */
  const caller = (program: string, words: string) => ({
    ...{ program: expect.stringMatching(new RegExp(`/${program}$`)), pid: expect.any(Number) },
    command: expect.stringContaining(words),
  })

  it('a connection names the process that wanted it', () => {
    const network = { allow: ['allowed.test:443'] }
    const found = denialsOf(tier, { network }, [
      'curl -sf http://named.test/ http://other.test/',
      'curl -sf -x "socks5h://${HTTP_PROXY#http://}" http://named.test/',
      'curl -sf http://named.test/ | cat; perl -e "exit 1"',
      "curl -sf --noproxy '*' http://192.0.2.1/",
    ])
    const refused = (target: string) => ({
      ...{ kind: 'network', target, rule: 'isolation.network.allow' },
      fix: { option: 'isolation.network.allow', add: target },
      ...caller('curl', 'curl -sf'),
    })
    const named = [refused('named.test:80')]
    expect(found).toEqual([[...named, refused('other.test:80')], named, named, [refused('192.0.2.1:80')]])
  })

  it('a Unix socket of the machine', async () => {
    const server = net.createServer((socket) => socket.end('REACHED'))
    const target = path.join(directory, 'other/socket')
    const code = (address: string) =>
      `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack_sockaddr_un("${address}")) or exit 1'`
    await new Promise<void>((resolve) => server.listen(target, resolve))
    try {
      const found = denialsOf(tier, { filesystem: { write: ['.'] } }, [
        code('../other/socket'),
        code('../other/none'),
        code(`${directory}/work/own`),
        code('\\0nacre-denials'),
      ])
      const refused = { kind: 'unix', target, rule: 'isolation', ...caller('perl', '../other/socket') }
      const named = {
        ...{ kind: 'unix', target: '@nacre-denials', rule: 'isolation' },
        ...caller('perl', 'nacre-denials'),
      }
      expect(found).toEqual([[refused], [], [], [named]])
    } finally {
      server.close()
    }
  })
})

it('protected trees, and what the preset protects', () => {
  const rules = { filesystem: { write: ['.'], protect: ['kept'] } }
  const option = 'isolation.filesystem.protect'
  expect(denialsOf('', rules, ['touch kept/new', 'touch kept/../kept/new'])).toEqual(
    ['kept/new', 'kept/new'].map((name) => [
      {
        ...{ kind: 'write', target: `${directory}/work/${name}`, rule: option },
        fix: { option, remove: `${directory}/work/kept` },
      },
    ]),
  )
  const target = `${directory}/work/.envrc`
  expect(denialsOf('', 'workspace' as unknown as object, ['echo x > .envrc'])).toEqual([
    [{ kind: 'write', target, rule: 'isolation.preset' }],
  ])
})
