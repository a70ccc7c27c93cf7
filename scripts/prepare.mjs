/**
 * npm runs this when it installs nacre from a clone instead of the registry. The clone must be built first. That needs Rust
 * and takes minutes, so it is a separate step.
 *
 *   npm run setup
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
// In the clone itself, npm installs the tools that build it.
const isOwn = process.env.INIT_CWD === undefined || path.resolve(process.env.INIT_CWD) === root
const isBuilt = ['dist/index.js', 'native/release/nacre.node'].every((name) =>
  existsSync(path.join(root, name)),
)
if (!isOwn && !isBuilt) {
  console.error(
    `This clone of nacre is not built: run \`npm run setup\` in ${root} first, or install nacre from the registry.`,
  )
  process.exitCode = 1
}
