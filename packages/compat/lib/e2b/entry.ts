/** Descriptions of files as envd gives them. */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { FileInfo, Files } from 'nacre'
import { RpcError } from '../failure.js'
import type { Hosted } from '../hosted.js'

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
export async function describe({ sandbox: { files }, view }: Hosted, file: string, known?: FileInfo) {
  const found = known ?? (await files.stat(file, { followSymlinks: false }))
  if (found === null) throw new RpcError('not_found', `there is no file ${view.shown(file)}`)
  const isLink = found.type === 'symlink'
  // A link may lead to itself, or to where nobody may look.
  const { type } = (isLink && (await files.stat(file).catch(() => null))) || found
  const target = isLink ? await endOfLinks(files, found) : undefined
  return {
    name: path.basename(file),
    type: TYPES[type],
    path: view.shown(file),
    size: String(found.size),
    mode: found.mode,
    permissions: permissionsOf(found.mode, isLink ? 'L' : type === 'directory' ? 'd' : '-'),
    owner: await nameOf('passwd', found.uid, process.getuid?.()),
    group: await nameOf('group', found.gid, process.getgid?.()),
    modifiedTime: found.modifiedAt.toISOString(),
    ...(target === undefined ? {} : { symlinkTarget: view.shown(target) }),
  }
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

async function nameOf(database: Database, id: number, own: number | undefined): Promise<string> {
  if (id === own) return USER
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
