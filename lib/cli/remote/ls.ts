/**
 * `nacre ls`: the files of a directory on a server, one line for each.
 */
import type { Command } from 'commander'
import type { FileInfo } from '../../calls/index.js'
import { withExamples } from '../examples.js'
import { printable, printJson, printLine } from '../terminal.js'
import { type SessionOptions, useFiles, withFiles } from './server.js'

interface Options extends SessionOptions {
  recursive?: boolean
  long?: boolean
  json?: boolean
}

export function addLs(program: Command): void {
  const ls = withFiles(program.command('ls'))
    .description('list files of a sandbox on a server')
    .argument('[path]', "a path relative to the session's directory", '.')
    .option('-r, --recursive', 'list subdirectories too')
    .option('-l, --long', 'print permissions, size and time before each path')
    .option('--json', 'print JSON')
    .action(async (path: string, options: Options) => {
      const { recursive, long, json } = options
      const list = await useFiles(options, (files) => files.list(path, { recursive }))
      if (json) return printJson(list)
      for (const file of list) await printLine(long ? longLine(file) : shown(file))
    })
  withExamples(ls, [
    ['nacre ls', 'lists the directory of the default session'],
    ['nacre ls -l --session tests src', 'prints permissions, sizes and times'],
    ['nacre ls -r --json --url https://example.com', 'prints all files below as JSON'],
  ])
}

const LETTERS: Record<FileInfo['type'], string> = { file: '-', directory: 'd', symlink: 'l', other: '?' }

function longLine(file: FileInfo): string {
  const mode = (file.mode & 0o7777).toString(8).padStart(4, '0')
  const size = String(file.size).padStart(12)
  return `${LETTERS[file.type]} ${mode} ${size} ${file.modifiedAt.toISOString()} ${shown(file)}`
}

/** One line whatever the name holds. */
function shown({ path, type, target }: FileInfo): string {
  return type === 'symlink' ? `${printable(path)} -> ${printable(target ?? '')}` : printable(path)
}
