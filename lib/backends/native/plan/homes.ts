/** Where `~` leads in rules. */
import os from 'node:os'
import { loadAddon } from '../../../addon/load.js'
import type { NativeUser } from '../../../boundary/index.js'

/**
 * HOME of a sandbox's programs, first. The others are homes that the same programs could read: a HOME of the caller's own
 * does not move anybody's secrets.
 */
export function homes(home: string | undefined, ownsHome: boolean, user: NativeUser | undefined): string[] {
  const ofUser = user && loadAddon().addon.homeOf(user)
  const ordered = ownsHome ? [home, ofUser] : [ofUser, home]
  return [...new Set([...ordered, os.homedir(), recorded()].filter((one) => typeof one === 'string'))]
}

/** The home that the user database has for this process's user. */
function recorded(): string | undefined {
  try {
    return os.userInfo().homedir
  } catch {
    return undefined
  }
}
