/**
 * `nacre cp`: copies files between this machine and a sandbox on a server. Permissions are kept. As with cp, a copy into
 * an existing directory gets the name of the original.
 */
import path from 'node:path'
import type { Command } from 'commander'
import { OptionError } from '../../base/errors.js'
import type { Files } from '../../calls/index.js'
import { withExamples } from '../examples.js'
import { download } from './download.js'
import { type ServerOptions, useFiles, withServer } from './server.js'
import { isDirectory, upload } from './upload.js'

interface Options extends ServerOptions {
  recursive?: boolean
}

const REMOTE = 'remote:'

export function addCp(program: Command): void {
  const cp = withServer(program.command('cp'))
    .description(`copy files to or from a sandbox on a server; remote paths begin with ${REMOTE}`)
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
    [`nacre cp -r src ${REMOTE}/workspace/src`, 'copies a directory and its content'],
  ])
}

async function copy(from: string, to: string, options: Options): Promise<void> {
  const recursive = options.recursive ?? false
  if (from.startsWith(REMOTE) === to.startsWith(REMOTE))
    throw new OptionError('INVALID_OPTION', `one of the two paths must begin with ${REMOTE}, and only one`)
  await useFiles(options, async (files) => {
    if (to.startsWith(REMOTE))
      return upload(files, from, await into(files, to.slice(REMOTE.length), from), recursive)
    const original = from.slice(REMOTE.length) || '.'
    return download(files, original, isDirectory(to) ? inside(to, original) : to, recursive)
  })
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
