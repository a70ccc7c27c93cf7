/**
 * A C compiler and linker for one target, based on zig.
 *
 *   node scripts/packages/zig-cc.mjs ZIG TARGET ARGUMENTS...
 */
import { spawnSync } from 'node:child_process'
import { zigArguments } from './zig-arguments.mjs'

const [zig, target, ...args] = process.argv.slice(2)
const { status, error } = spawnSync(zig, zigArguments(target, args), { stdio: 'inherit' })
if (error) console.error(`${zig}: ${error.message}`)
process.exit(status ?? 1)
