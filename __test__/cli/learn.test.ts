/** `nacre learn`: the smallest rules under which a command passes, proven by a second run. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Cli, type Ended, withCli } from '../helpers/cli.js'

let directory = ''
const at = (name: string) => path.join(directory, name)

beforeAll(() => {
  // Not below /tmp, which is private with namespaces.
  directory = realpathSync(mkdtempSync('/var/tmp/nacre-learn-'))
  for (const name of ['work', 'data/many', 'data/deep/a/b', 'out', 'tools', 'home/.ssh']) {
    mkdirSync(at(name), { recursive: true })
  }
  for (const name of ['data/one', 'data/two', 'data/deep/a/b/c', 'home/.ssh/id', 'home/.settings']) {
    writeFileSync(at(name), 'text\n')
  }
  for (let n = 0; n < 20; n++) writeFileSync(at(`data/many/${n}`), '')
  writeFileSync(at('tools/tool'), '#!/bin/sh\necho tool\n', { mode: 0o755 })
  symlinkSync('../data', at('tools/link'))
})

afterAll(() => rmSync(directory, { recursive: true, force: true }))

function learn({ start }: Cli, words: string[], command: string): Promise<Ended> {
  const env = { HOME: at('home'), D: directory }
  return start(['learn', '--cwd', at('work'), ...words, command], '', env).ended
}

const rules = (read: string[], write: string[], allow: string[] = []) => ({
  preset: 'workspace',
  filesystem: { read: read.map(at), write: ['.', ...write.map(at)] },
  network: { allow },
})

it('prints what a command has used outside of the project, and proves it', () =>
  withCli(async (cli) => {
    const { code, stdout, stderr } = await learn(
      cli,
      [],
      'echo out; cat $D/data/one $D/home/.settings $D/data/none; cat $D/data/many/* > own; cat $D/data/deep/a/b/c > $D/out/new; $D/tools/tool',
    )
    expect(stderr).toMatch(/nacre: proven: exit code 0/)
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual(
      rules(['data/deep/a/b/c', 'data/many', 'data/one', 'home/.settings', 'tools/tool'], ['out']),
    )
    expect(stderr).toContain(`nacre: read: ${at('data/many')} (20 files)\n`)
    expect(stderr.match(/^out$/gm)).toHaveLength(2)
  }))

it('opens the directory of a link, and what it leads to', () =>
  withCli(async (cli) => {
    const { code, stdout } = await learn(cli, [], 'cat $D/tools/link/one')
    expect(JSON.parse(stdout)).toEqual(rules(['data/one', 'tools'], []))
    expect(code).toBe(0)
  }))

it('lists hosts with their ports', () =>
  withCli(async (cli) => {
    const server = createServer((_, response) => response.end('hello\n')).listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as { port: number }
    const url = `http://127.0.0.1:${port}/`
    const { code, stdout, stderr } = await learn(cli, [], `curl -sf --noproxy '' ${url}`)
    server.close()
    expect([code, stderr]).toEqual([0, expect.stringContaining('proven')])
    expect(JSON.parse(stdout)).toEqual(rules([], [], [`127.0.0.1:${port}`]))
  }))

it('keeps secrets hidden, and says what was refused if the command does not pass without them', () =>
  withCli(async (cli) => {
    const { code, stdout, stderr } = await learn(cli, [], 'cat ~/.ssh/id')
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toEqual(rules([], []))
    expect(stderr).toContain(`nacre: stays hidden: ${at('home/.ssh/id')}\n`)
    expect(stderr).toContain('not proven: exit code 1 under these rules, and 0 without them')
    expect(stderr).toContain(`refused: read ${at('home/.ssh/id')} by isolation.filesystem.hide`)
  }))

it('never opens a home directory or a directory around the project', () =>
  withCli(async (cli) => {
    const { stdout } = await learn(
      cli,
      ['--once'],
      'ls ~ .. /; touch ~/.created; touch ../beside; rm ../beside',
    )
    expect(JSON.parse(stdout)).toEqual(rules([], ['home/.created']))
  }))

it('prints TypeScript with the numbers of files, and runs once if asked to', () =>
  withCli(async (cli) => {
    const { code, stdout, stderr } = await learn(
      cli,
      ['--once', '--typescript'],
      'cat $D/data/many/*; exit 3',
    )
    expect(code).toBe(3)
    expect(stderr).not.toContain('proven')
    expect(stdout).toContain("import { Sandbox } from 'nacre'\n")
    expect(stdout).toContain(`        ${JSON.stringify(at('data/many'))} // files: 20\n`)
    expect(stdout).toContain('    preset: "workspace",\n')
  }))
