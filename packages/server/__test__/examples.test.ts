/**
 * The examples of docs/http.md: every block marked `sh run` runs as it stands, in one shell, against a real server, and
 * prints what the comments behind its commands say. `...` in a comment stands for anything on that line.
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { findSteps, outputsOf, pattern, readPage, scriptOf } from '../../../__test__/helpers/markdown.js'
import { temporary } from '../../../__test__/helpers/temporary.js'

describe('the examples of docs/http.md', () => {
  const steps = findSteps(readPage('docs/http.md'))

  it('run against a server, and print what the page shows', async () => {
    expect(steps.length).toBeGreaterThan(10)
    const base = temporary('nacre-examples-')
    await withServer(
      async ({ serving }) => {
        writeFileSync(path.join(base, 'token'), 'a-token-for-tests\n')
        const { stdout, stderr } = await promisify(execFile)(
          'bash',
          ['--norc', '-euc', scriptOf(steps).replaceAll(':4747', `:${serving.port}`)],
          { cwd: base },
        )
        expect(stderr).toBe('')
        const outputs = outputsOf(stdout)
        for (const [index, { code, prints }] of steps.entries())
          expect(outputs[index], code).toMatch(pattern(prints))
      },
      { token: 'a-token-for-tests' },
      { options: { jobsRoot: path.join(base, 'jobs') } },
    )
  })

  it('use the token and the media type that the server wants', () => {
    const text = steps.map(({ code }) => code).join('')
    expect(text).toContain('Authorization: Bearer')
    expect(text).toContain('Content-Type: application/json')
  })
})
