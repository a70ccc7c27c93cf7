/** The companion packages of nacre, in packages/. Uses only Node's own modules: the release publishes without an installation. */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'

/** The names of their directories. With `file`, only of those that have it: `@nacre/sandboxd` has no API of its own. */
export function companions(root, file = 'package.json') {
  return readdirSync(path.join(root, 'packages')).filter((name) =>
    existsSync(path.join(root, 'packages', name, file)),
  )
}
