/** Descriptions of files. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { FileInfo, Files } from 'nacre'
import { plans } from 'nacre/internal'

import { RpcError } from './failure.js'
import type { Hosted } from './hosted.js'

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
export async function describe({ sandbox, view, user }: Hosted, file: string, known?: FileInfo) {
  const { files } = sandbox
  const found = known ?? (await files.stat(file, { followSymlinks: false }))
  if (found === null) throw new RpcError('not_found', `there is no file ${view.shown(file)}`)
  const isLink = found.type === 'symlink'
  // A link may lead to itself, or to a place that may not be read.
  const { type } = (isLink && (await files.stat(file).catch(() => null))) || found
  const target = isLink ? await endOfLinks(files, found) : undefined
  return {
    name: path.basename(file),
    type: TYPES[type],
    path: view.shown(file),
    size: String(found.size),
    mode: found.mode,
    permissions: permissionsOf(found.mode, isLink ? 'L' : type === 'directory' ? 'd' : '-'),
    owner: (await nameOf('passwd', found.uid, process.getuid?.())) ?? user,
    group: (await nameOf('group', found.gid, process.getgid?.())) ?? user,
    modifiedTime: found.modifiedAt.toISOString(),
    ...(target === undefined ? {} : { symlinkTarget: view.shown(target) }),
  }
}

/**
 * Describes the files in a directory: those up to `depth` levels below it. Throws SandboxError for more than 100,000.
 * `describeOne` describes each of them.
 */
export async function describeAll(
  hosted: Hosted,
  directory: string,
  depth: number,
  describeOne: (hosted: Hosted, file: string, known: FileInfo) => Promise<Entry> = describe,
): Promise<Entry[]> {
  const files = hosted.backend.files(plans.DEFAULT_SESSION)
  const plan = plans.planFileList(directory, { recursive: true, maxDepth: depth })
  const found = await files.list(plan.path, plan.depth, MOST_ENTRIES)
  const entries: Entry[] = []
  for (let at = 0; at < found.length; at += BATCH) {
    const batch = found.slice(at, at + BATCH)
    entries.push(...(await Promise.all(batch.map((file) => describeOne(hosted, file.path, file)))))
  }
  return entries
}

/** Where a chain of links ends. */
async function endOfLinks(files: Files, link: FileInfo): Promise<string> {
  let end = targetOf(link)
  for (let count = 0; count < MOST_LINKS; count++) {
    const next = await files.stat(end, { followSymlinks: false }).catch(() => null)
    if (next?.type !== 'symlink') break
    end = targetOf(next)
  }
  return end
}

function targetOf({ path: link, target = '' }: FileInfo): string {
  return path.resolve(path.dirname(link), target)
}

function permissionsOf(mode: number, kind: string): string {
  return kind + [...'rwxrwxrwx'].map((letter, at) => (mode & (0o400 >> at) ? letter : '-')).join('')
}

type Database = 'passwd' | 'group'

/** The names of users and groups, by their numbers. */
const databases = new Map<Database, Promise<Map<string, string>>>()

/** Undefined for the own user, and his own group. */
async function nameOf(database: Database, id: number, own: number | undefined): Promise<string | undefined> {
  if (id === own) return undefined
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
