/** The home directories that `~` stands for in rules. */

import { loadAddon } from '../../../addon/load.js'
import { os } from '../../../base/builtin.js'
import { homeDirectory } from '../../../base/home.js'
import type { NativeUser } from '../../../boundary/index.js'

/**
 * All homes that `~` may mean, HOME of the sandbox's programs first. The programs could also read the other homes: setting
 * HOME does not move any secrets.
 */
export function homes(home: string | undefined, ownsHome: boolean, user: NativeUser | undefined): string[] {
  const ofUser = user && loadAddon().addon.homeOf(user)
  const ordered = ownsHome ? [home, ofUser] : [ofUser, home]
  return [...new Set([...ordered, homeDirectory(), recorded()].filter((one) => typeof one === 'string'))]
}

/** The home of this process's user in the user database. */
function recorded(): string | undefined {
  try {
    return os.userInfo().homedir
  } catch {
    return undefined
  }
}
