/** Descriptions of files as envd gives them. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { FileInfo } from 'nacre'
import { RpcError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import type { OwnFile } from '../view.js'

/** The user of every sandbox, as clients know it. It is the user of this process. */
export const USER = 'user'

const MOST_LINKS = 40
const TYPES = {
  file: 'FILE_TYPE_FILE',
  directory: 'FILE_TYPE_DIRECTORY',
  symlink: 'FILE_TYPE_SYMLINK',
  other: 'FILE_TYPE_UNSPECIFIED',
} as const

/** Describes a file. A link has the type of what it leads to. Throws RpcError for a missing one. */
export async function describe({ sandbox, view }: Hosted, file: string) {
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
    owner: await nameOf('passwd', own?.stats.uid, process.getuid?.()),
    group: await nameOf('group', own?.stats.gid, process.getgid?.()),
    modifiedTime: modified.toISOString(),
    ...(target === undefined ? {} : { symlinkTarget: view.shown(target) }),
  }
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

async function nameOf(database: Database, id: number | undefined, own: number | undefined): Promise<string> {
  if (id === undefined || id === own) return USER
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
