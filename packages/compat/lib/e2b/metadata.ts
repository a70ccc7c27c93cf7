/** Metadata of files: extended attributes, which programs of the sandbox read and write as well. */
import type { IncomingMessage } from 'node:http'
import type { FileInfo } from 'nacre'
import { isCode, kinds, plans } from 'nacre/internal'

import { describe, type Entry } from '../entry.js'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import type { FileWriter } from '../rest-files.js'

type Metadata = Record<string, string>

const HEADER = 'x-metadata-'
const NAMESPACE = 'user.e2b.'
/** The kernel's limit for a name, without the namespace. */
const MOST_KEY_BYTES = 255 - NAMESPACE.length
/** Of a file: keys with the namespace, and values. */
const MOST_BYTES = 4096

/** What a request gives to the files that it uploads. Throws HttpError. */
export function metadataIn({ rawHeaders }: IncomingMessage): Metadata {
  const found = new Map<string, string>()
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const header = rawHeaders[at]?.toLowerCase() ?? ''
    if (!header.startsWith(HEADER)) continue
    const key = header.slice(HEADER.length)
    const value = rawHeaders[at + 1] ?? ''
    if (key === '' || key.length > MOST_KEY_BYTES)
      throw new HttpError(400, `a key of metadata must have 1 to ${MOST_KEY_BYTES} bytes`)
    if (!/^[\x20-\x7e]*$/.test(value))
      throw new HttpError(400, `the metadata '${key}' must be printable US-ASCII`)
    // Of a header that is sent twice, the first counts.
    if (!found.has(key)) found.set(key, value)
  }
  const metadata = Object.fromEntries(found)
  const bytes = Object.entries(attributesOf(metadata)).flat().join('').length
  if (bytes > MOST_BYTES)
    throw new HttpError(400, `the metadata has ${bytes} bytes with its names, more than ${MOST_BYTES}`)
  return metadata
}

/** Writes files with this metadata, and none that they had before. */
export function writerWith(metadata: Metadata): FileWriter {
  return async (hosted, file, content) => {
    const files = hosted.backend.files(plans.DEFAULT_SESSION)
    await files.write(plans.planFileWrite(file, content, undefined), attributesOf(metadata))
    const stored = await storedMetadata(hosted, file)
    // A mount point, for example, is written to, and keeps its own.
    const isStored = Object.entries(metadata).every(([key, value]) => stored[key] === value)
    if (!isStored)
      throw new HttpError(400, `'${hosted.view.shown(file)}' was written, but cannot have metadata`)
    return withMetadata(stored)
  }
}

/** Describes a file, with its metadata. */
export async function describeFile(hosted: Hosted, file: string, known?: FileInfo): Promise<Entry> {
  const entry = await describe(hosted, file, known)
  const isFile = entry.type === 'FILE_TYPE_FILE' && !('symlinkTarget' in entry)
  return isFile ? { ...entry, ...withMetadata(await storedMetadata(hosted, file)) } : entry
}

/** Of a regular file, by its path as programs see it. */
async function storedMetadata(hosted: Hosted, file: string): Promise<Metadata> {
  const files = hosted.backend.files(plans.DEFAULT_SESSION)
  const attributes = await files
    .attributes(kinds.checkPath(file, 'path'), NAMESPACE)
    .catch((error: unknown) => {
      // Programs may remove or replace the file meanwhile, or forbid reading it.
      if (isCode(error, 'FILE_NOT_FOUND', 'PERMISSION_DENIED', 'IS_A_DIRECTORY', 'INVALID_PATH')) return {}
      throw error
    })
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [name.slice(NAMESPACE.length), value]),
  )
}

function attributesOf(metadata: Metadata): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata).map(([key, value]) => [NAMESPACE + key, value]))
}

function withMetadata(metadata: Metadata): { metadata?: Metadata } {
  return Object.keys(metadata).length === 0 ? {} : { metadata }
}
