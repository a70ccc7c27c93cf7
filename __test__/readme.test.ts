/**
 * The code in README.md: every block marked `js run` runs as it stands, on Node and on Bun, and prints what its comments
 * say. A comment is either behind a `console.log(...)` or a line of its own, `// prints: ...`.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const root = path.dirname(__dirname)
/** How the runtime of this process runs a text. The suite runs on Node and on Bun. */
const args = process.versions.bun === undefined ? ['--input-type=module', '-e'] : ['-e']

interface Block {
  /** The line of the README that it starts at. */
  line: number
  code: string
}

function findBlocks(markdown: string): Block[] {
  return Array.from(markdown.matchAll(/^```(?:js|ts) run\n(.*?)^```$/gms), ({ index, 1: code = '' }) => ({
    line: markdown.slice(0, index).split('\n').length + 1,
    code,
  }))
}

/** What the comments of a block say that it prints. */
function promises(code: string): string[] {
  return code.split('\n').flatMap((line) => {
    const comment = /^\/\/ prints: (.*)$/.exec(line) ?? /console\.log\(.*\)+ \/\/ (.*)$/.exec(line)
    return comment?.[1] === undefined ? [] : [comment[1]]
  })
}

describe('README.md', () => {
  const blocks = findBlocks(readFileSync(path.join(root, 'README.md'), 'utf8'))

  it('has code that runs', () => {
    expect(blocks.length).toBeGreaterThan(4)
    for (const block of blocks) expect(promises(block.code).length).toBeGreaterThan(0)
  })

  for (const { line, code } of blocks) {
    it(`prints what it says at line ${line}`, async () => {
      const { stdout, stderr } = await promisify(execFile)(process.execPath, [...args, code], { cwd: root })
      expect(stderr).toBe('')
      expect(stdout.trimEnd().split('\n')).toEqual(promises(code))
    })
  }
})
