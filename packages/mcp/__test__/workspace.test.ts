import { existsSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { overStdio } from './places.js'

const words = ['--copy-on-write']

it('a copy-on-write workspace has a tool, and its changes are kept for the user', () =>
  overStdio(
    async (given) => {
      const { client, call, directory } = given
      expect((await client.listTools()).tools.map(({ name }) => name).at(-1)).toBe('workspace')
      await call('bash', { command: 'echo one > a' })
      await call('bash', { command: 'echo two > b' })
      await call('workspace', { action: 'undo' })
      const { text } = await call('workspace', { action: 'changes' })
      const [, id = ''] = /^\[changes: 1 \| workspace (mcp-\w+)\]\ncreated a \(4 bytes\)$/.exec(text) ?? []
      expect(existsSync(path.join(directory, 'a'))).toBe(false)
      expect((await call('workspace', { action: 'commit' })).isError).toBe(true)
      expect(client.getInstructions()).toContain('nacre workspace commit')
      await client.close()
      expect(given.stderr()).toContain(`nacre workspace commit ${id}`)
      // As nacre workspace commit does it, with the server's state.
      const stateDir = path.join(given.env.TMPDIR ?? '', `nacre-${process.getuid?.()}`)
      await using sandbox = new Sandbox({
        cwd: directory,
        stateDir,
        workspace: { mode: 'copy-on-write', path: directory, id },
      })
      expect(await sandbox.workspace.commit()).toMatchObject({ applied: 1 })
      expect(existsSync(path.join(directory, 'a'))).toBe(true)
    },
    { words },
  ))

it('--allow-commit lets the tool make changes real, and a workspace without changes is removed', () =>
  overStdio(
    async ({ client, call, directory, env, stderr }) => {
      await call('bash', { command: 'echo one > a' })
      expect((await call('workspace', { action: 'commit' })).text).toBe('[committed: 1]')
      expect(existsSync(path.join(directory, 'a'))).toBe(true)
      await client.close()
      expect(stderr()).not.toContain('kept')
      const stateDir = path.join(env.TMPDIR ?? '', `nacre-${process.getuid?.()}`)
      await using sandbox = new Sandbox({ stateDir })
      expect(await sandbox.workspace.list()).toEqual([])
    },
    { words: [...words, '--allow-commit'] },
  ))
