/** Repositories below /git, by the program git in the sandbox. */
import type { EnvChanges } from 'nacre'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { type Message, readJson, sendJson, sendNothing } from '../http.js'
import { runProgram, wholeOutput } from './process.js'
import type { Routes } from './routes.js'
import { flag, listOfTexts, number, optionalText, query, text } from './values.js'

/** Between the fields of a commit, and between commits. */
const FIELD = '\x1f'
const RECORD = '\x1e'
const MOST_COMMITS = 1000
const MOST_DEPTH = 2 ** 31 - 1
/** Characters of what git printed that are looked at. */
const LONGEST_FAILURE = 4096
const LONGEST_BRANCH = 1024

/** Asks for the credentials of the request, which are not in the arguments. */
const HELPER = '!f() { echo "username=$NACRE_GIT_USER"; echo "password=$NACRE_GIT_PASSWORD"; }; f'

/** What git prints, and what the SDKs call it. */
const FAILURES: [expression: RegExp, status: number, code: string | undefined][] = [
  [
    /Authentication failed|could not read (?:Username|Password)|HTTP Basic: Access denied/,
    401,
    'GIT_AUTH_FAILED',
  ],
  [/\[rejected\]|failed to push/, 409, 'GIT_PUSH_REJECTED'],
  [/Automatic merge failed|CONFLICT/, 409, 'GIT_MERGE_CONFLICT'],
  [/a branch named .* already exists/, 409, 'GIT_BRANCH_EXISTS'],
  [/already exists/, 409, undefined],
  [
    /branch .* not found|did not match any|not a valid (?:object|branch)|invalid reference/,
    404,
    'GIT_BRANCH_NOT_FOUND',
  ],
  [
    /not a git repository|does not exist|repository .* not found|no such file or directory/i,
    404,
    'GIT_REPO_NOT_FOUND',
  ],
]

const STATES: Record<string, string> = {
  ' ': 'Unmodified',
  '?': 'Untracked',
  A: 'Added',
  C: 'Copied',
  D: 'Deleted',
  M: 'Modified',
  R: 'Renamed',
  T: 'Modified',
  U: 'Updated but unmerged',
}

