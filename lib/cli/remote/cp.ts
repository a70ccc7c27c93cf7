/**
 * `nacre cp`: copies files between this machine and a sandbox on a server. Permissions are kept. As with cp, a copy into
 * an existing directory gets the name of the original.
 */
import path from 'node:path'
import type { Command } from 'commander'
import { OptionError } from '../../base/errors.js'
import type { Files } from '../../calls/index.js'
import { withExamples } from '../examples.js'
import { write } from '../terminal.js'
import { download } from './download.js'
import { type SessionOptions, useFiles, withFiles } from './server.js'
import { isDirectory, upload } from './upload.js'

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
    throw new OptionError('INVALID_OPTION', `one of the two paths must begin with ${REMOTE}, and only one`)
  if (recursive && [from, to].includes(STANDARD))
    throw new OptionError(
      'INVALID_OPTION',
      '--recursive is for directories: leave it out, or name a directory',
    )
  await useFiles(options, async (files) => {
    if (from === STANDARD) return void (await files.write(to.slice(REMOTE.length), process.stdin))
    if (to === STANDARD) return print(files, from.slice(REMOTE.length))
    if (to.startsWith(REMOTE))
      return upload(files, from, await into(files, to.slice(REMOTE.length), from), recursive)
    const original = from.slice(REMOTE.length) || '.'
    return download(files, original, isDirectory(to) ? inside(to, original) : to, recursive)
  })
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
