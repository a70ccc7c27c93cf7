/** Copies files of a server to this machine. */
import { randomUUID } from 'node:crypto'
import { chmod, lstat, mkdir, open, rename, rm } from 'node:fs/promises'
import { makeDirectories } from '../../base/directories.js'
import { OptionError, SandboxError } from '../../base/errors.js'
import type { FileInfo, FilePath, Files } from '../../calls/index.js'
import { printable } from '../terminal.js'
import { joined } from './upload.js'

const SLASH = 0x2f
/** No path of Linux is longer; a server could list directories without end. */
const MOST_PATH_BYTES = 4096

export async function download(files: Files, from: string, to: string, recursive: boolean): Promise<void> {
  const found = await files.stat(from)
  if (found === null)
    throw new SandboxError('FILE_NOT_FOUND', `'${from}' does not exist on the server`, { path: from })
  if (found.type !== 'directory') return receive(files, from, Buffer.from(to), found)
  if (!recursive) throw new OptionError('INVALID_OPTION', `${from} is a directory: copy it with --recursive`)
  // The server may serve the directory that this copies to: copies must not become originals.
  const tree = await originals(files, from, Buffer.from(to))
  await makeDirectories(to, 0o777)
  for (const { file, given, copy } of tree) {
    if (file.type === 'file') await receive(files, given, copy, file)
    else await makeDirectory(copy)
  }
}

interface Original {
  file: FileInfo
  given: FilePath
  copy: Buffer
}

/**
 * The files and directories below a directory of the server, each directory before its content.
 *
 * The server is not trusted: it could name a file outside of the target. So a copy is named by the last part of its path
 * alone, which cannot be `..`. Throws REQUEST_REFUSED when the name cannot be that of a file.
 */
async function originals(files: Files, from: FilePath, to: Buffer): Promise<Original[]> {
  if (to.length > MOST_PATH_BYTES) throw badListing(from, 'directories that are nested too deeply')
  const found: Original[] = []
  for (const file of await files.list(from)) {
    const given = Buffer.from(file.pathBytes ?? file.path)
    const name = given.subarray(given.lastIndexOf(SLASH) + 1)
    if (name.includes(0) || ['', '.', '..'].includes(name.toString('latin1')))
      throw badListing(from, `'${printable(file.path)}', which cannot be the name of a file`)
    const copy = joined(to, name)
    if (file.type === 'file' || file.type === 'directory') found.push({ file, given, copy })
    else process.stderr.write(`nacre: ${printable(file.path)} is not a regular file, and was left out\n`)
    if (file.type === 'directory') found.push(...(await originals(files, given, copy)))
  }
  return found
}

function badListing(directory: FilePath, what: string): SandboxError {
  const shown = printable(String(Buffer.from(directory)))
  return new SandboxError('REQUEST_REFUSED', `the server lists in '${shown}' ${what}; nothing was copied`)
}

/**
 * Creates a directory of the copy, unless it exists. A symlink is not followed, whatever it leads to: only the target
 * that the caller has named may be one. A program that replaces a directory by a symlink during the copy can still
 * lead it elsewhere: the target must not be writable for other users.
 */
async function makeDirectory(directory: Buffer): Promise<void> {
  try {
    await mkdir(directory)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    if ((await lstat(directory)).isDirectory()) return
    throw new SandboxError('NOT_A_DIRECTORY', `'${directory}' exists and is not a directory`)
  }
}

/** The copy gets its name once it is complete. */
async function receive(files: Files, from: FilePath, to: Buffer, { mode }: FileInfo): Promise<void> {
  // Beside the copy, whose own name may be as long as a name can be.
  const part = Buffer.concat([
    to.subarray(0, to.lastIndexOf(SLASH) + 1),
    Buffer.from(`.${randomUUID()}.part`),
  ])
  try {
    const handle = await open(part, 'wx', 0o600)
    try {
      for await (const piece of files.readStream(from)) await handle.writeFile(piece)
    } finally {
      await handle.close()
    }
    await chmod(part, mode & 0o777)
    await rename(part, to)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}
