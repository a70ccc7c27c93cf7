/** examples/agent-tools, run to its end in a workspace that is kept. */
import { mkdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'

let example: Example
let workspace: string
let stdout: string

/** What the loop printed for the call that begins with a text. */
function resultOf(call: string): string {
  const found = stdout.split(/^(?=> |answer: )/m).find((part) => part.startsWith(`> ${call}`))
  return found?.slice(found.indexOf('\n') + 1) ?? `no call ${call} in:\n${stdout}`
}

beforeAll(async () => {
  example = await openExample('agent-tools')
  workspace = path.join(example.directory, 'workspace')
  mkdirSync(workspace)
  const run = await example.run('main.js', workspace)
  expect(run).toMatchObject({ exitCode: 0, stderr: '' })
  stdout = run.stdout
}, 60_000)

afterAll(() => example.remove())

describe('the agent-tools example', () => {
  it('ends with the answer of the model', () => {
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('answer: done after 11 calls')
  })

  it('starts a server in the state of the session and shows its log', () => {
    expect(resultOf('start_server')).toBe('web listens on port 8080, running\n')
    expect(resultOf('server_log')).toBe('GET /health\n')
    expect(resultOf('stop_server')).toBe('web stopped\n')
  })

  it('cuts output to the budget and keeps all of it in the log', () => {
    const result = resultOf('run {"command":"for i in')
    expect(result).toMatch(/^\[exit code 3\]\nrequest 1 ok\n/)
    expect(result).toMatch(/\n\[327,\d{3} bytes omitted\]\n/)
    expect(result).toContain('request 20001 FAILED\nThe full output is in ')
    expect(result.length).toBeLessThan(1200)
    const log = readFileSync(path.join(workspace, '.logs/3.log'), 'utf8').trimEnd().split('\n')
    expect(log.length).toBe(20_001)
    expect(resultOf('run {"command":"grep')).toBe('[exit code 0]\n20000\n')
  })

  it('reports a timeout with the output until then, which is in the log as well', () => {
    expect(resultOf('run {"command":"echo waiting')).toMatch(/^\[timed out after \d+ ms\]\nwaiting\n$/)
    expect(readFileSync(path.join(workspace, '.logs/6.log'), 'utf8')).toBe('waiting\n')
  })

  it('keeps the state after mistakes and refuses writes outside of the workspace', () => {
    expect(resultOf('run {"command":"echo \\"never')).toMatch(/^\[exit code 2\]\nbash: /)
    expect(resultOf('run {"command":"touch')).toMatch(/cannot touch.*\nPORT is still 8080\n$/)
  })
})
