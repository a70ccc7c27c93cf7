/** examples/agent-sdks: the SDKs are real, and the models are scripts behind the APIs of their vendors. */
import { mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'
import * as proc from '../helpers/proc.js'
import { type ScriptedModel, scriptModel, type Turn } from '../helpers/scripted-model.js'

const SDKS = ['ai', '@ai-sdk/anthropic', '@anthropic-ai/sdk', 'openai']
const EIGHT = ['bash', 'wait', 'write', 'output', 'kill', 'service', 'sessions', 'jobs']

const PROGRAMS = [
  { file: 'ai-sdk', vendor: 'anthropic', variables: (url: string) => ({ ANTHROPIC_BASE_URL: `${url}/v1` }) },
  { file: 'anthropic', vendor: 'anthropic', variables: (url: string) => ({ ANTHROPIC_BASE_URL: url }) },
  { file: 'openai', vendor: 'openai', variables: (url: string) => ({ OPENAI_BASE_URL: `${url}/v1` }) },
] as const

let example: Example

beforeAll(async () => {
  example = await openExample('agent-sdks', ['@nacre/tools', '@types/node', ...SDKS])
  await example.compile()
}, 120_000)

afterAll(() => example?.remove())

describe.each(PROGRAMS)('the example agent-sdks/$file', ({ file, vendor, variables }) => {
  it('runs the commands of the model, returns their results, and leaves nothing behind', async () => {
    const workspace = path.join(example.directory, `work-${file}`)
    mkdirSync(workspace)
    const sleeping = proc.uniqueSleep()
    const script: Turn[] = [
      [{ name: 'bash', input: { command: 'mkdir sub; cd sub; x=5; printf "%s\\n" one two > file' } }],
      [{ name: 'bash', input: { command: 'echo "$x $(wc -l < file)"; echo problem >&2; exit 3' } }],
      [
        { name: 'bash', input: { command: sleeping, yield_after: 0 } },
        { name: 'bash', input: { comand: 'true' } },
      ],
      [{ name: 'wait', input: { id: 'r3', seconds: 0 } }],
      'Two lines.',
    ]
    const model: ScriptedModel = await scriptModel(vendor, script)
    try {
      const env = { ...variables(model.url), ANTHROPIC_API_KEY: 'none', OPENAI_API_KEY: 'none' }
      const run = await example.runWith(env, `dist/${file}.js`, 'Count the lines', workspace)
      expect(run).toEqual({ exitCode: 0, stdout: 'Two lines.\n', stderr: '' })
      expect([model.offered(), model.turns()]).toEqual([EIGHT, script.length])
      expect(readFileSync(path.join(workspace, 'sub/file'), 'utf8')).toBe('one\ntwo\n')
      const [changed, failed, yielded, mistaken, waited] = model.results()
      const directory = path.join(workspace, 'sub')
      expect(changed).toMatch(/^\[exit 0 \| [^|]+ \| cwd [^|]+\]$/)
      expect(failed).toMatch(/^\[exit 3 \| /)
      expect(failed?.split('\n')[0]).toContain(`cwd ${directory}]`)
      expect(failed?.split('\n').slice(1).toSorted()).toEqual(['5 2', 'problem'])
      expect(yielded).toMatch(/^\[r3 still runs \| .*\n\[use wait, output or kill with id "r3"\]$/s)
      expect(mistaken).toMatch(/^\[error\] INVALID_ARGUMENT: .*"comand"/)
      expect(waited).toMatch(/^\[r3 still runs \| /)
      expect(proc.runs(sleeping)).toBe(false)
    } finally {
      await model.close()
    }
  })
})
