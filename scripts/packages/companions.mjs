/** The companion packages of nacre, in packages/. Uses only Node's own modules: the release publishes without an installation. */
import { readdirSync } from 'node:fs'
import path from 'node:path'

/** The names of their directories. */
export function companions(root) {
  return readdirSync(path.join(root, 'packages'))
}
