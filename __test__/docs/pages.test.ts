/** The pages of docs/: every code block marked `run` runs as it stands and prints what its comments promise. */
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import {
  findSteps,
  outputsOf,
  pages,
  pattern,
  promises,
  readPage,
  root,
  runCode,
  runnable,
  scriptOf,
} from '../helpers/markdown.js'
import { temporary } from '../helpers/temporary.js'

/** Its commands need a server; `packages/server/__test__/examples.test.ts` runs them. */
const WITH_SERVER = 'docs/http.md'

for (const page of pages()) {
  const markdown = readPage(page)
  const blocks = runnable(markdown)
  const steps = page === WITH_SERVER ? [] : findSteps(markdown)
  if (blocks.length + steps.length === 0) continue

  describe(page, () => {
    for (const block of blocks) {
      it(`prints what it says at line ${block.line}`, async () => {
        expect(promises(block.code).length).toBeGreaterThan(0)
        const { stdout, stderr } = await runCode(block)
        expect(stderr).toBe('')
        expect(stdout.trimEnd().split('\n')).toEqual(promises(block.code))
      })
    }

    if (steps.length > 0) {
      it('has shell commands that print what it says', async () => {
        const base = temporary('nacre-pages-')
        const { stdout, stderr } = await runShell(scriptOf(steps), base)
        expect(stderr).toBe('')
        const outputs = outputsOf(stdout)
        for (const [index, { code, prints }] of steps.entries())
          expect(outputs[index], code).toMatch(pattern(prints))
      })
    }
  })
}

/** Runs a script in an empty directory, with `nacre` on PATH and jobs of its own. */
async function runShell(script: string, base: string): Promise<{ stdout: string; stderr: string }> {
  const bin = path.join(base, 'bin')
  mkdirSync(bin)
  const program = path.join(bin, 'nacre')
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${root}/dist/cli/main.js" "$@"\n`)
  chmodSync(program, 0o755)
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}`, TMPDIR: base, NO_COLOR: '1' }
  return promisify(execFile)('bash', ['--norc', '-euc', script], { cwd: base, env })
}
