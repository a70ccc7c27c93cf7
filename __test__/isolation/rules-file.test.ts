/** Rules in a file, and what they say of a path or a host before anything runs. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Denial, type Isolation, Sandbox } from 'nacre'
import { beforeEach, describe, expect, it } from 'vitest'
import { isolationSchema } from '../../scripts/isolation-schema.mjs'
import { temporary } from '../helpers/temporary.js'
import { thrownBy } from '../helpers/thrown.js'

let directory = ''
const at = (name: string) => path.join(directory, name)

beforeEach(() => {
  // Not below /tmp, which is private with namespaces.
  directory = temporary('nacre-rules-', '/var/tmp')
  for (const name of ['work/secret', 'other', 'more']) mkdirSync(at(name), { recursive: true })
  symlinkSync('../other', at('work/link'))
})

function withRules(rules: unknown, isolation?: Isolation): Sandbox {
  writeFileSync(at('work/rules.json'), typeof rules === 'string' ? rules : JSON.stringify(rules))
  return new Sandbox({ cwd: at('work'), isolationFile: 'rules.json', ...(isolation && { isolation }) })
}

async function whyOf(sandbox: Sandbox, ...targets: string[]): Promise<Denial[][]> {
  const session = await sandbox.createSession()
  return Promise.all(targets.map((target) => session.why(target)))
}

const BASE = {
  $schema: './node_modules/nacre/isolation.schema.json',
  preset: 'workspace',
  filesystem: { hide: ['secret'] },
  network: { allow: ['a.test:443'], requests: { 'r.test': ['GET /a/**'] } },
}

describe('a file of rules', () => {
  it('holds, and no program can change, replace or remove it, also with rules of a session', async () => {
    const before = JSON.stringify(BASE)
    await using sandbox = withRules(BASE)
    const own = await sandbox.createSession({ isolation: { network: 'none' } })
    const [one] = await whyOf(sandbox, 'rules.json')
    expect(one).toEqual([{ kind: 'write', target: at('work/rules.json'), rule: 'isolationFile' }])
    for (const session of [sandbox, own])
      for (const command of [
        'echo {} > rules.json',
        'rm -f rules.json',
        'echo {} > new; mv -f new rules.json',
        'mv rules.json gone',
        'ln -sf new rules.json',
        'touch secret/x',
        `touch ${at('other/x')}`,
      ])
        expect((await session.exec(command)).exitCode, command).not.toBe(0)
    expect(readFileSync(at('work/rules.json'), 'utf8')).toBe(before)
    const { denials } = await own.exec('echo {} > rules.json')
    expect(denials).toEqual(one)
  })

  it('gets the lists of the option, whose other members take the place of its own', async () => {
    await using sandbox = withRules(BASE, {
      filesystem: { write: ['../more'], hide: ['../other'] },
      network: { allow: ['b.test:80'], requests: { 'r.test': ['POST /b'] } },
    })
    const outcome = await sandbox.exec('touch in ../more/in && ls ../other && ls secret')
    expect(outcome).toMatchObject({ exitCode: 0, stdout: '' })
    const targets = ['a.test:443', 'b.test:80', 'r.test:443', 'c.test:443', '../more/x', '../other/x', 'x']
    expect(
      (await whyOf(sandbox, ...targets)).map((all) => all.map(({ kind, rule }) => `${kind} ${rule}`)),
    ).toEqual([
      [],
      [],
      [],
      ['network isolation.network.allow'],
      [],
      ['read isolation.filesystem.hide', 'write isolation.filesystem.write'],
      [],
    ])
    await using open = withRules(BASE, { network: 'host', preset: 'read-only' })
    expect((await open.exec('touch in')).exitCode).toBe(1)
    expect(await whyOf(open, 'c.test:443')).toEqual([[]])
  })

  it.each([
    ['{', /isolationFile .*rules.json must be JSON: /],
    ['"some"', /rules.json: isolation must be rules or one of 'workspace', .*, not "some"/],
    ['[]', /rules.json: isolation must be/],
    [{ network: { alow: [] } }, /isolation.network has no option "alow"; did you mean "allow"\?/],
    [{ network: { allow: [], ask: {} } }, /isolation.network.ask must be/],
    ['{"__proto__":{"preset":"workspace"}}', /isolation has no option "__proto__"/],
    [
      { network: { allow: [], secrets: { A: { value: 'abcdefgh', hosts: ['a.b'] } } } },
      /must not have network.secrets/,
    ],
    [`"${'x'.repeat(1024 * 1024)}"`, /rules.json must have at most 1048576 bytes/],
  ])('is refused before anything runs: %.40j', (rules, message) => {
    expect(thrownBy(() => withRules(rules))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(message),
    })
  })

  it('is refused if it is missing, or no file', () => {
    for (const isolationFile of ['none.json', '.', '/dev/null'])
      expect(thrownBy(() => new Sandbox({ cwd: at('work'), isolationFile }))).toMatchObject({
        code: 'INVALID_OPTION',
      })
  })

  it('has the schema that is published', () => {
    expect(readFileSync(path.join(__dirname, '../../isolation.schema.json'), 'utf8')).toBe(isolationSchema())
  })
})

describe('why', () => {
  it('says what the rules refuse, through links and by the home directory, and asks nothing of permissions', async () => {
    await using sandbox = withRules({
      ...BASE,
      filesystem: { hide: ['~/.none', 'secret'] },
      network: { allow: [], deny: ['*.test:*'], ask: true },
    })
    const [link, home, readable, denied, asked, url, own] = await whyOf(
      sandbox,
      ...[
        'link/x',
        '~/.none/key',
        '/etc/shadow',
        'a.test:443',
        'a.example:443',
        'https://a.test/x',
        '127.0.0.1:1',
      ],
    )
    expect(link).toEqual([
      {
        ...{ kind: 'write', target: at('work/link/x'), rule: 'isolation.filesystem.write' },
        fix: { option: 'isolation.filesystem.write', add: at('other') },
      },
    ])
    expect(home?.map(({ kind, rule }) => [kind, rule])).toEqual([
      ['read', 'isolation.filesystem.hide'],
      ['write', 'isolation.filesystem.write'],
    ])
    expect(readable?.map(({ kind }) => kind)).toEqual(['write'])
    expect(denied).toEqual([{ kind: 'network', target: 'a.test:443', rule: 'isolation.network.deny' }])
    expect(url).toEqual(denied)
    expect(asked?.map(({ rule }) => rule)).toEqual(['isolation.network.ask'])
    expect(own?.map(({ rule }) => rule)).toEqual(['isolation.network.allow'])
  })

  it('says nothing without rules', async () => {
    await using sandbox = new Sandbox()
    expect(await whyOf(sandbox, '/etc/shadow', 'a.test:443')).toEqual([[], []])
    await using closed = new Sandbox({ cwd: at('work'), isolation: 'workspace' })
    expect((await whyOf(closed, 'a.test:443')).flat().map(({ fix }) => fix)).toEqual([
      { option: 'isolation.network.allow', add: 'a.test:443' },
    ])
  })
})
