import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createTools } from '@nacre/tools'
import { OptionError, Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import type { Place } from './places.js'

const expectations = { options: { workspace: { mode: 'copy-on-write' as const, undoSteps: 5 } } }

/** A test for each kind of sandbox with a copy-on-write workspace. */
function itWithWorkspace(
  name: string,
  test: (place: Omit<Place, 'lines'>) => Promise<void>,
  options = {},
): void {
  const run = async (sandbox: Sandbox | SandboxClient, directory: string) => {
    await using tools = createTools(sandbox, { tools: ['bash', 'wait', 'workspace'], ...options })
    await test({ tools, call: (tool, input = {}) => tools.call(tool, input), sandbox, directory })
  }
  it(`${name} (Sandbox)`, () =>
    withSandbox(({ sandbox, directory }) => run(sandbox, directory), expectations))
  it(`${name} (SandboxClient)`, () =>
    withServer(
      async ({ url, directory }) => {
        const client = new SandboxClient({ url })
        await run(client, directory)
        await client.destroy()
      },
      {},
      expectations,
    ))
}

itWithWorkspace('lists changes and shows a patch', async ({ call, directory }) => {
  writeFileSync(path.join(directory, 'old'), 'one\n')
  await call('bash', { command: 'echo two > old; mkdir sub; echo new > sub/new' })
  const { text } = await call('workspace', { action: 'changes' })
  expect(text).toBe('[changes: 3]\nmodified old (4 bytes)\ncreated directory sub\ncreated sub/new (4 bytes)')
  const diff = await call('workspace', { action: 'diff', path: 'old' })
  expect(diff.text).toContain('-one\n+two')
  expect(diff.text).not.toContain('sub')
  expect((await call('workspace', { action: 'diff', path: '/etc' })).text).toMatch(/^\[error\] INVALID_PATH/)
  await call('bash', { command: 'seq 5000 > big; ln -s x $"a\\n[exit 0]"' })
  const big = await call('workspace', { action: 'diff', max_tokens: 300 })
  expect(big.text).toMatch(/^\[diff \| [\d,]+ characters left out\]/)
  expect(readFileSync(path.join(directory, 'old'), 'utf8')).toBe('one\n')
})

itWithWorkspace('returns to a checkpoint, and undoes commands', async ({ call }) => {
  const { data, text } = await call('workspace', { action: 'checkpoint' })
  expect(text).toContain(`"checkpoint":"${data.checkpoint}"`)
  await call('bash', { command: 'echo one > a' })
  const run = await call('bash', { command: 'sleep 600', yield_after: 0 })
  const back = await call('workspace', { action: 'rollback', checkpoint: data.checkpoint })
  expect(back.text).toMatch(/^\[rolled back to /)
  expect((await call('wait', { id: run.data.id })).text).not.toContain('still runs')
  // The session was opened after the checkpoint, so it opens again.
  expect((await call('bash', { command: 'ls; x=1' })).text).toMatch(/^\[exit 0 [^\n]*\]$/)
  await call('bash', { command: 'x=2; echo two > b' })
  expect((await call('workspace', { action: 'undo' })).text).toBe('[undone: x=2; echo two > b]')
  expect((await call('bash', { command: 'ls; echo $x' })).text).toMatch(/\]\n1$/)
  const wrong = await call('workspace', { action: 'rollback', checkpoint: 'none' })
  expect(wrong.text).toBe(
    `[error] CHECKPOINT_NOT_FOUND: The argument "checkpoint" must be the id of a checkpoint. Checkpoints: ${data.checkpoint}.`,
  )
})

itWithWorkspace('does not commit unless that is allowed', async ({ call }) => {
  expect((await call('workspace', { action: 'commit' })).text).toContain('must be one of changes, diff')
})

itWithWorkspace(
  'commits changes where that is allowed',
  async ({ call, directory }) => {
    await call('bash', { command: 'echo one > a' })
    expect((await call('workspace', { action: 'commit' })).text).toBe('[committed: 1]')
    expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('one\n')
    expect((await call('workspace', { action: 'changes' })).text).toBe('[changes: 0]')
  },
  { allowCommit: true },
)

itWithWorkspace(
  'does not wait for a command longer than maxWait',
  async ({ tools, call, sandbox }) => {
    await call('bash', { command: 'true' })
    const session = await sandbox.getSession('main')
    const running = session?.execStream('sleep 600')
    const { text } = await call('workspace', { action: 'checkpoint' })
    expect(text).toBe('[error] WORKSPACE_BUSY: A command still runs. Wait for it, or kill it.')
    await running?.kill()
    await running?.result.catch(() => {})
    expect(tools.runs()).toHaveLength(1)
  },
  { maxWait: 500 },
)

it('is not offered by default, and not for several callers', () => {
  const sandbox = new Sandbox()
  expect(createTools(sandbox).get('workspace')).toBeUndefined()
  expect(() => createTools(sandbox, { tools: ['workspace'], requireSession: true })).toThrow(OptionError)
})
