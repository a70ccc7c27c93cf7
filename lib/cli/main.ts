#!/usr/bin/env node
/**
 * The entry of `nacre`, which refuses a Node.js that is too old. It imports nothing before: the other modules would fail
 * there with errors that do not name the reason.
 */

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
/** As in package.json. */
const isSupported = (major === 20 && minor >= 19) || (major === 22 && minor >= 3) || major > 22
if (isSupported) void import('./run.js')
else {
  console.error(
    `nacre: this is Node.js ${process.versions.node}; install Node.js 20.19 or a later 20, or 22.3 or newer`,
  )
  process.exitCode = 1
}
