/** The home directory of commands in a container. */
import { chownSync, mkdirSync, realpathSync } from 'node:fs'
import { isBelow } from 'nacre/internal/server'

/** Homes that are the container's own begin with this. Nothing of the machine is mounted there. */
const OWN = '/var/lib/nacre/home-'

/** The home directory that the image gives this user, or another one if that has to do with files of the machine. */
export function ownHome(given: string, { uid, gid } = { uid: 0, gid: 0 }, places: string[] = []): string {
  if (!isShared(given, places)) return given
  const own = `${OWN}${uid}`
  mkdirSync(own, { recursive: true })
  chownSync(own, uid, gid)
  return own
}

/** Whether a home directory has one of these places, or lies in one: then it is no place for the container's own files. */
export function isShared(given: string, places: string[]): boolean {
  const home = realPath(given || '/')
  return home === '/' || places.some((place) => isBelow(place, home) || isBelow(home, place))
}

function realPath(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}
