/** Settings of git in a container. */
import { fs } from '../base/builtin.js'
import { call } from './call.js'
import type { SearchPath } from './search-path.js'

/** Milliseconds that git has to read a setting. */
const READ_MS = 2000
/** Characters of a setting that are taken. The repository may be anybody's, and variables have a limit. */
const MOST_CHARACTERS = 1000
/** What this user's commits have. */
const TAKEN = ['user.name', 'user.email', 'init.defaultBranch']
/** macOS has a git that only offers to install developer tools, in a window, until one of these exists. */
const STUB = '/usr/bin/git'
const TOOLS = ['/Library/Developer/CommandLineTools/usr/bin/git', '/Applications/Xcode.app']

/**
 * As variables: the name for commits. Files may seem to be another user's. Both systems share one index, but see other inode
 * numbers and times.
 */
export async function gitSettings(
  cwd: string,
  signal: AbortSignal | undefined,
  search: SearchPath,
): Promise<Record<string, string>> {
  const git = search.find('git')
  const isUsable = git !== STUB || process.platform !== 'darwin' || TOOLS.some((file) => fs.existsSync(file))
  const options = { env: { ...search.env, GIT_DIR: undefined }, timeout: READ_MS, signal }
  const read = async (name: string): Promise<Array<[string, string]>> => {
    if (git === undefined || !isUsable) return []
    const { isOk, stdout } = await call(git, ['-C', cwd, 'config', '--get', name], options)
    return isOk && stdout !== '' && stdout.length <= MOST_CHARACTERS ? [[name, stdout]] : []
  }
  const taken = (await Promise.all(TAKEN.map(read))).flat()
  const settings = [
    ['safe.directory', '*'],
    ['core.checkStat', 'minimal'],
    ['core.trustctime', 'false'],
    ...taken,
  ]
  return Object.fromEntries([
    ['GIT_CONFIG_COUNT', String(settings.length)],
    ...settings.flatMap(([key, value], at) => [
      [`GIT_CONFIG_KEY_${at}`, key],
      [`GIT_CONFIG_VALUE_${at}`, value],
    ]),
  ])
}
