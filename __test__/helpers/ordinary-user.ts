/**
 * Hosts of an ordinary user. Tests that run as root start them as a user of their own, which takes setpriv(1) and a
 * checkout that this user can read.
 */
import { execFileSync } from 'node:child_process'
import { chownSync, mkdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const uid = 200_000 + (process.pid % 100_000)
const isRoot = process.geteuid?.() === 0
// The directory for temporary files of whoever runs the tests may be closed to others.
const own = path.join(os.tmpdir(), `nacre-ordinary-${uid}`)
const setpriv = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', 'env', `TMPDIR=${own}`]

/** The wrapper for `startHost`. */
export const asOrdinaryUser: string[] = isRoot ? setpriv : []

/** Its number; undefined if this is no root, which starts them as itself. */
export const ordinaryUser: number | undefined = isRoot ? uid : undefined

if (isRoot) {
  mkdirSync(own, { recursive: true })
  giveToOrdinaryUser(own)
  // A worker runs several files, and evaluates this module once.
  process.once('exit', () => rmSync(own, { recursive: true, force: true }))
}

/** Gives a directory to that user. */
export function giveToOrdinaryUser(directory: string): void {
  if (isRoot) chownSync(directory, uid, uid)
}

/** Why such a host cannot be started here; undefined if it can. */
export const obstacle: string | undefined = findObstacle()

function findObstacle(): string | undefined {
  if (!isRoot) return undefined
  try {
    const root = path.dirname(path.dirname(__dirname))
    const [program = '', ...rest] = setpriv
    execFileSync(program, [...rest, process.execPath, '-e', `require(${JSON.stringify(root)})`])
    return undefined
  } catch (error) {
    return `no other user can run this: ${error}`
  }
}
