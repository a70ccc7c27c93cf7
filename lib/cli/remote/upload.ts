/** Copies files of this machine to a server. */
import { lstatSync, readdirSync, readlinkSync, type Stats, statSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { OptionError } from '../../base/errors.js'
import type { Files } from '../../calls/index.js'
import { printable } from '../terminal.js'

const PIECE_BYTES = 256 * 1024

export function isDirectory(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false
}

export async function upload(files: Files, from: string, to: string, recursive: boolean): Promise<void> {
  const stats = statSync(from)
  if (stats.isFile()) return send(files, Buffer.from(from), Buffer.from(to), stats)
  if (!stats.isDirectory())
    throw new OptionError('INVALID_OPTION', `${from} is neither a file nor a directory`)
  if (!recursive) throw new OptionError('INVALID_OPTION', `${from} is a directory: copy it with --recursive`)
  // The server may serve this very directory: copies must not become originals.
  const tree = [...originals(Buffer.from(from), Buffer.from(to))]
  if ((await files.stat(to)) === null) await files.mkdir(to)
  for (const { own, copy, stats } of tree) {
    if (stats.isFile()) await send(files, own, copy, stats)
    else if ((await files.stat(copy)) === null) await files.mkdir(copy)
  }
}

interface Original {
  own: Buffer
  copy: Buffer
  stats: Stats
}

/**
 * The files and directories below a directory, each directory before its content. Paths are bytes: names need not be
 * UTF-8. Symlinks are left out, since no call creates them.
 */
function* originals(from: Buffer, to: Buffer): Generator<Original> {
  for (const name of readdirSync(from, { encoding: 'buffer' })) {
    const [own, copy] = [joined(from, name), joined(to, name)]
    const stats = lstatSync(own)
    if (stats.isDirectory() || stats.isFile()) yield { own, copy, stats }
    else skipped(own, stats)
    if (stats.isDirectory()) yield* originals(own, copy)
  }
}

async function send(files: Files, from: Buffer, to: Buffer, { mode }: Stats): Promise<void> {
  await files.write(to, piecesOf(from), { mode: mode & 0o777 })
}

/** The content of a file. Not by a stream: those of Bun take no paths as bytes. */
async function* piecesOf(file: Buffer): AsyncGenerator<Uint8Array> {
  const handle = await open(file)
  try {
    for (;;) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(PIECE_BYTES))
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await handle.close()
  }
}

function skipped(file: Buffer, stats: Stats): void {
  const what = stats.isSymbolicLink() ? `a symlink to ${readlinkSync(file)}` : 'not a regular file'
  process.stderr.write(`nacre: ${printable(String(file))} is ${what}, and was left out\n`)
}

export function joined(directory: Uint8Array, name: Uint8Array): Buffer {
  return Buffer.concat([directory, Buffer.from('/'), name])
}
