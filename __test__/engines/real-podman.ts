/** The real Podman of the tests, from scripts/test-engines.mjs. */
import { execFileSync } from 'node:child_process'
import path from 'node:path'
import type { EngineSandbox } from 'nacre/engine'

/** The directory with the program. */
export const programs = process.env.NACRE_TEST_ENGINES ?? ''
/** Milliseconds until an idle container stops. */
export const GRACE = 1000
/** The uid that macOS gives to its first user. */
export const USER = 501

export function podman(...args: string[]): string {
  return execFileSync(path.join(programs, 'podman'), args, { encoding: 'utf8', stdio: 'pipe' }).trim()
}

/** False if Podman stumbles over a container that stops at that moment. */
export function removeAll(): boolean {
  try {
    podman('rm', '--all', '--force', '--volumes', '--time', '0')
    return true
  } catch {
    return false
  }
}

/** What a command prints, which must succeed. */
export const shell = async (sandbox: EngineSandbox, command: string) =>
  (await sandbox.exec(command, { check: true })).stdout.trim()
