/** Code blocks that a reader could run are run by a test, or name the reason why not. All compile as strict TypeScript. */
import { readdirSync } from 'node:fs'
import path from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { companions } from '../../scripts/packages/companions.mjs'
import { type Block, findBlocks, pages, readPage, root } from '../helpers/markdown.js'

const PAGES = ['README.md', 'CONTRIBUTING.md', ...pages()]
/** Where the blocks are compiled: in nacre's own package, which docs/ is not. */
const BASE = path.join(root, 'blocks')
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

/** What `tsc --init` of TypeScript 5.9 and newer writes, which is what a new project has. */
const INIT: ts.CompilerOptions = {
  module: ts.ModuleKind.NodeNext,
  target: ts.ScriptTarget.ESNext,
  declaration: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  strict: true,
  jsx: ts.JsxEmit.ReactJSX,
  verbatimModuleSyntax: true,
  isolatedModules: true,
  noUncheckedSideEffectImports: true,
  moduleDetection: ts.ModuleDetectionKind.Force,
  skipLibCheck: true,
}

/** Compiles files that are only in memory. Returns the errors. */
function compile(files: Map<string, string>): string[] {
  const options: ts.CompilerOptions = {
    ...INIT,
    noEmit: true,
    types: ['node'],
  }
  const host = ts.createCompilerHost(options)
  const { fileExists, getSourceFile } = host
  host.directoryExists = () => true
  host.fileExists = (name) => files.has(name) || fileExists(name)
  host.getSourceFile = (name, settings) => {
    const text = files.get(name)
    return text === undefined ? getSourceFile(name, settings) : ts.createSourceFile(name, text, settings)
  }
  const program = ts.createProgram([...files.keys()], options, host)
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const { line } = file?.getLineAndCharacterOfPosition(start) ?? { line: 0 }
    const page = path.relative(BASE, file?.fileName ?? '').replace(/:\d+\.ts$/, '')
    return `${page}:${line + 1}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
}