export const gitRoutes: Routes = {
  'POST /git/init': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const branch = optionalText(given, 'initial_branch')
    const options = [...when(flag(given, 'bare'), '--bare'), ...when(branch, '-b', `${branch}`)]
    await git(hosted, '', ['init', '-q', ...options, '--', pathIn(hosted, given)])
    sendNothing(response, 201)
  },
  'POST /git/clone': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const [branch, commit] = [optionalText(given, 'branch'), optionalText(given, 'commit_id')]
    const depth = number(given.depth ?? 0, 'depth', 0, MOST_DEPTH)
    const options = [...when(branch, '-b', `${branch}`), ...when(depth > 0, '--depth', `${depth}`)]
    const { before, env } = accessOf(given)
    const directory = pathIn(hosted, given)
    await git(hosted, '', [...before, 'clone', '-q', ...options, '--', text(given, 'url'), directory], env)
    if (commit !== undefined) await git(hosted, directory, ['checkout', '-q', '--detach', commit])
    sendNothing(response, 200)
  },
  'GET /git/status': async ({ hosted, response, url }) => {
    const words = ['status', '--porcelain=v1', '-b', '-z', '--untracked-files=all']
    sendJson(response, 200, statusOf(await git(hosted, query(url, 'path'), words)))
  },
  'GET /git/history': async ({ hosted, response, url }) => {
    const format = `--format=%H${FIELD}%an${FIELD}%ae${FIELD}%aI${FIELD}%B${RECORD}`
    const printed = await git(hosted, query(url, 'path'), ['log', `--max-count=${MOST_COMMITS}`, format])
    sendJson(response, 200, printed.split(RECORD).slice(0, -1).map(commitOf))
  },
  'POST /git/add': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    await git(hosted, text(given, 'path'), ['add', '--', ...listOfTexts(given, 'files')])
    sendNothing(response, 200)
  },
  'POST /git/commit': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const path = text(given, 'path')
    const author = ['-c', `user.name=${text(given, 'author')}`, '-c', `user.email=${text(given, 'email')}`]
    const options = ['-q', '-m', text(given, 'message'), ...when(flag(given, 'allow_empty'), '--allow-empty')]
    await git(hosted, path, [...author, 'commit', ...options])
    sendJson(response, 200, { hash: (await git(hosted, path, ['rev-parse', 'HEAD'])).trim() })
  },
  'GET /git/branches': async ({ hosted, response, url }) => {
    const path = query(url, 'path')
    const printed = await git(hosted, path, ['for-each-ref', '--format=%(refname:short)', 'refs/heads'])
    const current = (await git(hosted, path, ['branch', '--show-current'])).trim()
    sendJson(response, 200, { branches: printed.split('\n').slice(0, -1), current })
  },
  'POST /git/branches': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    await git(hosted, text(given, 'path'), ['branch', '--', text(given, 'name')])
    sendNothing(response, 201)
  },
  'DELETE /git/branches': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    await git(hosted, text(given, 'path'), ['branch', '-D', '--', text(given, 'name')])
    sendNothing(response)
  },
  'POST /git/checkout': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    await git(hosted, text(given, 'path'), ['checkout', '-q', text(given, 'branch'), '--'])
    sendNothing(response, 200)
  },
  'POST /git/push': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const { before, env } = accessOf(given)
    const remote = optionalText(given, 'remote') ?? 'origin'
    const words = ['push', '-q', ...when(flag(given, 'set_upstream'), '-u'), '--', remote]
    await git(
      hosted,
      text(given, 'path'),
      [...before, ...words, optionalText(given, 'branch') ?? 'HEAD'],
      env,
    )
    sendNothing(response, 200)
  },
  'POST /git/pull': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const { before, env } = accessOf(given)
    const [remote, branch] = [optionalText(given, 'remote'), optionalText(given, 'branch')]
    const from = [...when(remote ?? branch, remote ?? 'origin'), ...when(branch, `${branch}`)]
    await git(hosted, text(given, 'path'), [...before, 'pull', '-q', '--', ...from], env)
    sendNothing(response, 200)
  },
  'GET /git/remotes': async ({ hosted, response, url }) => {
    const printed = await git(hosted, query(url, 'path'), ['remote', '-v'])
    const lines = [...printed.matchAll(/^(\S+)\t(.*) \(fetch\)/gm)]
    sendJson(response, 200, { remotes: lines.map(([, name, address]) => ({ name, url: address })) })
  },
  'POST /git/remotes': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const [path, name] = [text(given, 'path'), text(given, 'name')]
    if (flag(given, 'overwrite')) await git(hosted, path, ['remote', 'remove', name]).catch(() => {})
    await git(hosted, path, [
      'remote',
      'add',
      ...when(flag(given, 'fetch'), '-f'),
      '--',
      name,
      text(given, 'url'),
    ])
    sendNothing(response, 201)
  },
  'POST /git/reset': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const files = listOfTexts(given, 'files')
    const mode = when(files.length === 0, `--${optionalText(given, 'mode') ?? 'mixed'}`)
    const target = optionalText(given, 'target') ?? 'HEAD'
    await git(hosted, text(given, 'path'), ['reset', '-q', ...mode, target, '--', ...files])
    sendNothing(response, 200)
  },
  'POST /git/restore': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const source = optionalText(given, 'source')
    const where = [...when(flag(given, 'staged'), '--staged'), ...when(flag(given, 'worktree'), '--worktree')]
    const words = ['restore', ...where, ...when(source, `--source=${source}`)]
    await git(hosted, text(given, 'path'), [...words, '--', ...listOfTexts(given, 'files')])
    sendNothing(response, 200)
  },
  'GET /git/config': async ({ hosted, response, url }) => {
    const { path, scope } = scopeOf(Object.fromEntries(url.searchParams))
    const words = ['config', scope, '--default', '', '--get', '--', query(url, 'key')]
    const value = (await git(hosted, path, words)).replace(/\n$/, '')
    sendJson(response, 200, value === '' ? {} : { value })
  },
  'POST /git/config': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const { path, scope } = scopeOf(given)
    await git(hosted, path, ['config', scope, '--', text(given, 'key'), optionalText(given, 'value') ?? ''])
    sendNothing(response, 200)
  },
  'POST /git/config/user': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const { path, scope } = scopeOf(given)
    for (const name of ['name', 'email'])
      await git(hosted, path, ['config', scope, '--', `user.${name}`, text(given, name)])
    sendNothing(response, 200)
  },
}

