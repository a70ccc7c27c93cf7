/** Descriptions of files. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { FileInfo } from 'nacre'
import { RpcError } from './failure.js'
import type { Hosted } from './hosted.js'
import type { OwnFile } from './view.js'

const MOST_LINKS = 40
/** In one list. */
const MOST_ENTRIES = 100_000
/** How many are described at the same time. */
const BATCH = 256
const TYPES = {
  file: 'FILE_TYPE_FILE',
  directory: 'FILE_TYPE_DIRECTORY',
  symlink: 'FILE_TYPE_SYMLINK',
  other: 'FILE_TYPE_UNSPECIFIED',
} as const

export type Entry = Awaited<ReturnType<typeof describe>>

/** Describes a file. A link has the type of what it leads to. Throws RpcError for a missing one. */
export async function describe({ sandbox, view, user }: Hosted, file: string) {
  const own = await view.lstat(file)
  const isLink = own?.stats.isSymbolicLink() === true
  const stat = sandbox.files.stat(file)
  // A link may lead to itself, or to where nobody may look.
  const followed = await (isLink ? stat.catch(() => null) : stat)
  const isOwn = view.shown(file) !== file || view.mounts.some(({ target }) => file.startsWith(`${target}/`))
  if (followed === null && !(isLink && isOwn))
    throw new RpcError('not_found', `there is no file ${view.shown(file)}`)
  const mode = own === undefined ? (followed as FileInfo).mode : own.stats.mode & 0o7777
  const modified = own?.stats.mtime ?? (followed as FileInfo).modifiedAt
  const target = isLink ? await endOfLinks(view, own) : undefined
  return {
    name: path.basename(file),
    type: TYPES[followed?.type ?? 'symlink'],
    path: view.shown(file),
    size: String(own?.stats.size ?? followed?.size),
    mode,
    permissions: permissionsOf(mode, isLink ? 'L' : followed?.type === 'directory' ? 'd' : '-'),
    owner: (await nameOf('passwd', own?.stats.uid, process.getuid?.())) ?? user,
    group: (await nameOf('group', own?.stats.gid, process.getgid?.())) ?? user,
    modifiedTime: modified.toISOString(),
    ...(target === undefined ? {} : { symlinkTarget: view.shown(target) }),
  }
}

/** Describes the files in a directory: those up to `depth` levels below it. Throws RpcError for more than 100,000. */
export async function describeAll(hosted: Hosted, directory: string, depth: number): Promise<Entry[]> {
  const { files } = hosted.sandbox
  const found = await files.list(directory, depth > 1 ? { recursive: true, maxDepth: depth } : {})
  if (found.length > MOST_ENTRIES)
    throw new RpcError(
      'resource_exhausted',
      `${hosted.view.shown(directory)} has more than ${MOST_ENTRIES} files: list its directories one by one`,
    )
  const entries: Entry[] = []
  for (let at = 0; at < found.length; at += BATCH) {
    const batch = found.slice(at, at + BATCH).map((file) => describe(hosted, file.path).catch(unlessMissing))
    entries.push(...(await Promise.all(batch)).filter((entry) => entry !== undefined))
  }
  return entries
}

/** A file that was removed meanwhile is left out. */
function unlessMissing(error: unknown): undefined {
  if (!(error instanceof RpcError && error.code === 'not_found')) throw error
  return undefined
}

/** Where a chain of links ends, as far as its links are the sandbox's own. */
async function endOfLinks(view: Hosted['view'], link: OwnFile): Promise<string | undefined> {
  let { target } = link
  for (let count = 0; target !== undefined && count < MOST_LINKS; count++) {
    const next: string | undefined = (await view.lstat(target))?.target
    if (next === undefined) return target
    target = next
  }
  return target
}

function permissionsOf(mode: number, kind: string): string {
  return kind + [...'rwxrwxrwx'].map((letter, at) => (mode & (0o400 >> at) ? letter : '-')).join('')
}

type Database = 'passwd' | 'group'

/** The names of users and groups, by their numbers. */
const databases = new Map<Database, Promise<Map<string, string>>>()

/** Undefined for the own user, and his own group. */
async function nameOf(
  database: Database,
  id: number | undefined,
  own: number | undefined,
): Promise<string | undefined> {
  if (id === undefined || id === own) return undefined
  let names = databases.get(database)
  if (names === undefined) {
    names = readNames(database)
    databases.set(database, names)
  }
  return (await names).get(String(id)) ?? String(id)
}

async function readNames(database: Database): Promise<Map<string, string>> {
  const text = await readFile(`/etc/${database}`, 'utf8').catch(() => '')
  const fields = text.split('\n').map((line) => line.split(':'))
  return new Map(fields.map(([name = '', , id = '']) => [id, name]))
}
