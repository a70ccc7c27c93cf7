/** Code blocks that a reader could run are run by a test, or name the reason why not. All compile as strict TypeScript. */
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { companions } from '../../scripts/packages/companions.mjs'
import { BASE, compile } from '../helpers/compile.js'
import { type Block, findBlocks, pages, readPage, root } from '../helpers/markdown.js'

const PAGES = ['README.md', 'CONTRIBUTING.md', ...pages()]
const RUNNABLE = ['js', 'javascript', 'ts', 'typescript', 'sh', 'bash']

describe('code blocks', () => {
  it.each(PAGES)('in %s run, or say why not', (page) => {
    const unmarked = findBlocks(readPage(page)).filter(
      ({ language, info }) =>
        RUNNABLE.includes(language) &&
        !(info === 'run' && ['js', 'ts', 'sh'].includes(language)) &&
        !/^not-run="[^"]{5,}"$/.test(info),
    )
    expect(unmarked.map(({ line, language, info }) => `${page}:${line} ${language} ${info}`)).toEqual([])
  })

  it('compile with the options of `tsc --init`', () => {
    const files = new Map([
      [path.join(BASE, 'docs/fragments.ts'), FRAGMENTS],
      [path.join(BASE, 'docs/errors.ts'), OWN_ERRORS],
    ])
    for (const [page, blocks] of [...PAGES.map(blocksOf), ...declarations().map(blocksInComments)])
      for (const { line, language, code } of blocks)
        if (['js', 'ts'].includes(language))
          files.set(path.join(BASE, `${page}:${line}.ts`), `${'\n'.repeat(line - 1)}${code}\nexport {}`)
    expect(files.size).toBeGreaterThan(50)
    expect(compile(files)).toEqual([])
  }, 60_000)
})

function blocksOf(page: string): [string, Block[]] {
  return [page, findBlocks(readPage(page))]
}

/** The sources of the published declarations. */
function declarations(): string[] {
  const own = readdirSync(path.join(root, 'lib/calls')).map((name) => `lib/calls/${name}`)
  return [...own, ...companions(root, 'lib/public.ts').map((name) => `packages/${name}/lib/public.ts`)]
}

function blocksInComments(file: string): [string, Block[]] {
  return [file, findBlocks(readPage(file).replaceAll(/^ *\* ?/gm, ''))]
}

/** What fragments use without an import or a declaration. */
const FRAGMENTS = `
import * as nacre from 'nacre'
import * as fleets from '@nacre/fleet'
import * as remote from '@nacre/remote-jobs'
import * as models from '@nacre/tools'
declare global {
  const { Sandbox }: typeof nacre
  const { createRemoteJobs }: typeof remote
  const { SandboxFleet }: typeof fleets
  const { createTools, toAnthropic }: typeof models
  const tools: models.Tools
  const sandbox: nacre.Sandbox
  const fleet: fleets.SandboxFleet
  const hosted: Parameters<typeof remote.createRemoteJobs>[0]
  const daytona: { create(): Promise<typeof hosted> }
  const [url, token, ref, target]: [string, string, string, string]
  const paths: string[]
}`

/** A file of the reader's own. */
const OWN_ERRORS = `
export class ShellTerminatedError extends Error {
  constructor(sessionId: string, exitCode: number | null) { super(sessionId) }
}
export class SessionDestroyedError extends Error {}
`