/** Runs git. Resolves with its standard output. Throws HttpError. */
async function git(hosted: Hosted, path: string, words: string[], env: EnvChanges = {}): Promise<string> {
  const run = { cwd: path, env: { ...env, GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C.UTF-8' } }
  const output = await runProgram(hosted, ['git', ...words], run)
  if (output.exitCode === 0) return wholeOutput(output)
  // A hook of the repository may have printed anything, and the expressions take time that grows faster than their text.
  const message = `${output.stdout}${output.stderr}`.slice(-LONGEST_FAILURE).trim()
  const [, status = 400, code] = FAILURES.find(([expression]) => expression.test(message)) ?? []
  throw new HttpError(status, message, code)
}

function pathIn({ view }: Hosted, given: Message): string {
  return view.resolve(text(given, 'path'))
}

function when(condition: unknown, ...words: string[]): string[] {
  return condition ? words : []
}

/** Credentials, and what to check of the server. */
function accessOf(given: Message): { before: string[]; env: EnvChanges } {
  const [user, password] = [optionalText(given, 'username'), optionalText(given, 'password')]
  const hasCredentials = user !== undefined || password !== undefined
  const helpers = ['-c', 'credential.helper=', '-c', `credential.helper=${HELPER}`]
  const isUnchecked = flag(given, 'insecure_skip_tls')
  return {
    before: [...when(hasCredentials, ...helpers), ...when(isUnchecked, '-c', 'http.sslVerify=false')],
    env: hasCredentials ? { NACRE_GIT_USER: user ?? '', NACRE_GIT_PASSWORD: password ?? '' } : {},
  }
}

function scopeOf(given: Message): { path: string; scope: string } {
  const scope = optionalText(given, 'scope') || 'global'
  if (!['global', 'local', 'system'].includes(scope))
    throw new HttpError(400, 'scope must be global, local or system')
  return { path: scope === 'local' ? text(given, 'path') : '', scope: `--${scope}` }
}

function commitOf(record: string) {
  const [hash, author, email, timestamp, message] = record.trim().split(FIELD)
  return { hash, author, email, timestamp, message: message?.trim() }
}

function statusOf(printed: string) {
  const [head = '', ...records] = printed.split('\0').slice(0, -1)
  const [, branch = '', upstream, counts = ''] =
    /^## (?:No commits yet on )?(.+?)(?:\.\.\.(\S+))?(?: \[(.*)\])?$/.exec(head.slice(0, LONGEST_BRANCH)) ??
    []
  const count = (name: string) => Number(new RegExp(`${name} (\\d+)`).exec(counts)?.[1] ?? 0)
  const fileStatus: object[] = []
  for (let at = 0; at < records.length; at++) {
    const record = records[at] ?? ''
    const [staging = ' ', worktree = ' '] = record
    // The old name of a renamed or copied file follows.
    const extra = staging === 'R' || staging === 'C' ? (records[++at] ?? '') : ''
    fileStatus.push({
      name: record.slice(3),
      staging: STATES[staging] ?? staging,
      worktree: STATES[worktree] ?? worktree,
      extra,
    })
  }
  return {
    currentBranch: branch,
    ...(upstream === undefined ? {} : { upstream }),
    ahead: count('ahead'),
    behind: count('behind'),
    branchPublished: upstream !== undefined,
    detached: branch.startsWith('HEAD (no branch)'),
    fileStatus,
  }
}
