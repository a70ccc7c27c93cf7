/**
 * The examples of docs/http.md: every block marked `sh run` runs as it stands, in one shell, against a real server, and
 * prints what the comments behind its commands say. `...` in a comment stands for anything on that line.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { withServer } from '../helpers/http.js'

const page = readFileSync(path.join(path.dirname(path.dirname(__dirname)), 'docs/http.md'), 'utf8')

/** Between the outputs of two steps. */
const SEPARATOR = '\x1e'

/** Commands, and what they print. */
interface Step {
  code: string
  prints: string
}

function findSteps(markdown: string): Step[] {
  const blocks = Array.from(markdown.matchAll(/^```sh run\n(.*?)^```$/gms), ([, code = '']) => code)
  return blocks.flatMap((block) =>
    Array.from(block.matchAll(/((?:^(?!# ).*\n)+)((?:^# .*\n)*)/gm), ([, code = '', comment = '']) => ({
      code,
      prints: comment.replaceAll(/^# /gm, ''),
    })),
  )
}

/** What an output has to be like. */
function pattern(prints: string): RegExp {
  const escaped = prints.trim().replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp(`^${escaped.replaceAll('\\.\\.\\.', '.*')}$`)
}

describe('the examples of docs/http.md', () => {
  const steps = findSteps(page)

  it('run against a server, and print what the page shows', async () => {
    expect(steps.length).toBeGreaterThan(10)
    const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-examples-'))
    try {
      await withServer(
        async ({ serving }) => {
          writeFileSync(path.join(base, 'token'), 'a-token-for-tests\n')
          const script = steps.map(({ code }) => `${code}printf '${SEPARATOR}'\n`).join('')
          const { stdout, stderr } = await promisify(execFile)(
            'bash',
            ['--norc', '-euc', script.replaceAll(':4747', `:${serving.port}`)],
            { cwd: base },
          )
          expect(stderr).toBe('')
          const outputs = stdout.split(SEPARATOR)
          for (const [index, { code, prints }] of steps.entries())
            expect(outputs[index]?.trim(), code).toMatch(pattern(prints))
        },
        { token: 'a-token-for-tests' },
        { mayStall: true, options: { jobsRoot: path.join(base, 'jobs') } },
      )
    } finally {
      rmSync(base, { recursive: true })
    }
  })

  it('use the token and the media type that the server wants', () => {
    const text = steps.map(({ code }) => code).join('')
    expect(text).toContain('Authorization: Bearer')
    expect(text).toContain('Content-Type: application/json')
  })
})
