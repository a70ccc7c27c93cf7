/** Compiles code of the documentation as strict TypeScript. */
import path from 'node:path'
import ts from 'typescript'
import { root } from './markdown.js'

/** Where the blocks are compiled: in nacre's own package, which docs/ is not. */
export const BASE = path.join(root, 'blocks')

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

/** Compiles files that are only in memory, below `BASE`. Returns the errors. */
export function compile(files: Map<string, string>): string[] {
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
