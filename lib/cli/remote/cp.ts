/**
 * `nacre cp`: copies files between this machine and a sandbox on a server. Permissions are kept. As with cp, a copy into
 * an existing directory gets the name of the original.
 */
import { statSync } from 'node:fs'
import path from 'node:path'
import type { Command } from 'commander'
import { invalidOption } from '../../base/errors.js'
import type { Files, FileTransfer } from '../../calls/index.js'
import { withExamples } from '../examples.js'
import { printable, write } from '../terminal.js'
import { type SessionOptions, useFiles, withFiles } from './server.js'

interface Options extends SessionOptions {
  recursive?: boolean
}

const REMOTE = 'remote:'
/** Standard input or output. A file of this name is `./-`. */
const STANDARD = '-'

export function addCp(program: Command): void {
  const cp = withFiles(program.command('cp'))
    .description(
      `copy files to or from a sandbox on a server; remote paths begin with ${REMOTE}, and - is standard input or output`,
    )
    .argument('<from>')
    .argument('<to>')
    .option('-r, --recursive', 'copy directories and their content')
    .action(copy)
  withExamples(cp, [
    [
      `nacre cp data.csv ${REMOTE}input/data.csv`,
      "copies to the session's directory, and creates missing parents",
    ],
    [`nacre cp ${REMOTE}report.pdf .`, 'copies to the current directory'],
    [`pg_dump | nacre cp - ${REMOTE}dump.sql`, 'copies the output of a program'],
    [`nacre cp -r src ${REMOTE}/workspace/src`, 'copies a directory and its content'],
  ])
}

async function copy(from: string, to: string, options: Options): Promise<void> {
  const recursive = options.recursive ?? false
  if (from.startsWith(REMOTE) === to.startsWith(REMOTE))
    throw invalidOption(`one of the two paths must begin with ${REMOTE}, and only one`)
  if (recursive && [from, to].includes(STANDARD))
    throw invalidOption('--recursive is for directories: leave it out, or name a directory')
  await useFiles(options, async (files) => {
    if (from === STANDARD) return void (await files.write(to.slice(REMOTE.length), process.stdin))
    if (to === STANDARD) return print(files, from.slice(REMOTE.length))
    if (to.startsWith(REMOTE)) {
      requireRecursive(from, statSync(from).isDirectory(), recursive)
      return report(await files.copyIn(from, await into(files, to.slice(REMOTE.length), from), LIMITS))
    }
    const original = from.slice(REMOTE.length) || '.'
    requireRecursive(original, (await files.stat(original))?.type === 'directory', recursive)
    const target = isDirectory(to) ? inside(to, original) : to
    return report(await files.copyOut(original, target, LIMITS))
  })
}

/** The disk is the limit. */
const LIMITS = { maxBytes: Number.MAX_SAFE_INTEGER }

function requireRecursive(from: string, isDirectory: boolean, recursive: boolean): void {
  if (isDirectory && !recursive) throw invalidOption(`${from} is a directory: copy it with --recursive`)
}

function isDirectory(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false
}

function report({ skipped }: FileTransfer): void {
  for (const file of skipped)
    process.stderr.write(`nacre: ${printable(file)} is not a regular file, and was left out\n`)
}

async function print(files: Files, file: string): Promise<void> {
  for await (const piece of files.readStream(file)) if (!(await write(process.stdout, piece))) return
}

/** The copy of an original in a directory. The content of `.` and of `..` goes into the directory itself. */
function inside(directory: string, original: string): string {
  const name = path.posix.basename(original)
  return name === '..' ? directory : path.join(directory, name)
}

async function into(files: Files, to: string, from: string): Promise<string> {
  const target = to === '' ? '.' : to
  if ((await files.stat(target))?.type !== 'directory') return target
  return path.posix.join(target, path.basename(path.resolve(from)))
}
