/** `nacre workspace`: what `nacre try` has kept is listed, shown, committed and discarded. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'
import { type Cli, withCli } from '../helpers/cli.js'

/** A directory, and the id of a workspace over it with three changes. */
async function kept({ nacre, root }: Cli): Promise<{ cwd: string; id: string }> {
  const cwd = path.join(path.dirname(root), 'place')
  mkdirSync(path.join(cwd, 'sub'), { recursive: true })
  writeFileSync(path.join(cwd, 'old'), 'old\n')
  const command = 'rm old; echo new > sub/new; printf "\\377" > bytes'
  const { stderr } = await nacre('try', '--cwd', cwd, '--then', 'keep', command)
  const [, id = ''] = /kept as (\S+):/.exec(stderr) ?? []
  return { cwd, id }
}

it('lists, shows and commits the changes, some at first', () =>
  withCli(async (cli) => {
    const { cwd, id } = await kept(cli)
    const { nacre } = cli
    expect((await nacre('workspace', 'ls')).stdout).toMatch(
      new RegExp(`^ID +LAST USE +STATE +DIRECTORY\n(?:.*\n)*${id}  \\S+Z  kept +${cwd}$`, 'm'),
    )
    const listed = JSON.parse((await nacre('workspace', 'ls', '--json')).stdout)
    expect(listed).toContainEqual({ id, path: cwd, inUse: false, usedAt: expect.any(String) })
    const changes = 'created  bytes\ndeleted  old\ncreated  sub/new\n'
    expect(await nacre('workspace', 'diff', id, '--list')).toEqual({ code: 0, stdout: changes, stderr: '' })
    const patch = (await nacre('workspace', 'diff', id, 'sub')).stdout
    expect(spawnSync('git', ['apply', '--check', '-'], { cwd, input: patch }).status).toBe(0)
    expect(await nacre('workspace', 'commit', id, 'sub', 'bytes')).toMatchObject({
      ...{ code: 0, stderr: 'nacre: committed 2 changes\n' },
    })
    expect(readFileSync(path.join(cwd, 'bytes'))).toEqual(Buffer.of(255))
    expect([existsSync(path.join(cwd, 'sub/new')), existsSync(path.join(cwd, 'old'))]).toEqual([true, true])
    expect(await nacre('workspace', 'commit', id)).toMatchObject({
      code: 0,
      stderr: `nacre: committed 1 change\nnacre: removed the workspace ${id}, which has no changes left\n`,
    })
    expect(existsSync(path.join(cwd, 'old'))).toBe(false)
    expect((await nacre('workspace', 'ls')).stdout).not.toContain(id)
  }))

it('discards the changes, and removes a workspace', () =>
  withCli(async (cli) => {
    const { cwd, id } = await kept(cli)
    const { nacre } = cli
    expect((await nacre('workspace', 'discard', id, 'old')).stderr).toBe('nacre: discarded 1 change\n')
    expect((await nacre('workspace', 'diff', id, '--list')).stdout).toBe('created  bytes\ncreated  sub/new\n')
    expect(await nacre('workspace', 'discard', id)).toMatchObject({
      code: 0,
      stderr: `nacre: discarded 2 changes\nnacre: removed the workspace ${id}, which has no changes left\n`,
    })
    const gone = await nacre('workspace', 'rm', id)
    expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining(id)])
    expect(existsSync(path.join(cwd, 'bytes'))).toBe(false)
    await cli.nacre('workspace', 'rm', (await kept(cli)).id)
  }))

it('says why it cannot show a workspace of another version, and removes it', () =>
  withCli(async (cli) => {
    const { id } = await kept(cli)
    const about = path.join(os.tmpdir(), `nacre-${process.getuid?.()}/workspaces/id-${id}/about`)
    writeFileSync(about, readFileSync(about, 'latin1').replace(/ \d+\n/, ' 99\n'), 'latin1')
    expect((await cli.nacre('workspace', 'ls')).stdout).toMatch(
      new RegExp(`^${id} .* kept +\\(cannot be read\\)$`, 'm'),
    )
    for (const verb of ['diff', 'commit', 'discard']) {
      const refused = await cli.nacre('workspace', verb, id)
      expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('another version of nacre')])
    }
    expect((await cli.nacre('workspace', 'rm', id)).code).toBe(0)
    expect((await cli.nacre('workspace', 'ls')).stdout).not.toContain(id)
  }))

it('keeps the workspace after a conflict', () =>
  withCli(async (cli) => {
    const { cwd, id } = await kept(cli)
    const { nacre } = cli
    writeFileSync(path.join(cwd, 'old'), 'theirs\n')
    const refused = await nacre('workspace', 'commit', id)
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("have changed 'old'")])
    expect((await nacre('workspace', 'commit', '--force', id)).code).toBe(0)
    expect(existsSync(path.join(cwd, 'old'))).toBe(false)
  }))
