/** Copies files of a server to this machine. */
import { randomUUID } from 'node:crypto'
import { chmod, mkdir, open, rename, rm } from 'node:fs/promises'
import { OptionError, SandboxError } from '../../base/errors.js'
import type { FileInfo, FilePath, Files } from '../../public/index.js'
import { joined } from './upload.js'

export async function download(files: Files, from: string, to: string, recursive: boolean): Promise<void> {
  const found = await files.stat(from)
  if (found === null)
    throw new SandboxError('FILE_NOT_FOUND', `'${from}' does not exist on the server`, { path: from })
  if (found.type !== 'directory') return receive(files, from, Buffer.from(to), found)
  if (!recursive) throw new OptionError('INVALID_OPTION', `${from} is a directory: copy it with --recursive`)
  await receiveTree(files, from, Buffer.from(to))
}

async function receiveTree(files: Files, from: FilePath, to: Buffer): Promise<void> {
  await mkdir(to, { recursive: true })
  for (const file of await files.list(from)) {
    const given = file.pathBytes ?? Buffer.from(file.path)
    const name = Buffer.from(given.subarray(given.lastIndexOf(0x2f) + 1))
    const copy = joined(to, name)
    if (file.type === 'directory') await receiveTree(files, given, copy)
    else if (file.type === 'file') await receive(files, given, copy, file)
    else process.stderr.write(`nacre: ${file.path} is not a regular file, and was left out\n`)
  }
}

/** The copy gets its name once it is complete. */
async function receive(files: Files, from: FilePath, to: Buffer, { mode }: FileInfo): Promise<void> {
  const part = Buffer.concat([to, Buffer.from(`.${randomUUID()}.part`)])
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
