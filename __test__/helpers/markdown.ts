/**
 * Code blocks of Markdown pages, and the output that they promise. A block marked `run` runs as it is, TypeScript without
 * its types; any other block of a language that could run has `not-run="the reason"`.
 */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import ts from 'typescript'

export const root = path.dirname(path.dirname(__dirname))

/** The arguments that make this process's runtime run a text. The suite runs on Node and on Bun. */
const args = process.versions.bun === undefined ? ['--input-type=module', '-e'] : ['-e']

export interface Block {
  /** The line where its code starts. */
  line: number
  language: string
  /** The words after the language, like `run`. */
  info: string
  code: string
}

/** Commands with their output. */
export interface Step {
  code: string
  prints: string
}

/** The pages of `docs` that are handwritten or committed, as paths from the root. */
export function pages(): string[] {
  return readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && !/^(node_modules|\.vitepress|options|reference)\//.test(name))
    .map((name) => `docs/${name}`)
    .sort()
}

export function readPage(page: string): string {
  return readFileSync(path.join(root, page), 'utf8')
}

export function findBlocks(markdown: string): Block[] {
  return Array.from(
    markdown.matchAll(/^```(\w+)(?: ([^\n]*))?\n(.*?)^```$/gms),
    ({ index, 1: language = '', 2: info = '', 3: code = '' }) => ({
      line: markdown.slice(0, index).split('\n').length + 1,
      language,
      info,
      code,
    }),
  )
}

/** The JavaScript and TypeScript of a page that runs. */
export function runnable(markdown: string): Block[] {
  return findBlocks(markdown).filter(
    ({ language, info }) => ['js', 'ts'].includes(language) && info === 'run',
  )
}

/** The lines that a block promises to print: `console.log(...) // line`, or `// prints: line`. */
export function promises(code: string): string[] {
  return code.split('\n').flatMap((line) => {
    const comment = /^\/\/ prints: (.*)$/.exec(line) ?? /console\.log\(.*\)+ \/\/ (.*)$/.exec(line)
    return comment?.[1] === undefined ? [] : [comment[1]]
  })
}

/** Runs a block as a separate program in the root of the repository. */
export function runCode({ language, code }: Block): Promise<{ stdout: string; stderr: string }> {
  const { ESNext } = ts.ModuleKind
  const compilerOptions = { module: ESNext, target: ts.ScriptTarget.ES2022 }
  const program = language === 'ts' ? ts.transpileModule(code, { compilerOptions }).outputText : code
  return promisify(execFile)(process.execPath, [...args, program], { cwd: root })
}

/** The shell commands of a page that run, in order. The comments after a command are its output. */
export function findSteps(markdown: string): Step[] {
  const blocks = findBlocks(markdown).filter(({ language, info }) => language === 'sh' && info === 'run')
  return blocks.flatMap(({ code: block }) =>
    Array.from(block.matchAll(/((?:^(?!# ).*\n)+)((?:^# .*\n)*)/gm), ([, code = '', comment = '']) => ({
      code,
      prints: comment.replaceAll(/^# /gm, ''),
    })),
  )
}

/** Separates the outputs of two steps. */
const SEPARATOR = '\x1e'

/** One script for all steps. */
export function scriptOf(steps: Step[]): string {
  return steps.map(({ code }) => `${code}printf '${SEPARATOR}'\n`).join('')
}

/** The outputs of the steps of such a script. */
export function outputsOf(stdout: string): string[] {
  return stdout.split(SEPARATOR).map((output) => output.trim())
}

/** Matches an output against a promise, where `...` stands for anything on its line. */
export function pattern(prints: string): RegExp {
  const escaped = prints.trim().replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  return new RegExp(`^${escaped.replaceAll('\\.\\.\\.', '.*')}$`)
}
