/** Paths of this machine, looked at without errors: what rules and options name may be missing. */
import { fs } from '../../../base/builtin.js'

/** True for `root` and everything below it. Both are absolute paths without dots. */
export function isWithin(file: string, root: string): boolean {
  return file === root || root === '/' || file.startsWith(`${root}/`)
}

/** The path with links resolved; undefined if it does not exist. */
export function realOf(file: string): string | undefined {
  try {
    return fs.realpathSync.native(file)
  } catch {
    return undefined
  }
}

/** Where a link leads; undefined for anything else. */
export function linkTarget(file: string): string | undefined {
  try {
    return fs.readlinkSync(file)
  } catch {
    return undefined
  }
}
